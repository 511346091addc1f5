// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @neg(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>
// CHECK: blu.neg %[[X]] : tensor<8x64xf32>
func.func @neg(%x: tensor<8x64xf32>) {
  %y = blu.neg %x : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @neg_bf16(
// CHECK-SAME: %[[X:.+]]: tensor<?x64xbf16>
// CHECK: blu.neg %[[X]] : tensor<?x64xbf16>
func.func @neg_bf16(%x: tensor<?x64xbf16>) {
  %y = blu.neg %x : tensor<?x64xbf16>
  return
}
