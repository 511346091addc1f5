// RUN: bt-opt %s -blurt-emit-cuda-kernels -split-input-file -verify-diagnostics | FileCheck %s

// The first kernel sorts the positions of the ids by row, in the workspace; the
// second adds the updates at them. 1000 rows are 256 sets of 4; two words a warp
// follow the counts of a set's rows.

// CHECK: module attributes {blurt.device = {
// CHECK-SAME: block = array<i32: 512, 1, 1>
// CHECK-SAME: grid = array<i32: 256, 1, 1>
// CHECK-SAME: shared_bytes = 144 : i64
// CHECK-SAME: symbol = "bt_scatter_add_sort_0"
// CHECK-SAME: block = array<i32: 256, 1, 1>
// CHECK-SAME: grid = array<i32: 48, 1, 1>
// CHECK-SAME: symbol = "bt_scatter_add_1"
// CHECK: llvm.func @bt_scatter_add_sort_0
// CHECK: llvm.atomicrmw add {{.*}} !llvm.ptr<3>, i32
// A lane reads no count but the one that it turns into a beginning.
// CHECK-COUNT-2: nvvm.barrier
// CHECK: %[[COUNT:.*]] = scf.if %{{.*}} -> (i32) {
// CHECK-NEXT: llvm.load {{.*}} : !llvm.ptr<3> -> i32
// CHECK: nvvm.shfl.sync {{ *}}up %{{.*}}, %[[COUNT]],
// CHECK: nvvm.match.sync any
// CHECK: llvm.func @bt_scatter_add_1
// CHECK-COUNT-16: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
module attributes {blurt.workspace = array<i64: 0, 8192>} {
  func.func @run(%ctx: !llvm.ptr, %arena: memref<4194304xi8>) {
    %ids = blurt.slot %arena offset 8192 : memref<4194304xi8> -> memref<300xi32>
    %x = blurt.slot %arena offset 16384 : memref<4194304xi8> -> memref<300x384xf32>
    %o = blurt.slot %arena offset 1048576 : memref<4194304xi8> -> memref<1000x384xf32>
    blurt.scatter_add %ids, %x into %o : (memref<300xi32>, memref<300x384xf32>, memref<1000x384xf32>) -> ()
    return
  }
}

// -----

module attributes {blurt.workspace = array<i64: 0, 4096>} {
  func.func @run(%ctx: !llvm.ptr, %arena: memref<4194304xi8>) {
    %ids = blurt.slot %arena offset 8192 : memref<4194304xi8> -> memref<300xi32>
    %x = blurt.slot %arena offset 16384 : memref<4194304xi8> -> memref<300x384xf32>
    %o = blurt.slot %arena offset 1048576 : memref<4194304xi8> -> memref<1000x384xf32>
    // expected-error @+1 {{needs a workspace of 7720 bytes, the plan has 4096}}
    blurt.scatter_add %ids, %x into %o : (memref<300xi32>, memref<300x384xf32>, memref<1000x384xf32>) -> ()
    return
  }
}
