// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @global_norm(
// CHECK-SAME: %[[A:.+]]: tensor<8x64xf32>, %[[B:.+]]: tensor<64xf32>
// CHECK: blu.global_norm %[[A]], %[[B]] : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<f32>
func.func @global_norm(%a: tensor<8x64xf32>, %b: tensor<64xf32>) {
  %y = blu.global_norm %a, %b : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<f32>
  return
}
