// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @reduce_scatter(
// CHECK-SAME: %[[A:.+]]: tensor<3x5xf32>, %[[B:.+]]: tensor<2x3xf32>
// CHECK: blu.reduce_scatter %[[A]], %[[B]] axis = "dp" size = 2 : (tensor<3x5xf32>, tensor<2x3xf32>) -> (tensor<8xf32>, tensor<2x2xf32>)
func.func @reduce_scatter(%a: tensor<3x5xf32>, %b: tensor<2x3xf32>) {
  %y:2 = blu.reduce_scatter %a, %b axis = "dp" size = 2 : (tensor<3x5xf32>, tensor<2x3xf32>) -> (tensor<8xf32>, tensor<2x2xf32>)
  return
}
