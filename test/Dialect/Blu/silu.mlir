// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @silu(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>
// CHECK: blu.silu %[[X]] : tensor<8x64xf32>
func.func @silu(%x: tensor<8x64xf32>) {
  %y = blu.silu %x : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @silu_bf16(
// CHECK-SAME: %[[X:.+]]: tensor<?x64xbf16>
// CHECK: blu.silu %[[X]] : tensor<?x64xbf16>
func.func @silu_bf16(%x: tensor<?x64xbf16>) {
  %y = blu.silu %x : tensor<?x64xbf16>
  return
}
