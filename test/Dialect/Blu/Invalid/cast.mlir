// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @cast_C1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.cast' op requires the same shape for all operands and results}}
  %y = blu.cast %x : tensor<3x4xf32> to tensor<4x3xf64>
  return
}
