// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @exp(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>
// CHECK: blu.exp %[[X]] : tensor<8x64xf32>
func.func @exp(%x: tensor<8x64xf32>) {
  %y = blu.exp %x : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @exp_bf16(
// CHECK-SAME: %[[X:.+]]: tensor<?x64xbf16>
// CHECK: blu.exp %[[X]] : tensor<?x64xbf16>
func.func @exp_bf16(%x: tensor<?x64xbf16>) {
  %y = blu.exp %x : tensor<?x64xbf16>
  return
}
