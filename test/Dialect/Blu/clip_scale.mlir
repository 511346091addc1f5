// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @clip_scale(
// CHECK-SAME: %[[N:.+]]: tensor<f32>, %[[C:.+]]: tensor<f64>
// CHECK: blu.clip_scale %[[N]], %[[C]] : (tensor<f32>, tensor<f64>) -> tensor<f32>
func.func @clip_scale(%n: tensor<f32>, %c: tensor<f64>) {
  %y = blu.clip_scale %n, %c : (tensor<f32>, tensor<f64>) -> tensor<f32>
  return
}
