// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @log(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>
// CHECK: blu.log %[[X]] : tensor<8x64xf32>
func.func @log(%x: tensor<8x64xf32>) {
  %y = blu.log %x : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @log_bf16(
// CHECK-SAME: %[[X:.+]]: tensor<?x64xbf16>
// CHECK: blu.log %[[X]] : tensor<?x64xbf16>
func.func @log_bf16(%x: tensor<?x64xbf16>) {
  %y = blu.log %x : tensor<?x64xbf16>
  return
}
