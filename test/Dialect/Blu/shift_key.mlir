// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @shift_key(
// CHECK-SAME: %[[K:.+]]: tensor<i64>, %[[O:.+]]: tensor<i64>
// CHECK: blu.shift_key %[[K]], %[[O]] : (tensor<i64>, tensor<i64>) -> tensor<i64>
func.func @shift_key(%k: tensor<i64>, %o: tensor<i64>) {
  %y = blu.shift_key %k, %o : (tensor<i64>, tensor<i64>) -> tensor<i64>
  return
}
