// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @embedding_grad(
// CHECK-SAME: %[[I:.+]]: tensor<4x32xi64>, %[[G:.+]]: tensor<4x32x64xf32>
// CHECK: blu.embedding_grad %[[I]], %[[G]] rows = 256 : (tensor<4x32xi64>, tensor<4x32x64xf32>) -> tensor<256x64xf32>
func.func @embedding_grad(%i: tensor<4x32xi64>, %g: tensor<4x32x64xf32>) {
  %y = blu.embedding_grad %i, %g rows = 256 : (tensor<4x32xi64>, tensor<4x32x64xf32>) -> tensor<256x64xf32>
  return
}
