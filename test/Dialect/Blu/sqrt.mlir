// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @sqrt(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>
// CHECK: blu.sqrt %[[X]] : tensor<8x64xf32>
func.func @sqrt(%x: tensor<8x64xf32>) {
  %y = blu.sqrt %x : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @sqrt_bf16(
// CHECK-SAME: %[[X:.+]]: tensor<?x64xbf16>
// CHECK: blu.sqrt %[[X]] : tensor<?x64xbf16>
func.func @sqrt_bf16(%x: tensor<?x64xbf16>) {
  %y = blu.sqrt %x : tensor<?x64xbf16>
  return
}
