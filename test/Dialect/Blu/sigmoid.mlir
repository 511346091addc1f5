// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @sigmoid(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>
// CHECK: blu.sigmoid %[[X]] : tensor<8x64xf32>
func.func @sigmoid(%x: tensor<8x64xf32>) {
  %y = blu.sigmoid %x : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @sigmoid_bf16(
// CHECK-SAME: %[[X:.+]]: tensor<?x64xbf16>
// CHECK: blu.sigmoid %[[X]] : tensor<?x64xbf16>
func.func @sigmoid_bf16(%x: tensor<?x64xbf16>) {
  %y = blu.sigmoid %x : tensor<?x64xbf16>
  return
}
