// RUN: bt-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: func.func @cast_to_same_type(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>
// CHECK-NEXT: return %[[X]]
func.func @cast_to_same_type(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = blu.cast %x : tensor<4xf32> to tensor<4xf32>
  return %y : tensor<4xf32>
}

// A cast that rounds stays, and so does the cast back.
// CHECK-LABEL: func.func @cast_and_back(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>
// CHECK-NEXT: %[[Y:.+]] = blu.cast %[[X]] : tensor<4xf32> to tensor<4xbf16>
// CHECK-NEXT: %[[Z:.+]] = blu.cast %[[Y]] : tensor<4xbf16> to tensor<4xf32>
// CHECK-NEXT: return %[[Z]]
func.func @cast_and_back(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = blu.cast %x : tensor<4xf32> to tensor<4xbf16>
  %z = blu.cast %y : tensor<4xbf16> to tensor<4xf32>
  return %z : tensor<4xf32>
}

// There and back again without rounding is nothing.
// CHECK-LABEL: func.func @cast_wide_and_back(
// CHECK-SAME: %[[X:.+]]: tensor<4xbf16>
// CHECK-NEXT: return %[[X]]
func.func @cast_wide_and_back(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %y = blu.cast %x : tensor<4xbf16> to tensor<4xf32>
  %z = blu.cast %y : tensor<4xf32> to tensor<4xbf16>
  return %z : tensor<4xbf16>
}

// CHECK-LABEL: func.func @reshape_to_same_shape(
// CHECK-SAME: %[[X:.+]]: tensor<4x2xf32>
// CHECK-NEXT: return %[[X]]
func.func @reshape_to_same_shape(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %y = blu.reshape %x [0, -1] : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// With unknown extents equal types do not mean equal shapes.
// CHECK-LABEL: func.func @reshape_unknown_extents(
// CHECK: blu.reshape
func.func @reshape_unknown_extents(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %a = blu.reshape %x [-1] : (tensor<?x?xf32>) -> tensor<?xf32>
  %y = blu.reshape %x [0, -1] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  return %y : tensor<?x?xf32>
}

// CHECK-LABEL: func.func @reshape_there_and_back(
// CHECK-SAME: %[[X:.+]]: tensor<4x2xf32>
// CHECK-NEXT: return %[[X]]
func.func @reshape_there_and_back(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  %y = blu.reshape %x [8] : (tensor<4x2xf32>) -> tensor<8xf32>
  %z = blu.reshape %y [4, 2] : (tensor<8xf32>) -> tensor<4x2xf32>
  return %z : tensor<4x2xf32>
}

// Entries of 0 refer to the input, which changes: they are resolved.
// CHECK-LABEL: func.func @reshape_of_reshape(
// CHECK-SAME: %[[X:.+]]: tensor<4x6xf32>
// CHECK-NEXT: %[[Y:.+]] = blu.reshape %[[X]] [3, 4, 2] : (tensor<4x6xf32>) -> tensor<3x4x2xf32>
// CHECK-NEXT: return %[[Y]]
func.func @reshape_of_reshape(%x: tensor<4x6xf32>) -> tensor<3x4x2xf32> {
  %y = blu.reshape %x [3, 8] : (tensor<4x6xf32>) -> tensor<3x8xf32>
  %z = blu.reshape %y [0, 4, -1] : (tensor<3x8xf32>) -> tensor<3x4x2xf32>
  return %z : tensor<3x4x2xf32>
}

// CHECK-LABEL: func.func @dropout_of_rate_0(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>, %[[K:.+]]: tensor<i64>
// CHECK-NEXT: %[[Y:.+]] = blu.dropout %[[X]] key %[[K]] rate = 5.000000e-01
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @dropout_of_rate_0(%x: tensor<4xf32>, %k: tensor<i64>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y = blu.dropout %x rate = 0.0 : tensor<4xf32>
  %z = blu.dropout %y key %k rate = 0.0 : tensor<4xf32>
  %w = blu.dropout %z key %k rate = 0.5 : tensor<4xf32>
  return %z, %w : tensor<4xf32>, tensor<4xf32>
}

// Equal constants become one, and move to the right of commutative ops.
// CHECK-LABEL: func.func @constants(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>
// CHECK-NEXT: %[[C:.+]] = blu.constant dense<2.000000e+00> : tensor<f32>
// CHECK-NEXT: %[[Y:.+]] = blu.add %[[X]], %[[C]]
// CHECK-NEXT: %[[Z:.+]] = blu.mul %[[Y]], %[[C]]
// CHECK-NEXT: return %[[Z]]
func.func @constants(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = blu.constant dense<2.0> : tensor<f32>
  %b = blu.constant dense<2.0> : tensor<f32>
  %y = blu.add %a, %x : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  %z = blu.mul %b, %y : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}

// A stack, a checkpoint and a parameter without users go; without side effects
// none of them is an island.
// CHECK-LABEL: func.func @dead(
// CHECK-NEXT: return
func.func @dead(%x: tensor<8xf32>) {
  %p = blu.param "p" init(#blu.ones) : tensor<8xf32>
  %y = blu.stack "s" [0 to 2] carry(%h = %x) : (tensor<8xf32>) -> tensor<8xf32> {
    blu.yield %p : tensor<8xf32>
  }
  %z = blu.checkpoint -> tensor<8xf32> {
    %e = blu.exp %y : tensor<8xf32>
    blu.yield %e : tensor<8xf32>
  }
  return
}
