// RUN: bt-opt %s -blurt-emit-cuda-kernels -cse | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>

// Each schedule; groups of one structure and alignment share a kernel, a cut
// reduction has two, and how they are launched and what they do at least is in
// the module's attribute.

// CHECK: module attributes {blurt.device = {
// CHECK-SAME: gemms = [{accumulate = 0 : i64, align_a = 256 : i64, align_b = 256 : i64, align_c = 256 : i64, batch = 1 : i64, compute = 1 : i64,
// CHECK-SAME: k = 64 : i64, lda = 64 : i64, ldb = 64 : i64, ldc = 512 : i64, m = 512 : i64, n = 512 : i64,
// CHECK-SAME: trans_a = 0 : i64, trans_b = 1 : i64}]
// CHECK-SAME: kernels = [{block = array<i32: 256, 1, 1>, bytes = 262144 : i64, flops = 32768 : i64, grid = array<i32: 32, 1, 1>, num_args = 2 : i64, shared_bytes = 0 : i64, source = "square at {{.*}}blurt-emit-cuda-kernels.mlir:{{[0-9]+}}:{{[0-9]+}}", symbol = "bt_square_0"}
// CHECK-SAME: bytes = 133120 : i64, flops = 32768 : i64, grid = array<i32: 128, 1, 1>, {{.*}}symbol = "bt_rows_1"
// CHECK-SAME: block = array<i32: 256, 1, 1>, bytes = 131584 : i64, flops = 32768 : i64, grid = array<i32: 1, 2, 1>, num_args = 3 : i64, {{.*}}symbol = "bt_columns_2"
// CHECK-SAME: bytes = 768 : i64, flops = 0 : i64, {{.*}}symbol = "bt_columns_combine_3"
// CHECK-SAME: bytes = 262144 : i64, flops = 65536 : i64, {{.*}}num_args = 2 : i64, {{.*}}symbol = "bt_total_4"
// CHECK-SAME: workspace_bytes = 65536 : i64, workspace_offset = 983040 : i64}
module attributes {blurt.workspace = array<i64: 983040, 65536>} {

// CHECK: gpu.module @kernels
// CHECK: llvm.func @bt_square_0(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr) attributes {nvvm.kernel, nvvm.minctasm = 1 : i32, nvvm.reqntid = array<i32: 256, 1, 1>}
// CHECK: nvvm.read.ptx.sreg.tid.x
// CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr
// A warp a row: five exchanges, no shared memory.
// CHECK: llvm.func @bt_rows_1
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.func @bt_columns_2
// CHECK: nvvm.barrier
// CHECK: llvm.func @bt_columns_combine_3

// CHECK-LABEL: func.func @run
// CHECK-SAME: (%[[CTX:.*]]: !llvm.ptr, %[[ARENA:.*]]: !llvm.ptr, %[[I:.*]]: index)
func.func @run(%ctx: !llvm.ptr, %arena: memref<2097152xi8>, %i: index) {
  // CHECK-DAG: %[[C0:.*]] = arith.constant 0 : i32
  // CHECK-DAG: %[[ARGS:.*]] = llvm.alloca
  %x = blurt.slot %arena[%i] offset 0 steps [131072] : memref<2097152xi8> -> memref<512x64xf32>
  %y = blurt.slot %arena offset 262144 : memref<2097152xi8> -> memref<512x64xf32>
  %r = blurt.slot %arena offset 524288 : memref<2097152xi8> -> memref<512xf32>
  %c = blurt.slot %arena offset 589824 : memref<2097152xi8> -> memref<64xf32>
  %p = blurt.slot %arena offset 655360 : memref<2097152xi8> -> memref<512x512xf32>
  // CHECK: llvm.call @blurt_launch(%[[CTX]], %[[C0]], %[[ARGS]])
  blurt.group "square" domain [512, 64] ins(%x [#id] : memref<512x64xf32>) outs(%y [#id] : memref<512x64xf32>) {
  ^bb0(%e: f32):
    %s = arith.mulf %e, %e : f32
    blurt.group_yield %s : f32
  }
  // CHECK: llvm.call @blurt_launch(%[[CTX]], %[[C0]], %[[ARGS]])
  blurt.group "again" domain [512, 64] ins(%y [#id] : memref<512x64xf32>) outs(%x [#id] : memref<512x64xf32>) {
  ^bb0(%e: f32):
    %s = arith.mulf %e, %e : f32
    blurt.group_yield %s : f32
  }
  blurt.group "rows" domain [512, 64] reduce [1] ins(%x [#id] : memref<512x64xf32>) outs(%r [#row] : memref<512xf32>) {
  ^bb0(%e: f32):
    %s = blurt.reduce sum %e : f32
    blurt.group_yield %s : f32
  }
  // The workspace is an argument of both kernels.
  // CHECK: %[[AT:.*]] = llvm.getelementptr %[[ARENA]][%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  // CHECK: llvm.store %[[AT]], %{{.*}} {alignment = 8 : i64} : !llvm.ptr, !llvm.ptr
  blurt.group "columns" domain [512, 64] reduce [0] ins(%x [#id] : memref<512x64xf32>) outs(%c [#column] : memref<64xf32>) {
  ^bb0(%e: f32):
    %s = blurt.reduce sum %e : f32
    blurt.group_yield %s : f32
  }
  // A result along the reduced rows depends on the sum: one kernel, no parts.
  blurt.group "total" domain [512, 64] reduce [0] ins(%x [#id] : memref<512x64xf32>) outs(%y [#id] : memref<512x64xf32>) {
  ^bb0(%e: f32):
    %s = blurt.reduce sum %e : f32
    %d = arith.divf %e, %s : f32
    blurt.group_yield %d : f32
  }
  // CHECK: llvm.call @blurt_device_product(%[[CTX]], %[[C0]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}})
  blurt.gemm %x, %y transposed into %p tf32 : (memref<512x64xf32>, memref<512x64xf32>, memref<512x512xf32>) -> ()
  return
}
}
