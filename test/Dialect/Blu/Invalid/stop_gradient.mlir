// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @stop_gradient_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.stop_gradient' op requires the same type for all operands and results}}
  %y = "blu.stop_gradient"(%x) : (tensor<3x4xf32>) -> tensor<4x3xf32>
  return
}
