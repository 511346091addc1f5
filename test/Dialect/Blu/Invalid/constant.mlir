// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @constant_C1() {
  // expected-error @+1 {{'blu.constant' op failed to verify that all of {value, result} have same type}}
  %y = "blu.constant"() <{value = dense<0.5> : tensor<f32>}> : () -> tensor<2xf32>
  return
}
