// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @gelu_grad_C1(%x: tensor<3x4xf32>, %g: tensor<3x5xf32>) {
  // expected-error @+1 {{'blu.gelu_grad' op failed to verify that all of {input, grad, result} have same type}}
  %y = "blu.gelu_grad"(%x, %g) <{kind = 0 : i32}> : (tensor<3x4xf32>, tensor<3x5xf32>) -> tensor<3x4xf32>
  return
}
