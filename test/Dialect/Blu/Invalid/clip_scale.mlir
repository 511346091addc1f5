// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @clip_scale_C1(%n: tensor<1xf32>, %c: tensor<f64>) {
  // expected-error @+1 {{'blu.clip_scale' op operand #0 must be 0D tensor of 64-bit float or 32-bit float or bfloat16 type values, but got 'tensor<1xf32>'}}
  %y = blu.clip_scale %n, %c : (tensor<1xf32>, tensor<f64>) -> tensor<1xf32>
  return
}

// -----

func.func @clip_scale_C1_limit(%n: tensor<f32>) {
  // expected-error @+1 {{'blu.clip_scale' op operand #1 must be rank-0 tensor of f64, but got 'tensor<f32>'}}
  %y = blu.clip_scale %n, %n : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return
}
