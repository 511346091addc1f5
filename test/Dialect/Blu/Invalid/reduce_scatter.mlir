// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @reduce_scatter_C1(%x: tensor<8xf32>) {
  // expected-error @+1 {{'blu.reduce_scatter' op has 1 inputs, 1 results and size 1, expected as many results as inputs and a size of at least 2}}
  %y = blu.reduce_scatter %x axis = "dp" size = 1 : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @reduce_scatter_C2(%x: tensor<3x5xf32>) {
  // expected-error @+1 {{'blu.reduce_scatter' op result 0 is 'tensor<9xf32>', expected 'tensor<8xf32>'}}
  %y = blu.reduce_scatter %x axis = "dp" size = 2 : (tensor<3x5xf32>) -> tensor<9xf32>
  return
}
