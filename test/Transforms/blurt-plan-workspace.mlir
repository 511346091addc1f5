// RUN: bt-opt %s -blurt-plan="workspace=1000" -blurt-verify-plan | FileCheck %s
// RUN: bt-opt %s -blurt-plan | FileCheck %s --check-prefix=NONE

#id = affine_map<(d0) -> (d0)>

// The workspace lies between state and scratch, both of it on a multiple of 256
// bytes, and is as large as the largest of what was asked for and what attention
// needs. A plan for a target that has none has no gap.

// CHECK: module attributes {
// CHECK-SAME: blurt.workspace = array<i64: 256, 1024>
// NONE-NOT: blurt.workspace
module attributes {blurt.program = {}} {
  // CHECK: func.func @train(%{{.*}}: !llvm.ptr, %[[ARENA:.*]]: memref<1344xi8>)
  // CHECK: blurt.slot %[[ARENA]] offset 1280
  // NONE: func.func @train(%{{.*}}: !llvm.ptr, %[[ARENA:.*]]: memref<128xi8>)
  func.func @train(%w: tensor<8xf32> {blu.tensor = {name = "w", role = "param"}},
                   %x: tensor<8xf32> {blu.tensor = {name = "x", role = "input"}})
      -> (tensor<8xf32> {blu.donates = 0 : i64}) attributes {blurt.entry = {}} {
    %y = blurt.group "add" domain [8] ins(%w [#id] : tensor<8xf32>, %x [#id] : tensor<8xf32>)
        outs([#id]) -> tensor<8xf32> {
    ^bb0(%a: f32, %b: f32):
      %s = arith.addf %a, %b : f32
      blurt.group_yield %s : f32
    }
    return %y : tensor<8xf32>
  }
}
