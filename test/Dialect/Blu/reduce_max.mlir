// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @reduce_max(
// CHECK-SAME: %[[X:.+]]: tensor<4x9x5xf32>
// CHECK: blu.reduce_max %[[X]] [1] : (tensor<4x9x5xf32>) -> tensor<4x5xf32>
// CHECK: blu.reduce_max %[[X]] [0, 2] keep_dims : (tensor<4x9x5xf32>) -> tensor<1x9x1xf32>
// CHECK: blu.reduce_max %[[X]] [0, 1, 2] : (tensor<4x9x5xf32>) -> tensor<f32>
func.func @reduce_max(%x: tensor<4x9x5xf32>) {
  %y = blu.reduce_max %x [1] : (tensor<4x9x5xf32>) -> tensor<4x5xf32>
  %z = blu.reduce_max %x [0, 2] keep_dims : (tensor<4x9x5xf32>) -> tensor<1x9x1xf32>
  %s = blu.reduce_max %x [0, 1, 2] : (tensor<4x9x5xf32>) -> tensor<f32>
  return
}
