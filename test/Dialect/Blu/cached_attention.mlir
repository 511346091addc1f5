// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @cached_attention(
// CHECK-SAME: %[[Q:.+]]: tensor<1x1x4x64xf32>, %[[K:.+]]: tensor<1x1x4x64xf32>, %[[V:.+]]: tensor<1x1x4x64xf32>, %[[KC:.+]]: tensor<1x128x4x64xf32>, %[[VC:.+]]: tensor<1x128x4x64xf32>, %[[P:.+]]: tensor<i64>
// CHECK: blu.cached_attention %[[Q]], %[[K]], %[[V]], %[[KC]], %[[VC]] at %[[P]] scale = 1.250000e-01 : (tensor<1x1x4x64xf32>, tensor<1x1x4x64xf32>, tensor<1x1x4x64xf32>, tensor<1x128x4x64xf32>, tensor<1x128x4x64xf32>, tensor<i64>) -> (tensor<1x1x4x64xf32>, tensor<1x128x4x64xf32>, tensor<1x128x4x64xf32>)
func.func @cached_attention(%q: tensor<1x1x4x64xf32>, %k: tensor<1x1x4x64xf32>, %v: tensor<1x1x4x64xf32>, %kc: tensor<1x128x4x64xf32>, %vc: tensor<1x128x4x64xf32>, %p: tensor<i64>) {
  %o:3 = blu.cached_attention %q, %k, %v, %kc, %vc at %p scale = 1.250000e-01 : (tensor<1x1x4x64xf32>, tensor<1x1x4x64xf32>, tensor<1x1x4x64xf32>, tensor<1x128x4x64xf32>, tensor<1x128x4x64xf32>, tensor<i64>) -> (tensor<1x1x4x64xf32>, tensor<1x128x4x64xf32>, tensor<1x128x4x64xf32>)
  return
}
