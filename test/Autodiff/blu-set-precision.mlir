// RUN: bt-opt %s -blu-set-precision="policy=fp64" | FileCheck %s
// RUN: bt-opt %s -blu-set-precision="policy=fp32" | FileCheck %s --check-prefix=F32
// RUN: bt-opt %s -blu-set-precision="policy=tf32" | FileCheck %s --check-prefix=TF32
// RUN: bt-opt %s -blu-set-precision="policy=fp32tc" | FileCheck %s --check-prefix=SPLIT
// RUN: not bt-opt %s -blu-set-precision="policy=fp16" 2>&1 | FileCheck %s --check-prefix=BAD

// Types, constants and parameters follow; integers stay.
// CHECK-LABEL: blu.model @m(%x: tensor<3xf64> {{.*}}, %i: tensor<3xi32> {{.*}}) -> (tensor<f64>
// CHECK: blu.param "w" init(#blu.normal<0.000000e+00, 2.000000e-02>) : tensor<3xf64>
// CHECK: blu.constant dense<[1.000000e+00, -2.500000e+00, 3.000000e+00]> : tensor<3xf64>
// CHECK: blu.cast %i : tensor<3xi32> to tensor<3xf64>
// CHECK-NOT: f32

// F32: blu.model @m(%x: tensor<3xf32>
// F32-NOT: f64

// BAD: error: precision policy is 'fp16', expected fp64, fp32, fp32tc, tf32 or bf16

// TF32: module attributes {blu.tf32}
// TF32: blu.model @m(%x: tensor<3xf32>
// TF32-NOT: f64

// SPLIT: module attributes {blu.split}
// SPLIT: blu.model @m(%x: tensor<3xf32>
// SPLIT-NOT: f64
blu.model @m(%x: tensor<3xf32> {blu.name = "x"}, %i: tensor<3xi32> {blu.name = "i"}) -> (tensor<f32> {blu.name = "loss"}) {
  %w = blu.param "w" init(#blu.normal<0.0, 0.02>) : tensor<3xf32>
  %c = blu.constant dense<[1.0, -2.5, 3.0]> : tensor<3xf32>
  %a = blu.mul %x, %w : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %b = blu.mul %a, %c : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %f = blu.cast %i : tensor<3xi32> to tensor<3xf32>
  %d = blu.add %b, %f : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %l = blu.reduce_sum %d [0] : (tensor<3xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}
