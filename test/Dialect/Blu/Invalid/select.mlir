// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @select_C1(%c: tensor<3x4xi1>, %a: tensor<3x4xf32>, %b: tensor<f64>) {
  // expected-error @+1 {{'blu.select' op element types 'f32' and 'f64' differ}}
  %y = blu.select %c, %a, %b : (tensor<3x4xi1>, tensor<3x4xf32>, tensor<f64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @select_C2(%c: tensor<2x4xi1>, %a: tensor<3x4xf32>, %b: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.select' op shapes 2x4 and 3x4 do not broadcast: extents 2 and 3 differ and neither is 1}}
  %y = blu.select %c, %a, %b : (tensor<2x4xi1>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return
}
