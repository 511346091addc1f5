// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @compare_eq(
// CHECK-SAME: %[[A:.+]]: tensor<3x4xf32>, %[[B:.+]]: tensor<f32>
// CHECK: blu.compare eq %[[A]], %[[B]] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
func.func @compare_eq(%a: tensor<3x4xf32>, %b: tensor<f32>) {
  %y = blu.compare eq %a, %b : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
  return
}

// CHECK-LABEL: func.func @compare_ne(
// CHECK-SAME: %[[A:.+]]: tensor<3x4xf32>, %[[B:.+]]: tensor<f32>
// CHECK: blu.compare ne %[[A]], %[[B]] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
func.func @compare_ne(%a: tensor<3x4xf32>, %b: tensor<f32>) {
  %y = blu.compare ne %a, %b : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
  return
}

// CHECK-LABEL: func.func @compare_lt(
// CHECK-SAME: %[[A:.+]]: tensor<3x4xf32>, %[[B:.+]]: tensor<f32>
// CHECK: blu.compare lt %[[A]], %[[B]] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
func.func @compare_lt(%a: tensor<3x4xf32>, %b: tensor<f32>) {
  %y = blu.compare lt %a, %b : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
  return
}

// CHECK-LABEL: func.func @compare_le(
// CHECK-SAME: %[[A:.+]]: tensor<3x4xf32>, %[[B:.+]]: tensor<f32>
// CHECK: blu.compare le %[[A]], %[[B]] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
func.func @compare_le(%a: tensor<3x4xf32>, %b: tensor<f32>) {
  %y = blu.compare le %a, %b : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
  return
}

// CHECK-LABEL: func.func @compare_gt(
// CHECK-SAME: %[[A:.+]]: tensor<3x4xf32>, %[[B:.+]]: tensor<f32>
// CHECK: blu.compare gt %[[A]], %[[B]] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
func.func @compare_gt(%a: tensor<3x4xf32>, %b: tensor<f32>) {
  %y = blu.compare gt %a, %b : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
  return
}

// CHECK-LABEL: func.func @compare_ge(
// CHECK-SAME: %[[A:.+]]: tensor<3x4xf32>, %[[B:.+]]: tensor<f32>
// CHECK: blu.compare ge %[[A]], %[[B]] : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
func.func @compare_ge(%a: tensor<3x4xf32>, %b: tensor<f32>) {
  %y = blu.compare ge %a, %b : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
  return
}
