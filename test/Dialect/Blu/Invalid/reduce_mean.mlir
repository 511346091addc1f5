// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @reduce_mean_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.reduce_mean' op reduces dim 2, the input has rank 2}}
  %y = blu.reduce_mean %x [2] : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @reduce_mean_C1_order(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.reduce_mean' op reduced dims 1, 0 are not in ascending order}}
  %y = blu.reduce_mean %x [1, 0] : (tensor<3x4xf32>) -> tensor<f32>
  return
}
