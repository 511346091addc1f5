// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @cross_entropy_grad_C1(%x: tensor<3x4xf32>, %t: tensor<4xi32>, %g: tensor<f32>) {
  // expected-error @+1 {{'blu.cross_entropy_grad' op targets have shape 4, expected 3}}
  %y = blu.cross_entropy_grad %x, %t, %g ignore_index = -100 : (tensor<3x4xf32>, tensor<4xi32>, tensor<f32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @cross_entropy_grad_C2(%x: tensor<3x4xf32>, %t: tensor<3xi32>, %g: tensor<4xf32>) {
  // expected-error @+1 {{'blu.cross_entropy_grad' op cotangent has shape 4, targets have 3}}
  %y = blu.cross_entropy_grad %x, %t, %g ignore_index = -100 : (tensor<3x4xf32>, tensor<3xi32>, tensor<4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @cross_entropy_grad_C3(%x: tensor<3x4xf32>, %t: tensor<3xi32>, %g: tensor<f32>) {
  // expected-error @+1 {{'blu.cross_entropy_grad' op classes is 0, expected at least 1 and at most the 4 of the logits' last dim}}
  %y = blu.cross_entropy_grad %x, %t, %g ignore_index = -100 classes = 0 : (tensor<3x4xf32>, tensor<3xi32>, tensor<f32>) -> tensor<3x4xf32>
  return
}
