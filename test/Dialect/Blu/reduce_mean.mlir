// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @reduce_mean(
// CHECK-SAME: %[[X:.+]]: tensor<4x9x5xf32>
// CHECK: blu.reduce_mean %[[X]] [1] : (tensor<4x9x5xf32>) -> tensor<4x5xf32>
// CHECK: blu.reduce_mean %[[X]] [0, 2] keep_dims : (tensor<4x9x5xf32>) -> tensor<1x9x1xf32>
// CHECK: blu.reduce_mean %[[X]] [0, 1, 2] : (tensor<4x9x5xf32>) -> tensor<f32>
func.func @reduce_mean(%x: tensor<4x9x5xf32>) {
  %y = blu.reduce_mean %x [1] : (tensor<4x9x5xf32>) -> tensor<4x5xf32>
  %z = blu.reduce_mean %x [0, 2] keep_dims : (tensor<4x9x5xf32>) -> tensor<1x9x1xf32>
  %s = blu.reduce_mean %x [0, 1, 2] : (tensor<4x9x5xf32>) -> tensor<f32>
  return
}
