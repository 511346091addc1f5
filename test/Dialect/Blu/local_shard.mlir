// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @local_shard(
// CHECK-SAME: %[[A:.+]]: tensor<3x5xf32>, %[[B:.+]]: tensor<2x3xf32>
// CHECK: blu.local_shard %[[A]], %[[B]] axis = "dp" size = 2 : (tensor<3x5xf32>, tensor<2x3xf32>) -> (tensor<8xf32>, tensor<2x2xf32>)
func.func @local_shard(%a: tensor<3x5xf32>, %b: tensor<2x3xf32>) {
  %y:2 = blu.local_shard %a, %b axis = "dp" size = 2 : (tensor<3x5xf32>, tensor<2x3xf32>) -> (tensor<8xf32>, tensor<2x2xf32>)
  return
}
