// RUN: bt-opt %s -blurt-emit-cuda-kernels="arch=sm_80,sm_90a" | FileCheck %s --check-prefixes=CHECK,BOTH
// RUN: bt-opt %s -blurt-emit-cuda-kernels="arch=sm_90a" | FileCheck %s --check-prefixes=CHECK,HOPPER
// RUN: bt-opt %s -blurt-emit-cuda-kernels="arch=sm_80" | FileCheck %s --check-prefixes=CHECK,OTHER
// RUN: bt-opt %s -blurt-emit-cuda-kernels | FileCheck %s --check-prefixes=CHECK,OTHER

// Attention has another form for sm_90a, under the same symbol and number: with
// its own launch, and tensor maps of its operands. What no such form fits (here
// depth 32) is the same for all.

// CHECK: module attributes {blurt.device = {
// BOTH-SAME: kernels = [{block = array<i32: 128, 1, 1>, {{[^]]*}}symbol = "bt_attention_0"}, {{[^]]*}}symbol = "bt_attention_1"}],
// BOTH-SAME: kernels_sm_90a = [{block = array<i32: 128, 1, 1>, bytes = {{[0-9]+}} : i64, flops = {{[0-9]+}} : i64, grid = array<i32: 16, 12, 2>,
// BOTH-SAME: maps = [{box = array<i64: 64, 1, 64, 1>, dtype = 2 : i64, extents = array<i64: 64, 12, 1024, 2>, operand = 0 : i64, strides = array<i64: 2, 128, 4608, 4718592>, swizzle = 128 : i64},
// BOTH-SAME: symbol = "bt_attention_0"}, {{[^]]*}}symbol = "bt_attention_1"}]
// HOPPER-SAME: kernels = [{{.*}}maps = [{{.*}}symbol = "bt_attention_0"}, {{[^]]*}}symbol = "bt_attention_1"}],
// HOPPER-NOT: kernels_sm_90a =
// OTHER-NOT: maps =
// OTHER-NOT: kernels_sm_90a
// CHECK: workspace_bytes
module attributes {blurt.workspace = array<i64: 0, 65536>} {

// CHECK: gpu.module @kernels
// BOTH: llvm.func @bt_attention_0(
// OTHER: llvm.func @bt_attention_0(
// HOPPER-NOT: @bt_attention_0
// CHECK: llvm.func @bt_attention_1(
// OTHER-NOT: gpu.module @kernels_sm_90a

// BOTH: gpu.module @kernels_sm_90a
// HOPPER: gpu.module @kernels_sm_90a
// BOTH: llvm.func @bt_attention_0({{.*}}, %{{[a-z0-9]+}}: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant})
// HOPPER: llvm.func @bt_attention_0(
// BOTH: wgmma.mma_async
// HOPPER: wgmma.mma_async
// BOTH-NOT: llvm.func
// HOPPER-NOT: llvm.func

// CHECK: func.func @run
// CHECK-COUNT-2: llvm.call @blurt_launch
func.func @run(%ctx: !llvm.ptr, %arena: memref<33554432xi8>) {
  %q = blurt.slot %arena offset 65536 : memref<33554432xi8> -> memref<2x1024x12x64xbf16, strided<[2359296, 2304, 64, 1]>>
  %k = blurt.slot %arena offset 67072 : memref<33554432xi8> -> memref<2x1024x12x64xbf16, strided<[2359296, 2304, 64, 1]>>
  %v = blurt.slot %arena offset 68608 : memref<33554432xi8> -> memref<2x1024x12x64xbf16, strided<[2359296, 2304, 64, 1]>>
  %o = blurt.slot %arena offset 10485760 : memref<33554432xi8> -> memref<2x1024x12x64xbf16>
  %l = blurt.slot %arena offset 20971520 : memref<33554432xi8> -> memref<2x12x1024xf32>
  blurt.attention %q, %k, %v into %o, %l scale = 0.125 causal : (memref<2x1024x12x64xbf16, strided<[2359296, 2304, 64, 1]>>, memref<2x1024x12x64xbf16, strided<[2359296, 2304, 64, 1]>>, memref<2x1024x12x64xbf16, strided<[2359296, 2304, 64, 1]>>, memref<2x1024x12x64xbf16>, memref<2x12x1024xf32>) -> ()
  %x = blurt.slot %arena offset 22020096 : memref<33554432xi8> -> memref<1x64x2x32xbf16>
  %y = blurt.slot %arena offset 23068672 : memref<33554432xi8> -> memref<1x64x2x32xbf16>
  %m = blurt.slot %arena offset 24117248 : memref<33554432xi8> -> memref<1x2x64xf32>
  blurt.attention %x, %x, %x into %y, %m scale = 0.125 causal : (memref<1x64x2x32xbf16>, memref<1x64x2x32xbf16>, memref<1x64x2x32xbf16>, memref<1x64x2x32xbf16>, memref<1x2x64xf32>) -> ()
  return
}
}
