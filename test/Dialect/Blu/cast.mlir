// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @cast_f32_to_bf16(
// CHECK-SAME: %[[X:.+]]: tensor<8x?xf32>
// CHECK: blu.cast %[[X]] : tensor<8x?xf32> to tensor<8x?xbf16>
func.func @cast_f32_to_bf16(%x: tensor<8x?xf32>) {
  %y = blu.cast %x : tensor<8x?xf32> to tensor<8x?xbf16>
  return
}

// CHECK-LABEL: func.func @cast_bf16_to_f64(
// CHECK-SAME: %[[X:.+]]: tensor<8x?xbf16>
// CHECK: blu.cast %[[X]] : tensor<8x?xbf16> to tensor<8x?xf64>
func.func @cast_bf16_to_f64(%x: tensor<8x?xbf16>) {
  %y = blu.cast %x : tensor<8x?xbf16> to tensor<8x?xf64>
  return
}

// CHECK-LABEL: func.func @cast_i1_to_f32(
// CHECK-SAME: %[[X:.+]]: tensor<8x?xi1>
// CHECK: blu.cast %[[X]] : tensor<8x?xi1> to tensor<8x?xf32>
func.func @cast_i1_to_f32(%x: tensor<8x?xi1>) {
  %y = blu.cast %x : tensor<8x?xi1> to tensor<8x?xf32>
  return
}

// CHECK-LABEL: func.func @cast_i64_to_i32(
// CHECK-SAME: %[[X:.+]]: tensor<8x?xi64>
// CHECK: blu.cast %[[X]] : tensor<8x?xi64> to tensor<8x?xi32>
func.func @cast_i64_to_i32(%x: tensor<8x?xi64>) {
  %y = blu.cast %x : tensor<8x?xi64> to tensor<8x?xi32>
  return
}

// CHECK-LABEL: func.func @cast_f32_to_i1(
// CHECK-SAME: %[[X:.+]]: tensor<8x?xf32>
// CHECK: blu.cast %[[X]] : tensor<8x?xf32> to tensor<8x?xi1>
func.func @cast_f32_to_i1(%x: tensor<8x?xf32>) {
  %y = blu.cast %x : tensor<8x?xf32> to tensor<8x?xi1>
  return
}
