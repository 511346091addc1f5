// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @rsqrt(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>
// CHECK: blu.rsqrt %[[X]] : tensor<8x64xf32>
func.func @rsqrt(%x: tensor<8x64xf32>) {
  %y = blu.rsqrt %x : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @rsqrt_bf16(
// CHECK-SAME: %[[X:.+]]: tensor<?x64xbf16>
// CHECK: blu.rsqrt %[[X]] : tensor<?x64xbf16>
func.func @rsqrt_bf16(%x: tensor<?x64xbf16>) {
  %y = blu.rsqrt %x : tensor<?x64xbf16>
  return
}
