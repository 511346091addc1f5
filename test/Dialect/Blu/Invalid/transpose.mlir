// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @transpose_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.transpose' op expected a permutation of the 2 dims, got [0, 0]}}
  %y = blu.transpose %x [0, 0] : (tensor<3x4xf32>) -> tensor<3x3xf32>
  return
}

// -----

func.func @transpose_C1_rank(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.transpose' op expected a permutation of the 2 dims, got [0]}}
  %y = blu.transpose %x [0] : (tensor<3x4xf32>) -> tensor<3xf32>
  return
}
