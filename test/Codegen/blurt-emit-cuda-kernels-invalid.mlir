// RUN: bt-opt %s -blurt-emit-cuda-kernels -split-input-file -verify-diagnostics

// expected-error @+1 {{expected the attribute blurt.workspace, the offset and the bytes of the plan's workspace}}
module {
}

// -----

module attributes {blurt.workspace = array<i64: 0, 4096>} {
  func.func @run(%ctx: !llvm.ptr, %arena: memref<65536xi8>) {
    %x = blurt.slot %arena offset 4096 : memref<65536xi8> -> memref<8x8xf64>
    %y = blurt.slot %arena offset 8192 : memref<65536xi8> -> memref<8x8xf64>
    // expected-error @+1 {{multiplies 'f64' into 'f64', which the CUDA target cannot, expected f32 or bf16}}
    blurt.gemm %x, %x into %y : (memref<8x8xf64>, memref<8x8xf64>, memref<8x8xf64>) -> ()
    return
  }
}

// -----

module attributes {blurt.workspace = array<i64: 0, 64>} {
  func.func @run(%ctx: !llvm.ptr, %arena: memref<65536xi8>) {
    %q = blurt.slot %arena offset 4096 : memref<65536xi8> -> memref<1x32x1x16xf32>
    %l = blurt.slot %arena offset 8192 : memref<65536xi8> -> memref<1x1x32xf32>
    %d = blurt.slot %arena offset 16384 : memref<65536xi8> -> memref<1x32x1x16xf32>
    %e = blurt.slot %arena offset 20480 : memref<65536xi8> -> memref<1x32x1x16xf32>
    %f = blurt.slot %arena offset 24576 : memref<65536xi8> -> memref<1x32x1x16xf32>
    // expected-error @+1 {{needs a workspace of 128 bytes, the plan has 64}}
    blurt.attention_grad %q, %q, %q, %q, %l, %q into %d, %e, %f scale = 1.0 : (memref<1x32x1x16xf32>, memref<1x32x1x16xf32>, memref<1x32x1x16xf32>, memref<1x32x1x16xf32>, memref<1x1x32xf32>, memref<1x32x1x16xf32>, memref<1x32x1x16xf32>, memref<1x32x1x16xf32>, memref<1x32x1x16xf32>) -> ()
    return
  }
}

// -----

module attributes {blurt.workspace = array<i64: 0, 4096>, blurt.counters = 4096 : i64} {
  func.func @run(%ctx: !llvm.ptr, %arena: memref<65536xi8>) {
    %x = blurt.slot %arena offset 8192 : memref<65536xi8> -> memref<8x8xf32>
    %y = blurt.slot %arena offset 12288 : memref<65536xi8> -> memref<8x8xf32>
    // expected-error @+1 {{is split, for which there are kernels for sm_90a alone}}
    blurt.gemm %x, %x into %y split : (memref<8x8xf32>, memref<8x8xf32>, memref<8x8xf32>) -> ()
    return
  }
}
