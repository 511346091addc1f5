// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @maximum_C1(%a: tensor<3x4xf32>, %b: tensor<4xf64>) {
  // expected-error @+1 {{'blu.maximum' op element types 'f32' and 'f64' differ}}
  %y = blu.maximum %a, %b : (tensor<3x4xf32>, tensor<4xf64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @maximum_C2(%a: tensor<3x4xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'blu.maximum' op shapes 3x4 and 3 do not broadcast: extents 4 and 3 differ and neither is 1}}
  %y = blu.maximum %a, %b : (tensor<3x4xf32>, tensor<3xf32>) -> tensor<3x4xf32>
  return
}
