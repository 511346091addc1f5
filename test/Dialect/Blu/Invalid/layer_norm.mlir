// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @layer_norm_C1(%x: tensor<3x4xf32>, %w: tensor<4xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'blu.layer_norm' op bias has type 'tensor<3xf32>', expected 'tensor<4xf32>'}}
  %y = blu.layer_norm %x, %w, %b eps = 1.0e-5 : (tensor<3x4xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @layer_norm_C1_element_type(%x: tensor<3x4xf32>, %w: tensor<4xf64>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'blu.layer_norm' op weight has type 'tensor<4xf64>', expected 'tensor<4xf32>'}}
  %y = blu.layer_norm %x, %w, %b eps = 1.0e-5 : (tensor<3x4xf32>, tensor<4xf64>, tensor<4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @layer_norm_C1_rank(%x: tensor<f32>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'blu.layer_norm' op input has rank 0, expected at least 1}}
  %y = blu.layer_norm %x, %w, %w eps = 1.0e-5 : (tensor<f32>, tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return
}

// -----

func.func @layer_norm_C2(%x: tensor<3x4xf32>, %w: tensor<4xf32>) {
  // expected-error @+1 {{'blu.layer_norm' op eps is -1.000000e-05, expected a positive number}}
  %y = blu.layer_norm %x, %w, %w eps = -1.0e-5 : (tensor<3x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return
}
