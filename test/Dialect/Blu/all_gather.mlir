// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @all_gather(
// CHECK-SAME: %[[A:.+]]: tensor<8xf32>, %[[B:.+]]: tensor<2x2xf32>
// CHECK: blu.all_gather %[[A]], %[[B]] axis = "dp" size = 2 : (tensor<8xf32>, tensor<2x2xf32>) -> (tensor<3x5xf32>, tensor<2x3xf32>)
func.func @all_gather(%a: tensor<8xf32>, %b: tensor<2x2xf32>) {
  %y:2 = blu.all_gather %a, %b axis = "dp" size = 2 : (tensor<8xf32>, tensor<2x2xf32>) -> (tensor<3x5xf32>, tensor<2x3xf32>)
  return
}
