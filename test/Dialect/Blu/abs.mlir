// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @abs(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>
// CHECK: blu.abs %[[X]] : tensor<8x64xf32>
func.func @abs(%x: tensor<8x64xf32>) {
  %y = blu.abs %x : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @abs_bf16(
// CHECK-SAME: %[[X:.+]]: tensor<?x64xbf16>
// CHECK: blu.abs %[[X]] : tensor<?x64xbf16>
func.func @abs_bf16(%x: tensor<?x64xbf16>) {
  %y = blu.abs %x : tensor<?x64xbf16>
  return
}
