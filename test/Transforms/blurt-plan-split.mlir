// RUN: bt-opt %s -blurt-plan="workspace=4096" | FileCheck %s
// RUN: bt-opt %s -blurt-plan="workspace=4096" -blurt-emit-cuda-kernels="arch=sm_90a" | FileCheck %s --check-prefix=KERNEL

// Planes, scales, maxima and parts of the largest product in pieces are in the
// workspace, and what its kernels count lies behind it.

// CHECK: module attributes {{{.*}}blurt.counters = [[END:[0-9]+]] : i64, {{.*}}blurt.workspace = array<i64: 0, [[END]]>
// KERNEL: workspace_bytes
module attributes {blurt.program = {}} {
  func.func @run(%a: tensor<4096x256xf32> {blu.tensor = {name = "a", role = "input"}},
                 %b: tensor<4096x192xf32> {blu.tensor = {name = "b", role = "input"}})
      -> (tensor<256x192xf32> {blu.tensor = {name = "y", role = "output"}}) attributes {blurt.entry = {}} {
    // CHECK: blurt.gemm %{{.*}} transposed, %{{.*}} into %{{.*}} split : (memref<4096x256xf32{{.*}}>
    %y = blurt.gemm %a transposed, %b split : (tensor<4096x256xf32>, tensor<4096x192xf32>) -> tensor<256x192xf32>
    return %y : tensor<256x192xf32>
  }
}
