// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @embedding(
// CHECK-SAME: %[[W:.+]]: tensor<256x64xf32>, %[[I:.+]]: tensor<4x?xi32>
// CHECK: blu.embedding %[[W]], %[[I]] : (tensor<256x64xf32>, tensor<4x?xi32>) -> tensor<4x?x64xf32>
func.func @embedding(%w: tensor<256x64xf32>, %i: tensor<4x?xi32>) {
  %y = blu.embedding %w, %i : (tensor<256x64xf32>, tensor<4x?xi32>) -> tensor<4x?x64xf32>
  return
}
