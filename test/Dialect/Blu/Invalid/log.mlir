// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @log_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.log' op requires the same type for all operands and results}}
  %y = "blu.log"(%x) : (tensor<3x4xf32>) -> tensor<4x3xf32>
  return
}

// -----

func.func @log_integer(%x: tensor<4xi32>) {
  // expected-error @+1 {{'blu.log' op operand #0 must be ranked tensor of 64-bit float or 32-bit float or bfloat16 type values, but got 'tensor<4xi32>'}}
  %y = blu.log %x : tensor<4xi32>
  return
}
