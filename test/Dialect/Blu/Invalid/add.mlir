// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @add_C1(%a: tensor<3x4xf32>, %b: tensor<4xf64>) {
  // expected-error @+1 {{'blu.add' op element types 'f32' and 'f64' differ}}
  %y = blu.add %a, %b : (tensor<3x4xf32>, tensor<4xf64>) -> tensor<3x4xf32>
  return
}

// -----

func.func @add_C2(%a: tensor<3x4xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'blu.add' op shapes 3x4 and 3 do not broadcast: extents 4 and 3 differ and neither is 1}}
  %y = blu.add %a, %b : (tensor<3x4xf32>, tensor<3xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @add_result_type(%a: tensor<3x4xf32>, %b: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.add' op result 0 has type 'tensor<3x5xf32>', expected 'tensor<3x4xf32>'}}
  %y = blu.add %a, %b : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @add_element_type(%a: tensor<2xf16>) {
  // expected-error @+1 {{'blu.add' op operand #0 must be ranked tensor of 64-bit float or 32-bit float or bfloat16 type or 64-bit signless integer or 32-bit signless integer values, but got 'tensor<2xf16>'}}
  %y = blu.add %a, %a : (tensor<2xf16>, tensor<2xf16>) -> tensor<2xf16>
  return
}
