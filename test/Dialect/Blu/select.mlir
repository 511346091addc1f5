// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @select(
// CHECK-SAME: %[[C:.+]]: tensor<3x4xi1>, %[[A:.+]]: tensor<3x4xf32>, %[[B:.+]]: tensor<f32>
// CHECK: blu.select %[[C]], %[[A]], %[[B]] : (tensor<3x4xi1>, tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
func.func @select(%c: tensor<3x4xi1>, %a: tensor<3x4xf32>, %b: tensor<f32>) {
  %y = blu.select %c, %a, %b : (tensor<3x4xi1>, tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  return
}
