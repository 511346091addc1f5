// RUN: bt-opt %s -split-input-file -blurt-set-split | FileCheck %s

// Products of f32, in loops too; those of f64, and attention, stay.
module attributes {blu.split} {
  // CHECK-LABEL: func.func @marked
  // CHECK: blurt.gemm %{{.*}}, %{{.*}} split : (tensor<8x8xf32>
  // CHECK: blurt.gemm %{{.*}}, %{{.*}} : (tensor<8x8xf64>
  // CHECK: blurt.attention
  // CHECK-NOT: split
  func.func @marked(%a: tensor<8x8xf32>, %d: tensor<8x8xf64>, %q: tensor<1x4x2x8xf32>) {
    %0 = blurt.gemm %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %1 = blurt.gemm %d, %d : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
    %o, %l = blurt.attention %q, %q, %q scale = 1.0 causal : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>)
    return
  }
}

// -----

// CHECK-LABEL: func.func @other
// CHECK-NOT: split
func.func @other(%a: tensor<8x8xf32>) {
  %0 = blurt.gemm %a, %a : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return
}
