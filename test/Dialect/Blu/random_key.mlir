// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @random_key(
// CHECK-SAME: %[[S:.+]]: tensor<i64>, %[[T:.+]]: tensor<i64>, %[[I:.+]]: tensor<i64>
// CHECK: blu.random_key %[[S]], %[[T]], %[[I]] site = 3 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<i64>
// CHECK: blu.random_key %[[S]], %[[T]] site = 0 : (tensor<i64>, tensor<i64>) -> tensor<i64>
func.func @random_key(%s: tensor<i64>, %t: tensor<i64>, %i: tensor<i64>) {
  %y = blu.random_key %s, %t, %i site = 3 : (tensor<i64>, tensor<i64>, tensor<i64>) -> tensor<i64>
  %z = blu.random_key %s, %t site = 0 : (tensor<i64>, tensor<i64>) -> tensor<i64>
  return
}
