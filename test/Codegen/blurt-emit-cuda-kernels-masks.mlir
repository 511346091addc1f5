// RUN: bt-opt %s -blurt-emit-cuda-kernels="arch=sm_80" -canonicalize | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>

// Elements from 19,997 of 20,000 on are hidden: trips of several vectors end before
// them and have no mask; the lanes of what is left compare their numbers, in 32
// bits, with the distance to the first that is hidden.
// CHECK: llvm.func @bt_tail_0
// CHECK: scf.for
// CHECK-NOT: arith.cmpi
// CHECK: math.exp {{.*}} : vector<4xf32>
// CHECK: scf.for
// CHECK: %[[END:.*]] = arith.subi %c19997_i32, %{{.*}} : i32
// CHECK: %[[ENDS:.*]] = vector.broadcast %[[END]] : i32 to vector<4xi32>
// CHECK: %[[IN:.*]] = arith.cmpi sgt, %[[ENDS]], %{{.*}} : vector<4xi32>
// CHECK: arith.select %[[IN]], {{.*}} : vector<4xi1>, vector<4xf32>

// More than one trip is hidden: every trip has its mask.
// CHECK: llvm.func @bt_half_1
// CHECK: scf.for
// CHECK-NEXT: arith.muli
// CHECK-NOT: scf.for
// CHECK: arith.cmpi sgt, {{.*}} : vector<4xi32>
// CHECK: scf.for
module attributes {blurt.workspace = array<i64: 0, 4096>} {
func.func @run(%ctx: !llvm.ptr, %arena: memref<4194304xi8>) {
  %x = blurt.slot %arena offset 4096 : memref<4194304xi8> -> memref<8x20000xf32>
  blurt.group "tail" domain [8, 20000] reduce [1] ins(%x [#id] : memref<8x20000xf32>) outs(%x [#id] : memref<8x20000xf32>) {
  ^bb0(%e: f32):
    %lowest = arith.constant 0xFF800000 : f32
    %end = arith.constant 19997 : i64
    %i = blurt.index 1 : i64
    %in = arith.cmpi slt, %i, %end : i64
    %z = arith.select %in, %e, %lowest : f32
    %max = blurt.reduce max %z : f32
    %d = arith.subf %z, %max : f32
    %exp = math.exp %d : f32
    %sum = blurt.reduce sum %exp : f32
    %p = arith.divf %exp, %sum : f32
    blurt.group_yield %p : f32
  }
  blurt.group "half" domain [8, 20000] reduce [1] ins(%x [#id] : memref<8x20000xf32>) outs(%x [#id] : memref<8x20000xf32>) {
  ^bb0(%e: f32):
    %lowest = arith.constant 0xFF800000 : f32
    %end = arith.constant 9999 : i64
    %i = blurt.index 1 : i64
    %in = arith.cmpi slt, %i, %end : i64
    %z = arith.select %in, %e, %lowest : f32
    %max = blurt.reduce max %z : f32
    %d = arith.subf %z, %max : f32
    %exp = math.exp %d : f32
    %sum = blurt.reduce sum %exp : f32
    %p = arith.divf %exp, %sum : f32
    blurt.group_yield %p : f32
  }
  return
}
}
