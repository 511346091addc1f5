// RUN: bt-opt %s -blurt-emit-cuda-kernels="arch=sm_80" | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#last = affine_map<(d0, d1) -> (d1)>

// The exponential of what was read from bf16 has its error, and may be
// approximate; that of an f32 may not.
// CHECK-LABEL: llvm.func @bt_softmax_0
// CHECK: math.exp {{.*}} fastmath<afn> : vector<8xf32>
// CHECK-NOT: math.exp %{{[0-9]+}} : vector
// A one in one lane is a comparison of i32 and a selection for each lane.
// CHECK: arith.subi {{.*}} : i32
// CHECK-COUNT-8: arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
// CHECK-LABEL: llvm.func @bt_exact_1
// CHECK-NOT: afn
// CHECK: math.exp %{{[0-9]+}} : vector<4xf32>

// A row of five operands, which stays in registers: of them the one that all
// rows share does not count.
// CHECK-LABEL: llvm.func @bt_rows_2
// CHECK-NOT: scf.for
// CHECK: nvvm.shfl.sync
// CHECK-NOT: scf.for

// A thread that reads 16 bytes for a vector takes two of them at a time.
// CHECK-LABEL: llvm.func @bt_half_3
// CHECK: scf.for
// CHECK-COUNT-2: llvm.load {{.*}} : !llvm.ptr -> vector<8xi16>
// CHECK-COUNT-2: llvm.store {{.*}} : vector<8xi16>
// CHECK: scf.for
// CHECK: llvm.load {{.*}} : !llvm.ptr -> vector<8xi16>
// CHECK-NOT: llvm.load
// CHECK: llvm.return
module attributes {blurt.workspace = array<i64: 0, 4096>} {
func.func @run(%ctx: !llvm.ptr, %arena: memref<268435456xi8>) {
  %x = blurt.slot %arena offset 4096 : memref<268435456xi8> -> memref<64x1024xbf16>
  %t = blurt.slot %arena offset 0 : memref<268435456xi8> -> memref<64xi32>
  blurt.group "softmax" domain [64, 1024] reduce [1] ins(%x [#id] : memref<64x1024xbf16>, %t [#row] : memref<64xi32>) outs(%x [#id] : memref<64x1024xbf16>) {
  ^bb0(%e: f32, %label: i32):
    %m = blurt.reduce max %e : f32
    %d = arith.subf %e, %m : f32
    %p = math.exp %d : f32
    %s = blurt.reduce sum %p : f32
    %q = arith.divf %p, %s : f32
    %i = blurt.index 1 : i64
    %l = arith.extsi %label : i32 to i64
    %is = arith.cmpi eq, %i, %l : i64
    %one = arith.constant 1.0 : f32
    %zero = arith.constant 0.0 : f32
    %hot = arith.select %is, %one, %zero : f32
    %g = arith.subf %q, %hot : f32
    blurt.group_yield %g : f32
  }
  %y = blurt.slot %arena offset 1048576 : memref<268435456xi8> -> memref<64x1024xf32>
  blurt.group "exact" domain [64, 1024] reduce [1] ins(%y [#id] : memref<64x1024xf32>) outs(%y [#id] : memref<64x1024xf32>) {
  ^bb0(%e: f32):
    %p = math.exp %e : f32
    %s = blurt.reduce sum %p : f32
    %q = arith.divf %p, %s : f32
    blurt.group_yield %q : f32
  }
  %a = blurt.slot %arena offset 2097152 : memref<268435456xi8> -> memref<64x768xf32>
  %b = blurt.slot %arena offset 3145728 : memref<268435456xi8> -> memref<64x768xf32>
  %c = blurt.slot %arena offset 4194304 : memref<268435456xi8> -> memref<64x768xf32>
  %h = blurt.slot %arena offset 5242880 : memref<268435456xi8> -> memref<64x768xf32>
  %w = blurt.slot %arena offset 6291456 : memref<268435456xi8> -> memref<768xf32>
  %v = blurt.slot %arena offset 6356992 : memref<268435456xi8> -> memref<768xf32>
  blurt.group "rows" domain [64, 768] reduce [1] ins(%a [#id] : memref<64x768xf32>, %b [#id] : memref<64x768xf32>, %c [#id] : memref<64x768xf32>, %h [#id] : memref<64x768xf32>, %w [#last] : memref<768xf32>, %v [#last] : memref<768xf32>) outs(%a [#id] : memref<64x768xf32>) {
  ^bb0(%0: f32, %1: f32, %2: f32, %3: f32, %4: f32, %5: f32):
    %6 = arith.addf %0, %1 : f32
    %7 = arith.addf %2, %3 : f32
    %8 = arith.mulf %6, %4 : f32
    %9 = arith.mulf %8, %7 : f32
    %10 = blurt.reduce sum %9 : f32
    %11 = arith.mulf %10, %7 : f32
    %12 = arith.mulf %11, %5 : f32
    blurt.group_yield %12 : f32
  }
  %k = blurt.slot %arena offset 8388608 : memref<268435456xi8> -> memref<8192x8192xbf16>
  blurt.group "half" domain [8192, 8192] ins(%k [#id] : memref<8192x8192xbf16>) outs(%k [#id] : memref<8192x8192xbf16>) {
  ^bb0(%e: f32):
    %c0 = arith.constant 0.5 : f32
    %z = arith.mulf %e, %c0 : f32
    blurt.group_yield %z : f32
  }
  return
}
}
