// RUN: bt-opt %s -blurt-plan="row-alignment=16" -blurt-verify-plan | FileCheck %s
// RUN: bt-opt %s -blurt-plan | FileCheck %s --check-prefix=PLAIN

#id = affine_map<(d0, d1) -> (d0, d1)>

// Rows of what a product writes, and of what another reads after it, begin on
// multiples of 16 bytes: 75 floats take 304. What a program returns, small
// matrices, and what is seen in one piece stay packed.

module attributes {blurt.program = {}} {
  // CHECK-LABEL: func.func @run
  // CHECK: blurt.gemm %{{.*}} into %{{.*}} : (memref<64x8xf32>, memref<75x8xf32>, memref<64x75xf32, strided<[76, 1]>>)
  // CHECK: blurt.group "square" {{.*}} outs(%{{.*}} : memref<64x75xf32, strided<[76, 1]>>)
  // CHECK: blurt.gemm %{{.*}} : (memref<64x75xf32, strided<[76, 1]>>, memref<64x75xf32, strided<[76, 1]>>, memref<75x75xf32>)
  // CHECK: blurt.gemm %{{.*}} : (memref<4x8xf32>, memref<75x8xf32>, memref<4x75xf32>)
  // CHECK: blurt.gemm %{{.*}} : (memref<64x8xf32>, memref<75x8xf32>, memref<64x75xf32>)
  // PLAIN-NOT: strided<[76
  func.func @run(%x: tensor<64x8xf32> {blu.tensor = {name = "x", role = "input"}},
                 %w: tensor<75x8xf32> {blu.tensor = {name = "w", role = "input"}},
                 %s: tensor<4x8xf32> {blu.tensor = {name = "s", role = "input"}})
      -> (tensor<75x75xf32> {blu.tensor = {name = "y", role = "output"}},
          tensor<4x75xf32> {blu.tensor = {name = "z", role = "output"}},
          tensor<4800xf32> {blu.tensor = {name = "f", role = "output"}}) attributes {blurt.entry = {}} {
    %p = blurt.gemm %x, %w transposed : (tensor<64x8xf32>, tensor<75x8xf32>) -> tensor<64x75xf32>
    %q = blurt.group "square" domain [64, 75] ins(%p [#id] : tensor<64x75xf32>) outs([#id]) -> tensor<64x75xf32> {
    ^bb0(%e: f32):
      %m = arith.mulf %e, %e : f32
      blurt.group_yield %m : f32
    }
    %y = blurt.gemm %q transposed, %q : (tensor<64x75xf32>, tensor<64x75xf32>) -> tensor<75x75xf32>
    %z = blurt.gemm %s, %w transposed : (tensor<4x8xf32>, tensor<75x8xf32>) -> tensor<4x75xf32>
    %u = blurt.gemm %x, %w transposed : (tensor<64x8xf32>, tensor<75x8xf32>) -> tensor<64x75xf32>
    %f = blurt.reshape %u : tensor<64x75xf32> to tensor<4800xf32>
    return %y, %z, %f : tensor<75x75xf32>, tensor<4x75xf32>, tensor<4800xf32>
  }
}
