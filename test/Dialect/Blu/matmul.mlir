// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @matmul(
// CHECK-SAME: %[[A:.+]]: tensor<2x3x4xf32>, %[[B:.+]]: tensor<4x5xf32>
// CHECK: blu.matmul %[[A]], %[[B]] : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
func.func @matmul(%a: tensor<2x3x4xf32>, %b: tensor<4x5xf32>) {
  %y = blu.matmul %a, %b : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  return
}

// CHECK-LABEL: func.func @matmul_transposed(
// CHECK-SAME: %[[A:.+]]: tensor<4x3xbf16>, %[[B:.+]]: tensor<5x4xbf16>
// CHECK: blu.matmul %[[A]], %[[B]] trans_a trans_b : (tensor<4x3xbf16>, tensor<5x4xbf16>) -> tensor<3x5xbf16>
func.func @matmul_transposed(%a: tensor<4x3xbf16>, %b: tensor<5x4xbf16>) {
  %y = blu.matmul %a, %b trans_a trans_b : (tensor<4x3xbf16>, tensor<5x4xbf16>) -> tensor<3x5xbf16>
  return
}

// CHECK-LABEL: func.func @matmul_vectors(
// CHECK-SAME: %[[A:.+]]: tensor<4xf64>, %[[B:.+]]: tensor<4xf64>, %[[M:.+]]: tensor<5x4xf64>
// CHECK: blu.matmul %[[A]], %[[B]] : (tensor<4xf64>, tensor<4xf64>) -> tensor<f64>
// CHECK: blu.matmul %[[A]], %[[M]] trans_b : (tensor<4xf64>, tensor<5x4xf64>) -> tensor<5xf64>
func.func @matmul_vectors(%a: tensor<4xf64>, %b: tensor<4xf64>, %m: tensor<5x4xf64>) {
  %y = blu.matmul %a, %b : (tensor<4xf64>, tensor<4xf64>) -> tensor<f64>
  %z = blu.matmul %a, %m trans_b : (tensor<4xf64>, tensor<5x4xf64>) -> tensor<5xf64>
  return
}

// CHECK-LABEL: func.func @matmul_wide(
// CHECK-SAME: %[[A:.+]]: tensor<4x3xbf16>, %[[B:.+]]: tensor<4x5xbf16>
// CHECK: blu.matmul %[[A]], %[[B]] trans_a wide : (tensor<4x3xbf16>, tensor<4x5xbf16>) -> tensor<3x5xf32>
func.func @matmul_wide(%a: tensor<4x3xbf16>, %b: tensor<4x5xbf16>) {
  %y = blu.matmul %a, %b trans_a wide : (tensor<4x3xbf16>, tensor<4x5xbf16>) -> tensor<3x5xf32>
  return
}
