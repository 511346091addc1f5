// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @reshape(
// CHECK-SAME: %[[X:.+]]: tensor<2x?x64xf32>
// CHECK: %[[Y:.+]] = blu.reshape %[[X]] [0, 0, 4, -1] : (tensor<2x?x64xf32>) -> tensor<2x?x4x16xf32>
// CHECK: blu.reshape %[[Y]] [0, 0, -1] : (tensor<2x?x4x16xf32>) -> tensor<2x?x64xf32>
func.func @reshape(%x: tensor<2x?x64xf32>) {
  %y = blu.reshape %x [0, 0, 4, -1] : (tensor<2x?x64xf32>) -> tensor<2x?x4x16xf32>
  %z = blu.reshape %y [0, 0, -1] : (tensor<2x?x4x16xf32>) -> tensor<2x?x64xf32>
  return
}

// CHECK-LABEL: func.func @reshape_to_scalar(
// CHECK-SAME: %[[X:.+]]: tensor<1x1xi32>
// CHECK: blu.reshape %[[X]] [] : (tensor<1x1xi32>) -> tensor<i32>
func.func @reshape_to_scalar(%x: tensor<1x1xi32>) {
  %y = blu.reshape %x [] : (tensor<1x1xi32>) -> tensor<i32>
  return
}
