// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @compare_C1(%a: tensor<3x4xf32>, %b: tensor<4xi32>) {
  // expected-error @+1 {{'blu.compare' op element types 'f32' and 'i32' differ}}
  %y = blu.compare gt %a, %b : (tensor<3x4xf32>, tensor<4xi32>) -> tensor<3x4xi1>
  return
}

// -----

func.func @compare_C2(%a: tensor<3x4xf32>, %b: tensor<2x4xf32>) {
  // expected-error @+1 {{'blu.compare' op shapes 3x4 and 2x4 do not broadcast: extents 3 and 2 differ and neither is 1}}
  %y = blu.compare gt %a, %b : (tensor<3x4xf32>, tensor<2x4xf32>) -> tensor<3x4xi1>
  return
}

// -----

func.func @compare_predicate(%a: tensor<3x4xf32>) {
  // expected-error @+1 {{custom op 'blu.compare' expected string or keyword containing one of the following enum values for attribute 'predicate' [eq, ne, lt, le, gt, ge]}}
  %y = blu.compare less %a, %a : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
  return
}
