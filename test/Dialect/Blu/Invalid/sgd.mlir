// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @sgd_C1(%p: tensor<3x4xf32>, %m: tensor<4xf32>, %s: tensor<f64>) {
  // expected-error @+1 {{'blu.sgd' op failed to verify that all of {param, grad, m, new_param, new_m} have same type}}
  %u:2 = "blu.sgd"(%p, %p, %m, %s, %s, %s) : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<4xf32>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<3x4xf32>, tensor<3x4xf32>)
  return
}

// -----

func.func @sgd_C2(%p: tensor<3x4xf32>, %r: tensor<f32>, %s: tensor<f64>) {
  // expected-error @+1 {{'blu.sgd' op operand #3 must be rank-0 tensor of f64, but got 'tensor<f32>'}}
  %u:2 = "blu.sgd"(%p, %p, %p, %r, %s, %s) : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<f32>, tensor<f64>, tensor<f64>) -> (tensor<3x4xf32>, tensor<3x4xf32>)
  return
}
