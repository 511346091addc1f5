// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @linear_C1_element_types(%x: tensor<3x4xf32>, %w: tensor<5x4xf64>) {
  // expected-error @+1 {{'blu.linear' op input has element type 'f32', weight has 'f64'}}
  %y = blu.linear %x, %w : (tensor<3x4xf32>, tensor<5x4xf64>) -> tensor<3x5xf32>
  return
}

// -----

func.func @linear_C1_rank(%x: tensor<f32>, %w: tensor<5x4xf32>) {
  // expected-error @+1 {{'blu.linear' op input has rank 0 and weight 2, expected at least 1 and 2}}
  %y = blu.linear %x, %w : (tensor<f32>, tensor<5x4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @linear_C2(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>) {
  // expected-error @+1 {{'blu.linear' op contracting dims differ: input dim 1 is 4, weight dim 1 is 5}}
  %y = blu.linear %x, %w : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @linear_C3(%x: tensor<3x4xf32>, %w: tensor<5x4xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'blu.linear' op bias has type 'tensor<4xf32>', expected 'tensor<5xf32>'}}
  %y = blu.linear %x, %w, %b : (tensor<3x4xf32>, tensor<5x4xf32>, tensor<4xf32>) -> tensor<3x5xf32>
  return
}

// -----

func.func @linear_C1_bias(%x: tensor<3x4xbf16>, %w: tensor<5x4xbf16>, %b: tensor<5xbf16>) {
  // expected-error @+1 {{'blu.linear' op bias has type 'tensor<5xbf16>', expected 'tensor<5xf32>'}}
  %y = blu.linear %x, %w, %b wide : (tensor<3x4xbf16>, tensor<5x4xbf16>, tensor<5xbf16>) -> tensor<3x5xf32>
  return
}

// -----

func.func @linear_C4(%x: tensor<3x4xf64>, %w: tensor<5x4xf64>) {
  // expected-error @+1 {{'blu.linear' op is wide with operands of 'f64', expected bf16}}
  %y = blu.linear %x, %w wide : (tensor<3x4xf64>, tensor<5x4xf64>) -> tensor<3x5xf32>
  return
}
