// RUN: bt-opt %s -blurt-emit-cuda-kernels="arch=sm_90a" | FileCheck %s
// RUN: not bt-opt %s -blurt-emit-cuda-kernels="arch=sm_80,sm_90a" 2>&1 | FileCheck %s --check-prefix=OTHER

// A product in pieces is a series of kernels. Planes that lie along the depth are
// copied in rows of 64 bytes, others in blocks of 64 rows; what makes scales of
// others comes first. Each format has its kernels; a shallow product has one
// format, and where the depth is cut there is a sum.

// OTHER: error: 'blurt.gemm' op is split, for which there are kernels for sm_90a alone

// CHECK: module attributes {blurt.counters = 65536 : i64, blurt.device = {counters_offset = 65536 : i64, gemms = [],
// CHECK-SAME: symbol = "bt_split_scales_0"
// CHECK-SAME: symbol = "bt_split_f16_1"
// CHECK-SAME: symbol = "bt_split_bf16_2"
// CHECK-SAME: block = array<i32: 384, 1, 1>,
// CHECK-SAME: maps = [{box = array<i64: 32, 128, 2>, dtype = 2 : i64, extents = array<i64: 768, 256, 2>, operand = 0 : i64, strides = array<i64: 2, 1536, 393216>, swizzle = 64 : i64}, {box = array<i64: 32, 192, 2>, dtype = 2 : i64, extents = array<i64: 768, 128, 2>, operand = 1 : i64,
// CHECK-SAME: num_args = 10 : i64, shared_bytes = 204880 : i64, {{[^}]*}}symbol = "bt_product_f16_3"
// CHECK-SAME: maps = [{box = array<i64: 32, 128, 3>
// CHECK-SAME: shared_bytes = 184368 : i64, {{[^}]*}}symbol = "bt_product_bf16_4"
// CHECK-SAME: symbol = "bt_split_maxima_5"
// CHECK-SAME: maps = [{box = array<i64: 64, 32, 2, 2>, dtype = 2 : i64, extents = array<i64: 64, 4096, 4, 2>, operand = 0 : i64, strides = array<i64: 2, 512, 128, 2097152>, swizzle = 128 : i64}, {box = array<i64: 64, 32, 3, 2>,
// CHECK-SAME: symbol = "bt_product_f16_9"
// CHECK-SAME: symbol = "bt_split_sum_11"
// CHECK-SAME: symbol = "bt_split_bf16_13"
// CHECK-SAME: symbol = "bt_product_bf16_14"}]
module attributes {blurt.workspace = array<i64: 1048576, 67108864>, blurt.counters = 65536 : i64} {

// CHECK: llvm.func @bt_split_f16_1
// Counts of elements that are lost go through the lanes of a warp.
// CHECK: arith.truncf %{{.*}} : f32 to f16
// CHECK: nvvm.shfl.sync bfly
// CHECK: llvm.func @bt_product_f16_3
// CHECK: nvvm.setmaxregister decrease 40
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK: nvvm.setmaxregister increase 232
// High pieces last; each product of two steps is one piece of assembly.
// CHECK: llvm.inline_asm {{.*}}m64n192k16.f32.f16.f16 {{.*}}never, 1, 1, 0, 0;
// CHECK: llvm.inline_asm {{.*}}m64n192k16.f32.f16.f16 {{.*}}always, 1, 1, 0, 0;
// CHECK: wgmma.wait_group.sync.aligned 0
// A sum that is not finite, in any lane.
// CHECK: nvvm.vote.sync any
// CHECK: llvm.func @bt_product_bf16_4
// CHECK: m64n192k16.f32.bf16.bf16
// CHECK: llvm.func @bt_product_f16_9
// CHECK: m64n192k16.f32.f16.f16 {{.*}}never, 1, 1, 1, 1;

// CHECK: func.func @run
// CHECK-COUNT-15: llvm.call @blurt_launch
// CHECK-NOT: llvm.call @blurt_device_product
func.func @run(%ctx: !llvm.ptr, %arena: memref<134217728xi8>) {
  %a = blurt.slot %arena offset 69206016 : memref<134217728xi8> -> memref<256x768xf32>
  %b = blurt.slot %arena offset 70254592 : memref<134217728xi8> -> memref<128x768xf32>
  %d = blurt.slot %arena offset 71303168 : memref<134217728xi8> -> memref<128xf32>
  %y = blurt.slot %arena offset 71307264 : memref<134217728xi8> -> memref<256x128xf32>
  blurt.gemm %a, %b transposed bias %d into %y split : (memref<256x768xf32>, memref<128x768xf32>, memref<128xf32>, memref<256x128xf32>) -> ()
  %e = blurt.slot %arena offset 75497472 : memref<134217728xi8> -> memref<4096x256xf32>
  %f = blurt.slot %arena offset 83886080 : memref<134217728xi8> -> memref<4096x192xf32>
  %g = blurt.slot %arena offset 92274688 : memref<134217728xi8> -> memref<256x192xf32>
  blurt.gemm %e transposed, %f plus %g into %g split : (memref<4096x256xf32>, memref<4096x192xf32>, memref<256x192xf32>, memref<256x192xf32>) -> ()
  %h = blurt.slot %arena offset 96468992 : memref<134217728xi8> -> memref<64x65xf32>
  %i = blurt.slot %arena offset 96485632 : memref<134217728xi8> -> memref<33x65xf32>
  %j = blurt.slot %arena offset 96501760 : memref<134217728xi8> -> memref<64x33xf32>
  blurt.gemm %h, %i transposed into %j split : (memref<64x65xf32>, memref<33x65xf32>, memref<64x33xf32>) -> ()
  return
}
}
