// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @stop_gradient(
// CHECK-SAME: %[[X:.+]]: tensor<8xf32>
// CHECK: blu.stop_gradient %[[X]] : tensor<8xf32>
func.func @stop_gradient(%x: tensor<8xf32>) {
  %y = blu.stop_gradient %x : tensor<8xf32>
  return
}
