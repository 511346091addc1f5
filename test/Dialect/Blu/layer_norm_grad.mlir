// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @layer_norm_grad(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>, %[[W:.+]]: tensor<64xf32>, %[[G:.+]]: tensor<8x64xf32>
// CHECK: blu.layer_norm_grad %[[X]], %[[W]], %[[G]] eps = 1.000000e-05 : (tensor<8x64xf32>, tensor<64xf32>, tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)
func.func @layer_norm_grad(%x: tensor<8x64xf32>, %w: tensor<64xf32>, %g: tensor<8x64xf32>) {
  %d:3 = blu.layer_norm_grad %x, %w, %g eps = 1.000000e-05 : (tensor<8x64xf32>, tensor<64xf32>, tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)
  return
}
