// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @checkpoint(
// CHECK-SAME: %[[X:.+]]: tensor<8xf32>
// CHECK: blu.checkpoint -> tensor<8xf32> attributes {note = "kept"} {
// CHECK-NEXT: %[[E:.+]] = blu.exp %[[X]] : tensor<8xf32>
// CHECK-NEXT: blu.yield %[[E]] : tensor<8xf32>
// CHECK-NEXT: }
func.func @checkpoint(%x: tensor<8xf32>) {
  %y = blu.checkpoint -> tensor<8xf32> attributes {note = "kept"} {
    %e = blu.exp %x : tensor<8xf32>
    blu.yield %e : tensor<8xf32>
  }
  return
}
