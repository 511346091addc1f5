// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @positions_C1(%t: tensor<4xi32>) {
  // expected-error @+1 {{'blu.positions' op dim is 1, the input has rank 1}}
  %y = blu.positions %t dim = 1 : (tensor<4xi32>) -> tensor<4xi32>
  return
}
