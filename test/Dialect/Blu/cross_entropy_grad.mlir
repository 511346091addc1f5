// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @cross_entropy_grad(
// CHECK-SAME: %[[X:.+]]: tensor<11x29xf32>, %[[T:.+]]: tensor<11xi64>, %[[G:.+]]: tensor<f32>, %[[H:.+]]: tensor<11xf32>
// CHECK: blu.cross_entropy_grad %[[X]], %[[T]], %[[G]] ignore_index = -100 : (tensor<11x29xf32>, tensor<11xi64>, tensor<f32>) -> tensor<11x29xf32>
// CHECK: blu.cross_entropy_grad %[[X]], %[[T]], %[[H]] ignore_index = 0 classes = 27 : (tensor<11x29xf32>, tensor<11xi64>, tensor<11xf32>) -> tensor<11x29xf32>
// CHECK: blu.cross_entropy_grad %[[X]], %[[T]], %[[H]] ignore_index = 0 : (tensor<11x29xf32>, tensor<11xi64>, tensor<11xf32>) -> tensor<11x29xf32>
func.func @cross_entropy_grad(%x: tensor<11x29xf32>, %t: tensor<11xi64>, %g: tensor<f32>, %h: tensor<11xf32>) {
  %y = blu.cross_entropy_grad %x, %t, %g ignore_index = -100 : (tensor<11x29xf32>, tensor<11xi64>, tensor<f32>) -> tensor<11x29xf32>
  %p = blu.cross_entropy_grad %x, %t, %h ignore_index = 0 classes = 27 : (tensor<11x29xf32>, tensor<11xi64>, tensor<11xf32>) -> tensor<11x29xf32>
  %z = blu.cross_entropy_grad %x, %t, %h ignore_index = 0 : (tensor<11x29xf32>, tensor<11xi64>, tensor<11xf32>) -> tensor<11x29xf32>
  return
}
