// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @matmul_C1_element_types(%a: tensor<3x4xf32>, %b: tensor<4x5xbf16>) {
  // expected-error @+1 {{'blu.matmul' op element types 'f32' and 'bf16' differ}}
  %y = blu.matmul %a, %b : (tensor<3x4xf32>, tensor<4x5xbf16>) -> tensor<3x5xf32>
  return
}

// -----

func.func @matmul_C1_rank(%a: tensor<3x4xf32>, %b: tensor<f32>) {
  // expected-error @+1 {{'blu.matmul' op rhs has rank 0, expected at least 1}}
  %y = blu.matmul %a, %b : (tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32>
  return
}

// -----

func.func @matmul_C1_transposed_vector(%a: tensor<4xf32>, %b: tensor<4x5xf32>) {
  // expected-error @+1 {{'blu.matmul' op lhs has rank 1, expected at least 2 to be transposed}}
  %y = blu.matmul %a, %b trans_a : (tensor<4xf32>, tensor<4x5xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @matmul_C2(%a: tensor<2x64xf32>, %b: tensor<32x3xf32>) {
  // expected-error @+1 {{'blu.matmul' op contracting dims differ: lhs dim 1 is 64, rhs dim 0 is 32}}
  %y = blu.matmul %a, %b : (tensor<2x64xf32>, tensor<32x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @matmul_C2_transposed(%a: tensor<7x64x2xf32>, %b: tensor<3x32xf32>) {
  // expected-error @+1 {{'blu.matmul' op contracting dims differ: lhs dim 1 is 64, rhs dim 1 is 32}}
  %y = blu.matmul %a, %b trans_a trans_b : (tensor<7x64x2xf32>, tensor<3x32xf32>) -> tensor<7x2x3xf32>
  return
}

// -----

func.func @matmul_C3(%a: tensor<2x3x4xf32>, %b: tensor<5x4x3xf32>) {
  // expected-error @+1 {{'blu.matmul' op shapes 2 and 5 do not broadcast: extents 2 and 5 differ and neither is 1}}
  %y = blu.matmul %a, %b : (tensor<2x3x4xf32>, tensor<5x4x3xf32>) -> tensor<2x3x3xf32>
  return
}

// -----

func.func @matmul_C4(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) {
  // expected-error @+1 {{'blu.matmul' op is wide with operands of 'f32', expected bf16}}
  %y = blu.matmul %a, %b wide : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  return
}
