// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @cross_entropy_mean(
// CHECK-SAME: %[[X:.+]]: tensor<11x29xf32>, %[[T:.+]]: tensor<11xi32>
// CHECK: blu.cross_entropy %[[X]], %[[T]] ignore_index = -100 reduction(mean) : (tensor<11x29xf32>, tensor<11xi32>) -> tensor<f32>
func.func @cross_entropy_mean(%x: tensor<11x29xf32>, %t: tensor<11xi32>) {
  %y = blu.cross_entropy %x, %t ignore_index = -100 reduction(mean) : (tensor<11x29xf32>, tensor<11xi32>) -> tensor<f32>
  return
}

// CHECK-LABEL: func.func @cross_entropy_sum(
// CHECK-SAME: %[[X:.+]]: tensor<11x29xf32>, %[[T:.+]]: tensor<11xi32>
// CHECK: blu.cross_entropy %[[X]], %[[T]] ignore_index = -100 reduction(sum) : (tensor<11x29xf32>, tensor<11xi32>) -> tensor<f32>
func.func @cross_entropy_sum(%x: tensor<11x29xf32>, %t: tensor<11xi32>) {
  %y = blu.cross_entropy %x, %t ignore_index = -100 reduction(sum) : (tensor<11x29xf32>, tensor<11xi32>) -> tensor<f32>
  return
}

// CHECK-LABEL: func.func @cross_entropy_none(
// CHECK-SAME: %[[X:.+]]: tensor<11x29xf32>, %[[T:.+]]: tensor<11xi32>
// CHECK: blu.cross_entropy %[[X]], %[[T]] ignore_index = -100 reduction(none) : (tensor<11x29xf32>, tensor<11xi32>) -> tensor<11xf32>
func.func @cross_entropy_none(%x: tensor<11x29xf32>, %t: tensor<11xi32>) {
  %y = blu.cross_entropy %x, %t ignore_index = -100 reduction(none) : (tensor<11x29xf32>, tensor<11xi32>) -> tensor<11xf32>
  return
}

// CHECK-LABEL: func.func @cross_entropy_classes(
// CHECK-SAME: %[[X:.+]]: tensor<11x32xf32>, %[[T:.+]]: tensor<11xi32>
// CHECK: blu.cross_entropy %[[X]], %[[T]] ignore_index = -100 reduction(none) classes = 29 : (tensor<11x32xf32>, tensor<11xi32>) -> tensor<11xf32>
func.func @cross_entropy_classes(%x: tensor<11x32xf32>, %t: tensor<11xi32>) {
  %y = blu.cross_entropy %x, %t ignore_index = -100 reduction(none) classes = 29 : (tensor<11x32xf32>, tensor<11xi32>) -> tensor<11xf32>
  return
}

// CHECK-LABEL: func.func @cross_entropy_bf16(
// CHECK-SAME: %[[X:.+]]: tensor<11x29xbf16>, %[[T:.+]]: tensor<11xi32>
// CHECK: blu.cross_entropy %[[X]], %[[T]] ignore_index = -100 reduction(mean) : (tensor<11x29xbf16>, tensor<11xi32>) -> tensor<f32>
func.func @cross_entropy_bf16(%x: tensor<11x29xbf16>, %t: tensor<11xi32>) {
  %y = blu.cross_entropy %x, %t ignore_index = -100 reduction(mean) : (tensor<11x29xbf16>, tensor<11xi32>) -> tensor<f32>
  return
}
