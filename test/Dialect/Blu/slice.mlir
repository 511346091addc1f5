// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @slice(
// CHECK-SAME: %[[X:.+]]: tensor<4x8xf32>
// CHECK: blu.slice %[[X]] dim = 1 start = 2 size = 3 : (tensor<4x8xf32>) -> tensor<4x3xf32>
func.func @slice(%x: tensor<4x8xf32>) {
  %y = blu.slice %x dim = 1 start = 2 size = 3 : (tensor<4x8xf32>) -> tensor<4x3xf32>
  return
}
