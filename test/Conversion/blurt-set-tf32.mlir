// RUN: bt-opt %s -split-input-file -blurt-set-tf32 | FileCheck %s

// Products and attention of f32, in loops too; those of f64 stay.
module attributes {blu.tf32} {
  // CHECK-LABEL: func.func @marked
  // CHECK: blurt.gemm %{{.*}}, %{{.*}} tf32 : (tensor<8x8xf32>
  // CHECK: blurt.gemm %{{.*}}, %{{.*}} : (tensor<8x8xf64>
  // CHECK: blurt.attention {{.*}} scale = 1.000000e+00 causal tf32 :
  // CHECK: blurt.attention_grad {{.*}} scale = 1.000000e+00 causal tf32 :
  func.func @marked(%a: tensor<8x8xf32>, %d: tensor<8x8xf64>, %q: tensor<1x4x2x8xf32>) {
    %0 = blurt.gemm %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = blurt.gemm %d, %d : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
    %o, %l = blurt.attention %q, %q, %q scale = 1.0 causal : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>)
    %dq, %dk, %dv = blurt.attention_grad %q, %q, %q, %o, %l, %q scale = 1.0 causal : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x2x4xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>)
    return
  }
}

// -----

// CHECK-LABEL: func.func @other
// CHECK-NOT: tf32
func.func @other(%a: tensor<8x8xf32>) {
  %0 = blurt.gemm %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}
