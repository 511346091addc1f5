// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @linear(
// CHECK-SAME: %[[X:.+]]: tensor<?x8x64xf32>, %[[W:.+]]: tensor<32x64xf32>, %[[B:.+]]: tensor<32xf32>
// CHECK: blu.linear %[[X]], %[[W]], %[[B]] : (tensor<?x8x64xf32>, tensor<32x64xf32>, tensor<32xf32>) -> tensor<?x8x32xf32>
// CHECK: blu.linear %[[X]], %[[W]] : (tensor<?x8x64xf32>, tensor<32x64xf32>) -> tensor<?x8x32xf32>
func.func @linear(%x: tensor<?x8x64xf32>, %w: tensor<32x64xf32>, %b: tensor<32xf32>) {
  %y = blu.linear %x, %w, %b : (tensor<?x8x64xf32>, tensor<32x64xf32>, tensor<32xf32>) -> tensor<?x8x32xf32>
  %z = blu.linear %x, %w : (tensor<?x8x64xf32>, tensor<32x64xf32>) -> tensor<?x8x32xf32>
  return
}

// CHECK-LABEL: func.func @linear_wide(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xbf16>, %[[W:.+]]: tensor<32x64xbf16>, %[[B:.+]]: tensor<32xf32>
// CHECK: blu.linear %[[X]], %[[W]], %[[B]] wide : (tensor<8x64xbf16>, tensor<32x64xbf16>, tensor<32xf32>) -> tensor<8x32xf32>
func.func @linear_wide(%x: tensor<8x64xbf16>, %w: tensor<32x64xbf16>, %b: tensor<32xf32>) {
  %y = blu.linear %x, %w, %b wide : (tensor<8x64xbf16>, tensor<32x64xbf16>, tensor<32xf32>) -> tensor<8x32xf32>
  return
}
