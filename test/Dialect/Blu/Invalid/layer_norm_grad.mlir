// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @layer_norm_grad_C1(%x: tensor<3x4xf32>, %w: tensor<4xf32>, %g: tensor<4x4xf32>) {
  // expected-error @+1 {{'blu.layer_norm_grad' op cotangent has type 'tensor<4x4xf32>', the input has 'tensor<3x4xf32>'}}
  %y:3 = blu.layer_norm_grad %x, %w, %g eps = 1.0e-5 : (tensor<3x4xf32>, tensor<4xf32>, tensor<4x4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @layer_norm_grad_C1_weight(%x: tensor<3x4xf32>, %w: tensor<3xf32>) {
  // expected-error @+1 {{'blu.layer_norm_grad' op weight has type 'tensor<3xf32>', expected 'tensor<4xf32>'}}
  %y:3 = blu.layer_norm_grad %x, %w, %x eps = 1.0e-5 : (tensor<3x4xf32>, tensor<3xf32>, tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>)
  return
}

// -----

func.func @layer_norm_grad_C2(%x: tensor<3x4xf32>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'blu.layer_norm_grad' op eps is 0.000000e+00, expected a positive number}}
  %y:3 = blu.layer_norm_grad %x, %w, %x eps = 0.0 : (tensor<3x4xf32>, tensor<4xf32>, tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
