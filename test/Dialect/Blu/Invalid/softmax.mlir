// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @softmax_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.softmax' op dim is 2, the input has rank 2}}
  %y = blu.softmax %x dim = 2 : tensor<3x4xf32>
  return
}

// -----

func.func @softmax_C1_negative(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.softmax' op dim is -1, the input has rank 2}}
  %y = blu.softmax %x dim = -1 : tensor<3x4xf32>
  return
}
