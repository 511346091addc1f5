// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @layer_norm(
// CHECK-SAME: %[[X:.+]]: tensor<?x8x64xf32>, %[[W:.+]]: tensor<64xf32>, %[[B:.+]]: tensor<64xf32>
// CHECK: blu.layer_norm %[[X]], %[[W]], %[[B]] eps = 1.000000e-05 : (tensor<?x8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<?x8x64xf32>
func.func @layer_norm(%x: tensor<?x8x64xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>) {
  %y = blu.layer_norm %x, %w, %b eps = 1.000000e-05 : (tensor<?x8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<?x8x64xf32>
  return
}
