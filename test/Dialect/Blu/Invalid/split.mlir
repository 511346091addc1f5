// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @split_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.split' op dim is -1, the input has rank 2}}
  %y:2 = blu.split %x dim = -1 [2, 2] : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>)
  return
}

// -----

func.func @split_C2(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.split' op parts add up to 5, dim 1 is 4}}
  %y:2 = blu.split %x dim = 1 [2, 3] : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x3xf32>)
  return
}

// -----

func.func @split_C2_not_positive(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.split' op part of size 0, expected at least 1}}
  %y:2 = blu.split %x dim = 1 [4, 0] : (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x0xf32>)
  return
}

// -----

func.func @split_result_count(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.split' op has 1 results, expected 2}}
  %y = blu.split %x dim = 1 [2, 2] : (tensor<3x4xf32>) -> tensor<3x2xf32>
  return
}
