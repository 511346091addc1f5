// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @accumulate_C1(%xs: tensor<2x8xf32>) {
  // expected-error @+1 {{'blu.accumulate' op count is 0, expected at least 1}}
  %s = blu.accumulate [0] slices(%x = %xs) : (tensor<2x8xf32>) -> tensor<8xf32> {
    blu.yield %x : tensor<8xf32>
  }
  return
}

// -----

func.func @accumulate_C1_extent(%xs: tensor<2x8xf32>) {
  // expected-error @+1 {{'blu.accumulate' op stacked operand 0 has type 'tensor<2x8xf32>', expected a dim 0 of 3}}
  %s = blu.accumulate [3] slices(%x = %xs) : (tensor<2x8xf32>) -> tensor<8xf32> {
    blu.yield %x : tensor<8xf32>
  }
  return
}

// -----

func.func @accumulate_C1_scalar(%xs: tensor<f32>) {
  // expected-error @+1 {{custom op 'blu.accumulate' stacked operand has type 'tensor<f32>', expected a tensor with a microbatch dim}}
  %s = blu.accumulate [3] slices(%x = %xs) : (tensor<f32>) -> tensor<f32> {
    blu.yield %x : tensor<f32>
  }
  return
}

// -----

func.func @accumulate_C2(%xs: tensor<2x8xf32>) {
  // expected-error @+1 {{'blu.accumulate' op body yields 'tensor<8xf32>' for result 0, expected 'tensor<4xf32>'}}
  %s = blu.accumulate [2] slices(%x = %xs) : (tensor<2x8xf32>) -> tensor<4xf32> {
    blu.yield %x : tensor<8xf32>
  }
  return
}

// -----

func.func @accumulate_C2_count(%xs: tensor<2x8xf32>) {
  // expected-error @+1 {{'blu.accumulate' op body yields 1 values, expected 2}}
  %s:2 = blu.accumulate [2] slices(%x = %xs) : (tensor<2x8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    blu.yield %x : tensor<8xf32>
  }
  return
}

// -----

func.func @accumulate_C2_boolean(%xs: tensor<2x8xi1>) {
  // expected-error @+1 {{'blu.accumulate' op result #0 must be variadic of ranked tensor of 64-bit float or 32-bit float or bfloat16 type or 64-bit signless integer or 32-bit signless integer values, but got 'tensor<8xi1>'}}
  %s = blu.accumulate [2] slices(%x = %xs) : (tensor<2x8xi1>) -> tensor<8xi1> {
    blu.yield %x : tensor<8xi1>
  }
  return
}
