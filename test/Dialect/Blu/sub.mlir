// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @sub(
// CHECK-SAME: %[[A:.+]]: tensor<3x1xf32>, %[[B:.+]]: tensor<4xf32>
// CHECK: blu.sub %[[A]], %[[B]] : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xf32>
func.func @sub(%a: tensor<3x1xf32>, %b: tensor<4xf32>) {
  %y = blu.sub %a, %b : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return
}

// CHECK-LABEL: func.func @sub_unknown_extent(
// CHECK-SAME: %[[A:.+]]: tensor<?x4xf64>, %[[B:.+]]: tensor<f64>
// CHECK: blu.sub %[[A]], %[[B]] : (tensor<?x4xf64>, tensor<f64>) -> tensor<?x4xf64>
func.func @sub_unknown_extent(%a: tensor<?x4xf64>, %b: tensor<f64>) {
  %y = blu.sub %a, %b : (tensor<?x4xf64>, tensor<f64>) -> tensor<?x4xf64>
  return
}

// CHECK-LABEL: func.func @sub_integer(
// CHECK-SAME: %[[A:.+]]: tensor<5xi64>, %[[B:.+]]: tensor<5xi64>
// CHECK: blu.sub %[[A]], %[[B]] : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64>
func.func @sub_integer(%a: tensor<5xi64>, %b: tensor<5xi64>) {
  %y = blu.sub %a, %b : (tensor<5xi64>, tensor<5xi64>) -> tensor<5xi64>
  return
}
