// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @all_reduce(
// CHECK-SAME: %[[A:.+]]: tensor<8xf32>, %[[B:.+]]: tensor<f64>
// CHECK: blu.all_reduce %[[A]], %[[B]] axis = "dp" size = 2 : (tensor<8xf32>, tensor<f64>) -> (tensor<8xf32>, tensor<f64>)
func.func @all_reduce(%a: tensor<8xf32>, %b: tensor<f64>) {
  %y:2 = blu.all_reduce %a, %b axis = "dp" size = 2 : (tensor<8xf32>, tensor<f64>) -> (tensor<8xf32>, tensor<f64>)
  return
}
