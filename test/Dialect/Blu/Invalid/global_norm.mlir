// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @global_norm_C1_empty() {
  // expected-error @+1 {{'blu.global_norm' op has no operands, expected at least one}}
  %y = blu.global_norm : () -> tensor<f32>
  return
}

// -----

func.func @global_norm_C1(%a: tensor<3x4xf32>, %b: tensor<4xbf16>) {
  // expected-error @+1 {{'blu.global_norm' op element types 'f32' and 'bf16' differ}}
  %y = blu.global_norm %a, %b : (tensor<3x4xf32>, tensor<4xbf16>) -> tensor<f32>
  return
}
