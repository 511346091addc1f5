// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @local_shard_C1(%x: tensor<8xf32>) {
  // expected-error @+1 {{'blu.local_shard' op has 1 inputs, 1 results and size 1, expected as many results as inputs and a size of at least 2}}
  %y = blu.local_shard %x axis = "dp" size = 1 : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @local_shard_C2(%x: tensor<3x5xf32>) {
  // expected-error @+1 {{'blu.local_shard' op result 0 is 'tensor<9xf32>', expected 'tensor<8xf32>'}}
  %y = blu.local_shard %x axis = "dp" size = 2 : (tensor<3x5xf32>) -> tensor<9xf32>
  return
}
