// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @relu(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>
// CHECK: blu.relu %[[X]] : tensor<8x64xf32>
func.func @relu(%x: tensor<8x64xf32>) {
  %y = blu.relu %x : tensor<8x64xf32>
  return
}

// CHECK-LABEL: func.func @relu_bf16(
// CHECK-SAME: %[[X:.+]]: tensor<?x64xbf16>
// CHECK: blu.relu %[[X]] : tensor<?x64xbf16>
func.func @relu_bf16(%x: tensor<?x64xbf16>) {
  %y = blu.relu %x : tensor<?x64xbf16>
  return
}
