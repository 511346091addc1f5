// RUN: bt-opt %s -blurt-transpose-operands | FileCheck %s
// RUN: bt-opt %s -blurt-transpose-operands -blurt-plan="workspace=4096" -blurt-emit-cuda-kernels | FileCheck %s --check-prefix=KERNEL

// Only a TF32 product whose operands both lie across k, and that is large
// enough, has them copied; the copies keep places of their own.

// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[TURN:.*]] = affine_map<(d0, d1) -> (d1, d0)>

module attributes {blurt.program = {}} {
  // CHECK-LABEL: func.func @large
  // CHECK-SAME: (%[[A:.*]]: tensor<4096x3072xf32> {{.*}}, %[[B:.*]]: tensor<4096x768xf32>
  // CHECK: %[[AT:.*]] = blurt.group "transpose" domain [3072, 4096] ins(%[[A]] [#[[TURN]]] : tensor<4096x3072xf32>) outs([#[[ID]]]) -> tensor<3072x4096xf32>
  // CHECK: %[[BT:.*]] = blurt.group "transpose" domain [768, 4096] ins(%[[B]] [#[[TURN]]]
  // CHECK: blurt.gemm %[[AT]], %[[BT]] transposed tf32

  // A tile goes through shared memory: read along one dim, written along the
  // other.
  // KERNEL-LABEL: gpu.module @kernels
  // KERNEL: llvm.mlir.global internal @bt_transpose_0_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<4224 x i8>
  // KERNEL: llvm.func @bt_transpose_0
  // KERNEL-COUNT-4: llvm.store %{{.*}} : f32, !llvm.ptr<3>
  // KERNEL: nvvm.barrier
  // KERNEL: llvm.load %{{.*}} : !llvm.ptr<3> -> f32
  func.func @large(%a: tensor<4096x3072xf32> {blu.tensor = {name = "a", role = "input"}},
                   %b: tensor<4096x768xf32> {blu.tensor = {name = "b", role = "input"}})
      -> (tensor<3072x768xf32> {blu.tensor = {name = "y", role = "output"}}) attributes {blurt.entry = {}} {
    %y = blurt.gemm %a transposed, %b tf32 : (tensor<4096x3072xf32>, tensor<4096x768xf32>) -> tensor<3072x768xf32>
    return %y : tensor<3072x768xf32>
  }

  // CHECK-LABEL: func.func @others
  // CHECK-NOT: blurt.group
  func.func @others(%a: tensor<4096x3072xf32> {blu.tensor = {name = "a", role = "input"}},
                    %b: tensor<4096x768xf32> {blu.tensor = {name = "b", role = "input"}},
                    %s: tensor<4096x64xf32> {blu.tensor = {name = "s", role = "input"}})
      -> (tensor<3072x768xf32> {blu.tensor = {name = "y", role = "output"}},
          tensor<64x768xf32> {blu.tensor = {name = "z", role = "output"}},
          tensor<4096x4096xf32> {blu.tensor = {name = "w", role = "output"}}) attributes {blurt.entry = {}} {
    // CHECK: blurt.gemm %{{.*}} transposed, %{{.*}} : (
    %y = blurt.gemm %a transposed, %b : (tensor<4096x3072xf32>, tensor<4096x768xf32>) -> tensor<3072x768xf32>
    // CHECK: blurt.gemm %{{.*}} transposed, %{{.*}} tf32
    %z = blurt.gemm %s transposed, %b tf32 : (tensor<4096x64xf32>, tensor<4096x768xf32>) -> tensor<64x768xf32>
    // CHECK: blurt.gemm %{{.*}}, %{{.*}} transposed tf32
    %w = blurt.gemm %b, %b transposed tf32 : (tensor<4096x768xf32>, tensor<4096x768xf32>) -> tensor<4096x4096xf32>
    return %y, %z, %w : tensor<3072x768xf32>, tensor<64x768xf32>, tensor<4096x4096xf32>
  }
}
