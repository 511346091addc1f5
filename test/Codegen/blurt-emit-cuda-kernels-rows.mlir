// RUN: bt-opt %s -blurt-emit-cuda-kernels="arch=sm_80,sm_90a" | FileCheck %s
// RUN: bt-opt %s -blurt-emit-cuda-kernels="arch=sm_80" | FileCheck %s --check-prefix=PLAIN

#id = affine_map<(d0, d1) -> (d0, d1)>

// A row that one block takes, and that is read again for each reduction, stays in
// shared memory if it fits: 80,000 bytes anywhere, 200,000 on Hopper alone, for
// which there is another kernel of the same name.

// CHECK: module attributes {blurt.device = {
// CHECK-SAME: shared_bytes = 80000 : i64, source = "short at {{[^"]*}}", symbol = "bt_short_0"
// CHECK-SAME: shared_bytes = 0 : i64, source = "long at {{[^"]*}}", symbol = "bt_long_1"
// CHECK-SAME: shared_bytes = 200000 : i64, source = "long at {{[^"]*}}", symbol = "bt_long_1"
// CHECK: gpu.module @kernels {
// Maximum and sum in one pass; quotients by the sum stay quotients.
// CHECK: llvm.func @bt_short_0
// CHECK: arith.maximumf {{.*}} : vector<4xf32>
// CHECK: math.exp {{.*}} : vector<4xf32>
// CHECK: nvvm.barrier
// CHECK: arith.divf {{.*}} : vector<4xf32>
// CHECK: llvm.func @bt_long_1
// What a row adds to its result is read before its sum is taken.
// CHECK: llvm.func @bt_kept_2
// CHECK-COUNT-2: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK: nvvm.shfl.sync
// CHECK-NOT: llvm.load
// CHECK: llvm.store {{.*}} vector<4xf32>
// CHECK: gpu.module @kernels_sm_90a {
// CHECK-NOT: llvm.func @bt_short_0
// CHECK: llvm.func @bt_long_1
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>

// PLAIN-NOT: shared_bytes = 200000
// PLAIN-NOT: kernels_sm_90a
module attributes {blurt.workspace = array<i64: 0, 4096>} {
func.func @run(%ctx: !llvm.ptr, %arena: memref<4194304xi8>) {
  %x = blurt.slot %arena offset 4096 : memref<4194304xi8> -> memref<8x20000xf32>
  %y = blurt.slot %arena offset 1048576 : memref<4194304xi8> -> memref<8x50000xf32>
  blurt.group "short" domain [8, 20000] reduce [1] ins(%x [#id] : memref<8x20000xf32>) outs(%x [#id] : memref<8x20000xf32>) {
  ^bb0(%e: f32):
    %max = blurt.reduce max %e : f32
    %d = arith.subf %e, %max : f32
    %exp = math.exp %d : f32
    %sum = blurt.reduce sum %exp : f32
    %p = arith.divf %exp, %sum : f32
    blurt.group_yield %p : f32
  }
  blurt.group "long" domain [8, 50000] reduce [1] ins(%y [#id] : memref<8x50000xf32>) outs(%y [#id] : memref<8x50000xf32>) {
  ^bb0(%e: f32):
    %max = blurt.reduce max %e : f32
    %d = arith.subf %e, %max : f32
    %exp = math.exp %d : f32
    %sum = blurt.reduce sum %exp : f32
    %p = arith.divf %exp, %sum : f32
    blurt.group_yield %p : f32
  }
  %u = blurt.slot %arena offset 3145728 : memref<4194304xi8> -> memref<8x128xf32>
  %v = blurt.slot %arena offset 3149824 : memref<4194304xi8> -> memref<8x128xf32>
  blurt.group "kept" domain [8, 128] reduce [1] ins(%u [#id] : memref<8x128xf32>, %v [#id] : memref<8x128xf32>) outs(%u [#id] : memref<8x128xf32>) {
  ^bb0(%e: f32, %f: f32):
    %sum = blurt.reduce sum %e : f32
    %p = arith.mulf %e, %sum : f32
    %q = arith.addf %p, %f : f32
    blurt.group_yield %q : f32
  }
  return
}
}
