// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @split(
// CHECK-SAME: %[[X:.+]]: tensor<5x8xf32>
// CHECK: blu.split %[[X]] dim = 1 [2, 2, 4] : (tensor<5x8xf32>) -> (tensor<5x2xf32>, tensor<5x2xf32>, tensor<5x4xf32>)
func.func @split(%x: tensor<5x8xf32>) {
  %p:3 = blu.split %x dim = 1 [2, 2, 4] : (tensor<5x8xf32>) -> (tensor<5x2xf32>, tensor<5x2xf32>, tensor<5x4xf32>)
  return
}
