// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @concat(
// CHECK-SAME: %[[A:.+]]: tensor<5x2xf32>, %[[B:.+]]: tensor<5x3xf32>
// CHECK: blu.concat dim = 1 %[[A]], %[[B]] : (tensor<5x2xf32>, tensor<5x3xf32>) -> tensor<5x5xf32>
func.func @concat(%a: tensor<5x2xf32>, %b: tensor<5x3xf32>) {
  %y = blu.concat dim = 1 %a, %b : (tensor<5x2xf32>, tensor<5x3xf32>) -> tensor<5x5xf32>
  return
}

// CHECK-LABEL: func.func @concat_unknown_extent(
// CHECK-SAME: %[[A:.+]]: tensor<?x2xi32>, %[[B:.+]]: tensor<3x2xi32>
// CHECK: blu.concat dim = 0 %[[A]], %[[B]] : (tensor<?x2xi32>, tensor<3x2xi32>) -> tensor<?x2xi32>
func.func @concat_unknown_extent(%a: tensor<?x2xi32>, %b: tensor<3x2xi32>) {
  %y = blu.concat dim = 0 %a, %b : (tensor<?x2xi32>, tensor<3x2xi32>) -> tensor<?x2xi32>
  return
}
