// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @div_C1(%a: tensor<3x4xf32>, %b: tensor<4xf64>) {
  // expected-error @+1 {{'blu.div' op element types 'f32' and 'f64' differ}}
  %y = blu.div %a, %b : (tensor<3x4xf32>, tensor<4xf64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @div_C2(%a: tensor<3x4xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'blu.div' op shapes 3x4 and 3 do not broadcast: extents 4 and 3 differ and neither is 1}}
  %y = blu.div %a, %b : (tensor<3x4xf32>, tensor<3xf32>) -> tensor<3x4xf32>
  return
}
