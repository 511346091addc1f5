// RUN: bt-opt %s -blu-lower-all-reduce | FileCheck %s

// Few elements are added up on every device, in the devices' order.
// CHECK-LABEL: func.func @few
// CHECK: %[[F:.*]] = blu.reshape %arg0 [1]
// CHECK: %[[A:.*]] = blu.all_gather %[[F]] axis = "dp" size = 4 : (tensor<1xf32>) -> tensor<4x1xf32>
// CHECK: %[[S:.*]] = blu.reduce_sum %[[A]] [0]
// CHECK: blu.reshape %[[S]] [] : (tensor<1xf32>) -> tensor<f32>
func.func @few(%x: tensor<f32>) -> tensor<f32> {
  %y = blu.all_reduce %x axis = "dp" size = 4 : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
// CHECK-LABEL: func.func @many
// CHECK: %[[P:.*]] = blu.reduce_scatter %arg0 axis = "dp" size = 4 : (tensor<9x101xf32>) -> tensor<228xf32>
// CHECK: blu.all_gather %[[P]] axis = "dp" size = 4 : (tensor<228xf32>) -> tensor<9x101xf32>
func.func @many(%x: tensor<9x101xf32>) -> tensor<9x101xf32> {
  %y = blu.all_reduce %x axis = "dp" size = 4 : (tensor<9x101xf32>) -> tensor<9x101xf32>
  return %y : tensor<9x101xf32>
}
