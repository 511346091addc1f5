// RUN: bt-opt %s -split-input-file -verify-diagnostics

func.func @reshape_C1_below_minus_1(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.reshape' op entry 0 of the shape is -2, expected at least -1}}
  %y = blu.reshape %x [-2, 6] : (tensor<3x4xf32>) -> tensor<2x6xf32>
  return
}

// -----

func.func @reshape_C1_two_rests(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.reshape' op entries 0 and 1 of the shape are both -1}}
  %y = blu.reshape %x [-1, -1] : (tensor<3x4xf32>) -> tensor<2x6xf32>
  return
}

// -----

func.func @reshape_C1_zero_beyond_rank(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.reshape' op entry 2 of the shape is 0, the input has rank 2}}
  %y = blu.reshape %x [3, 4, 0] : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
  return
}

// -----

func.func @reshape_C2(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.reshape' op input of shape 3x4 has not as many elements as shape 2x5}}
  %y = blu.reshape %x [2, 5] : (tensor<3x4xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @reshape_C2_rest(%x: tensor<3x4xf32>) {
  // expected-error @+1 {{'blu.reshape' op input of shape 3x4 leaves 12 elements for entry 1, expected a multiple of 5}}
  %y = blu.reshape %x [5, -1] : (tensor<3x4xf32>) -> tensor<5x2xf32>
  return
}
