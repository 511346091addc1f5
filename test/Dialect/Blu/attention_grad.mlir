// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @attention_grad(
// CHECK-SAME: %[[Q:.+]]: tensor<2x32x4x64xf32>, %[[K:.+]]: tensor<2x32x2x64xf32>, %[[V:.+]]: tensor<2x32x2x64xf32>, %[[O:.+]]: tensor<2x32x4x64xf32>, %[[LSE:.+]]: tensor<2x4x32xf32>, %[[G:.+]]: tensor<2x32x4x64xf32>
// CHECK: blu.attention_grad %[[Q]], %[[K]], %[[V]], %[[O]], %[[LSE]], %[[G]] scale = 1.250000e-01 causal : (tensor<2x32x4x64xf32>, tensor<2x32x2x64xf32>, tensor<2x32x2x64xf32>, tensor<2x32x4x64xf32>, tensor<2x4x32xf32>, tensor<2x32x4x64xf32>) -> (tensor<2x32x4x64xf32>, tensor<2x32x2x64xf32>, tensor<2x32x2x64xf32>)
func.func @attention_grad(%q: tensor<2x32x4x64xf32>, %k: tensor<2x32x2x64xf32>, %v: tensor<2x32x2x64xf32>, %o: tensor<2x32x4x64xf32>, %lse: tensor<2x4x32xf32>, %g: tensor<2x32x4x64xf32>) {
  %d:3 = blu.attention_grad %q, %k, %v, %o, %lse, %g scale = 1.250000e-01 causal : (tensor<2x32x4x64xf32>, tensor<2x32x2x64xf32>, tensor<2x32x2x64xf32>, tensor<2x32x4x64xf32>, tensor<2x4x32xf32>, tensor<2x32x4x64xf32>) -> (tensor<2x32x4x64xf32>, tensor<2x32x2x64xf32>, tensor<2x32x2x64xf32>)
  return
}
