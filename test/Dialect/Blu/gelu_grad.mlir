// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @gelu_grad_tanh(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>, %[[G:.+]]: tensor<8x64xf32>
// CHECK: blu.gelu_grad %[[X]], %[[G]] approximate(tanh) : tensor<8x64xf32>
func.func @gelu_grad_tanh(%x: tensor<8x64xf32>, %g: tensor<8x64xf32>) {
  %y = blu.gelu_grad %x, %g approximate(tanh) : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @gelu_grad_erf(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>, %[[G:.+]]: tensor<8x64xf32>
// CHECK: blu.gelu_grad %[[X]], %[[G]] approximate(erf) : tensor<8x64xf32>
func.func @gelu_grad_erf(%x: tensor<8x64xf32>, %g: tensor<8x64xf32>) {
  %y = blu.gelu_grad %x, %g approximate(erf) : tensor<8x64xf32>
  return
}
