// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @positions(
// CHECK-SAME: %[[T:.+]]: tensor<4x?xi32>, %[[P:.+]]: tensor<i64>
// CHECK: blu.positions %[[T]] dim = 1 : (tensor<4x?xi32>) -> tensor<?xi32>
// CHECK: blu.positions %[[T]] at %[[P]] dim = 0 : (tensor<4x?xi32>, tensor<i64>) -> tensor<4xi32>
func.func @positions(%t: tensor<4x?xi32>, %p: tensor<i64>) {
  %y = blu.positions %t dim = 1 : (tensor<4x?xi32>) -> tensor<?xi32>
  %z = blu.positions %t at %p dim = 0 : (tensor<4x?xi32>, tensor<i64>) -> tensor<4xi32>
  return
}
