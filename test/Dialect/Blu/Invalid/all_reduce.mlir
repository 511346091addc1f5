// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @all_reduce_C1(%x: tensor<8xf32>) {
  // expected-error @+1 {{'blu.all_reduce' op has 1 inputs, 1 results and size 1, expected as many results as inputs and a size of at least 2}}
  %y = blu.all_reduce %x axis = "dp" size = 1 : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @all_reduce_C2(%x: tensor<8xf32>) {
  // expected-error @+1 {{'blu.all_reduce' op result 0 is 'tensor<4xf32>', expected 'tensor<8xf32>'}}
  %y = blu.all_reduce %x axis = "dp" size = 2 : (tensor<8xf32>) -> tensor<4xf32>
  return
}
