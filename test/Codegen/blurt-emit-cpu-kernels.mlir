// RUN: bt-opt %s -blurt-emit-cpu-kernels -cse | FileCheck %s

#id = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
#column = affine_map<(d0, d1) -> (d1)>

// Each schedule; groups of one structure share a kernel, and a small one is
// called rather than handed to the pool.

// CHECK-LABEL: func.func @run
// CHECK-SAME: (%[[CTX:.*]]: !llvm.ptr, %[[ARENA:.*]]: !llvm.ptr, %[[I:.*]]: index)
func.func @run(%ctx: !llvm.ptr, %arena: memref<1048576xi8>, %i: index) {
  // CHECK: %[[SLOT:.*]] = llvm.getelementptr %[[ARENA]][%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, i8
  %x = blurt.slot %arena[%i] offset 0 steps [4096] : memref<1048576xi8> -> memref<512x64xf32>
  %y = blurt.slot %arena offset 262144 : memref<1048576xi8> -> memref<512x64xf32>
  %r = blurt.slot %arena offset 524288 : memref<1048576xi8> -> memref<512xf32>
  %c = blurt.slot %arena offset 589824 : memref<1048576xi8> -> memref<64xf32>
  // CHECK: %[[MAP:.*]] = llvm.mlir.addressof @kernel_square_0
  // CHECK: llvm.call @blurt_parallel(%[[CTX]], %[[MAP]],
  blurt.group "square" domain [512, 64] ins(%x [#id] : memref<512x64xf32>) outs(%y [#id] : memref<512x64xf32>) {
  ^bb0(%e: f32):
    %s = arith.mulf %e, %e : f32
    blurt.group_yield %s : f32
  }
  // CHECK: llvm.call @blurt_parallel(%[[CTX]], %[[MAP]],
  blurt.group "again" domain [512, 64] ins(%y [#id] : memref<512x64xf32>) outs(%x [#id] : memref<512x64xf32>) {
  ^bb0(%e: f32):
    %s = arith.mulf %e, %e : f32
    blurt.group_yield %s : f32
  }
  // CHECK: llvm.mlir.addressof @kernel_rows_1
  blurt.group "rows" domain [512, 64] reduce [1] ins(%x [#id] : memref<512x64xf32>) outs(%r [#row] : memref<512xf32>) {
  ^bb0(%e: f32):
    %s = blurt.reduce sum %e : f32
    blurt.group_yield %s : f32
  }
  // CHECK: llvm.mlir.addressof @kernel_columns_2
  blurt.group "columns" domain [512, 64] reduce [0] ins(%x [#id] : memref<512x64xf32>) outs(%c [#column] : memref<64xf32>) {
  ^bb0(%e: f32):
    %s = blurt.reduce sum %e : f32
    blurt.group_yield %s : f32
  }
  // The transposed operand's first dim has stride 1: its flag is flipped.
  %t = blurt.slot %arena offset 262144 : memref<1048576xi8> -> memref<64x512xf32, strided<[1, 64]>>
  %g = blurt.slot %arena offset 655360 : memref<1048576xi8> -> memref<64x64xf32>
  // CHECK: %[[ONE:.*]] = arith.constant 1 : i32
  // CHECK: %[[ZERO:.*]] = arith.constant 0 : i32
  // CHECK: llvm.call @blurt_gemm_f32(%[[CTX]], %[[ONE]], %[[ZERO]],
  blurt.gemm %t, %x into %g : (memref<64x512xf32, strided<[1, 64]>>, memref<512x64xf32>, memref<64x64xf32>) -> ()
  // CHECK: llvm.call @kernel_fill_3(
  blurt.group "fill" domain [512] outs(%r [affine_map<(d0) -> (d0)>] : memref<512xf32>) {
    %zero = arith.constant 0.0 : f32
    blurt.group_yield %zero : f32
  }
  // CHECK: return
  return
}

// Both dims are one to every operand, so the map runs over 32768 elements.
// CHECK-LABEL: llvm.func internal @kernel_square_0
// CHECK: scf.for
// CHECK:   scf.for
// CHECK-NOT: scf.for
// CHECK:     %[[V:.*]] = llvm.load %{{.*}} : !llvm.ptr -> vector<16xf32>
// CHECK:     %[[S:.*]] = arith.mulf %[[V]], %[[V]] : vector<16xf32>
// CHECK:     llvm.store %[[S]], %{{.*}} : vector<16xf32>, !llvm.ptr

// Four accumulators over a row of 64, joined in a tree, then lanes in halves.
// CHECK-LABEL: llvm.func internal @kernel_rows_1
// CHECK: scf.for
// CHECK-COUNT-4: arith.addf %{{.*}}, %{{.*}} : vector<16xf32>
// CHECK: arith.addf %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK: arith.addf %{{.*}}, %{{.*}} : vector<4xf32>
// CHECK: arith.addf %{{.*}}, %{{.*}} : vector<2xf32>
// CHECK: llvm.store %{{.*}}, %{{.*}} : f32, !llvm.ptr

// Blocks of 32 rows around rows, one accumulator for each vector of columns.
// CHECK-LABEL: llvm.func internal @kernel_columns_2
// CHECK: scf.for
// CHECK:   scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>)
// CHECK:     scf.for {{.*}} iter_args({{.*}}) -> (vector<16xf32>, vector<16xf32>)
// CHECK:       arith.addf
// CHECK:       arith.addf
// CHECK:   llvm.store %{{.*}}, %{{.*}} : vector<16xf32>, !llvm.ptr
