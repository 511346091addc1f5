// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @gelu_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.gelu' op failed to verify that all of {input, result} have same type}}
  %y = "blu.gelu"(%x) <{kind = 0 : i32}> : (tensor<3x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @gelu_kind(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{custom op 'blu.gelu' expected string or keyword containing one of the following enum values for attribute 'kind' [tanh, erf]}}
  %y = blu.gelu %x approximate(exact) : tensor<3x4xf32>
  return
}
