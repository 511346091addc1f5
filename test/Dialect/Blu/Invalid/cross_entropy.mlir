// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @cross_entropy_C1(%x: tensor<3x4xf32>, %t: tensor<4xi32>) {
  // expected-error @+1 {{'blu.cross_entropy' op targets have shape 4, expected 3}}
  %y = blu.cross_entropy %x, %t ignore_index = -100 reduction(mean) : (tensor<3x4xf32>, tensor<4xi32>) -> tensor<f32>
  return
}

// -----

func.func @cross_entropy_C2(%x: tensor<f32>, %t: tensor<i32>) {
  // expected-error @+1 {{'blu.cross_entropy' op logits have rank 0, expected at least 1}}
  %y = blu.cross_entropy %x, %t ignore_index = -100 reduction(sum) : (tensor<f32>, tensor<i32>) -> tensor<f32>
  return
}

// -----

func.func @cross_entropy_C3(%x: tensor<3x4xf32>, %t: tensor<3xi32>) {
  // expected-error @+1 {{'blu.cross_entropy' op classes is 5, expected at least 1 and at most the 4 of the logits' last dim}}
  %y = blu.cross_entropy %x, %t ignore_index = -100 reduction(sum) classes = 5 : (tensor<3x4xf32>, tensor<3xi32>) -> tensor<f32>
  return
}
