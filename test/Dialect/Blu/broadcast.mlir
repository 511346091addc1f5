// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @broadcast(
// CHECK-SAME: %[[X:.+]]: tensor<3x1xf32>
// CHECK: blu.broadcast %[[X]] : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
func.func @broadcast(%x: tensor<3x1xf32>) {
  %y = blu.broadcast %x : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  return
}
