// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @adamw_C1(%p: tensor<3x4xf32>, %m: tensor<4xf32>, %t: tensor<i64>, %s: tensor<f64>) {
  // expected-error @+1 {{'blu.adamw' op failed to verify that all of {param, grad, m, v, new_param, new_m, new_v} have same type}}
  %u:3 = "blu.adamw"(%p, %p, %m, %p, %t, %s, %s, %s, %s, %s) : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<4xf32>, tensor<3x4xf32>, tensor<i64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>)
  return
}

// -----

func.func @adamw_C2(%p: tensor<3x4xf32>, %t: tensor<i64>, %r: tensor<f32>, %s: tensor<f64>) {
  // expected-error @+1 {{'blu.adamw' op operand #5 must be rank-0 tensor of f64, but got 'tensor<f32>'}}
  %u:3 = "blu.adamw"(%p, %p, %p, %p, %t, %r, %s, %s, %s, %s) : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<i64>, tensor<f32>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>)
  return
}

// -----

func.func @adamw_C2_condition(%p: tensor<3x4xf32>, %t: tensor<i64>, %s: tensor<f64>, %ok: tensor<1xi1>) {
  // expected-error @+1 {{'blu.adamw' op operand #10 must be rank-0 tensor of i1, but got 'tensor<1xi1>'}}
  %u:3 = "blu.adamw"(%p, %p, %p, %p, %t, %s, %s, %s, %s, %s, %ok) : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<i64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<f64>, tensor<1xi1>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>)
  return
}
