// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @attention(
// CHECK-SAME: %[[Q:.+]]: tensor<2x32x4x64xf32>, %[[K:.+]]: tensor<2x32x2x64xf32>, %[[V:.+]]: tensor<2x32x2x64xf32>
// CHECK: blu.attention %[[Q]], %[[K]], %[[V]] scale = 1.250000e-01 causal : (tensor<2x32x4x64xf32>, tensor<2x32x2x64xf32>, tensor<2x32x2x64xf32>) -> (tensor<2x32x4x64xf32>, tensor<2x4x32xf32>)
// CHECK: blu.attention %[[Q]], %[[K]], %[[V]] scale = 1.250000e-01 : (tensor<2x32x4x64xf32>, tensor<2x32x2x64xf32>, tensor<2x32x2x64xf32>) -> (tensor<2x32x4x64xf32>, tensor<2x4x32xf32>)
func.func @attention(%q: tensor<2x32x4x64xf32>, %k: tensor<2x32x2x64xf32>, %v: tensor<2x32x2x64xf32>) {
  %o:2 = blu.attention %q, %k, %v scale = 1.250000e-01 causal : (tensor<2x32x4x64xf32>, tensor<2x32x2x64xf32>, tensor<2x32x2x64xf32>) -> (tensor<2x32x4x64xf32>, tensor<2x4x32xf32>)
  %n:2 = blu.attention %q, %k, %v scale = 1.250000e-01 : (tensor<2x32x4x64xf32>, tensor<2x32x2x64xf32>, tensor<2x32x2x64xf32>) -> (tensor<2x32x4x64xf32>, tensor<2x4x32xf32>)
  return
}

// CHECK-LABEL: func.func @attention_bf16(
// CHECK-SAME: %[[Q:.+]]: tensor<2x?x4x64xbf16>, %[[K:.+]]: tensor<2x?x4x64xbf16>, %[[V:.+]]: tensor<2x?x4x64xbf16>
// CHECK: blu.attention %[[Q]], %[[K]], %[[V]] scale = 1.250000e-01 causal : (tensor<2x?x4x64xbf16>, tensor<2x?x4x64xbf16>, tensor<2x?x4x64xbf16>) -> (tensor<2x?x4x64xbf16>, tensor<2x4x?xf32>)
func.func @attention_bf16(%q: tensor<2x?x4x64xbf16>, %k: tensor<2x?x4x64xbf16>, %v: tensor<2x?x4x64xbf16>) {
  %o:2 = blu.attention %q, %k, %v scale = 1.250000e-01 causal : (tensor<2x?x4x64xbf16>, tensor<2x?x4x64xbf16>, tensor<2x?x4x64xbf16>) -> (tensor<2x?x4x64xbf16>, tensor<2x4x?xf32>)
  return
}
