// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @gelu_tanh(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>
// CHECK: blu.gelu %[[X]] approximate(tanh) : tensor<8x64xf32>
func.func @gelu_tanh(%x: tensor<8x64xf32>) {
  %y = blu.gelu %x approximate(tanh) : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @gelu_erf(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>
// CHECK: blu.gelu %[[X]] approximate(erf) : tensor<8x64xf32>
func.func @gelu_erf(%x: tensor<8x64xf32>) {
  %y = blu.gelu %x approximate(erf) : tensor<8x64xf32>
  return
}
