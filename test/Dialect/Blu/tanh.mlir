// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @tanh(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>
// CHECK: blu.tanh %[[X]] : tensor<8x64xf32>
func.func @tanh(%x: tensor<8x64xf32>) {
  %y = blu.tanh %x : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @tanh_bf16(
// CHECK-SAME: %[[X:.+]]: tensor<?x64xbf16>
// CHECK: blu.tanh %[[X]] : tensor<?x64xbf16>
func.func @tanh_bf16(%x: tensor<?x64xbf16>) {
  %y = blu.tanh %x : tensor<?x64xbf16>
  return
}
