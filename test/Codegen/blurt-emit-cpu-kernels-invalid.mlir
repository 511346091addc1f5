// RUN: bt-opt %s -blurt-emit-cpu-kernels -split-input-file -verify-diagnostics

func.func @tf32_gemm(%ctx: !llvm.ptr, %a: memref<4x4xf32>, %c: memref<4x4xf32>) {
  // expected-error @+1 {{is tf32, which the CPU target does not have}}
  blurt.gemm %a, %a into %c tf32 : (memref<4x4xf32>, memref<4x4xf32>, memref<4x4xf32>) -> ()
  return
}

// -----

func.func @split_gemm(%ctx: !llvm.ptr, %a: memref<4x4xf32>, %c: memref<4x4xf32>) {
  // expected-error @+1 {{is split, which the CPU target does not have}}
  blurt.gemm %a, %a into %c split : (memref<4x4xf32>, memref<4x4xf32>, memref<4x4xf32>) -> ()
  return
}

// -----

func.func @tf32_attention(%ctx: !llvm.ptr, %q: memref<1x4x2x8xf32>, %l: memref<1x2x4xf32>) {
  // expected-error @+1 {{is tf32, which the CPU target does not have}}
  blurt.attention %q, %q, %q into %q, %l scale = 1.0 tf32
      : (memref<1x4x2x8xf32>, memref<1x4x2x8xf32>, memref<1x4x2x8xf32>, memref<1x4x2x8xf32>, memref<1x2x4xf32>) -> ()
  return
}

// -----

func.func @bf16_scatter(%ctx: !llvm.ptr, %ids: memref<4xi32>, %x: memref<4x8xbf16>, %o: memref<3x8xbf16>) {
  // expected-error @+1 {{has element type 'bf16', which the CPU target cannot add up, expected f32 or f64}}
  blurt.scatter_add %ids, %x into %o : (memref<4xi32>, memref<4x8xbf16>, memref<3x8xbf16>) -> ()
  return
}

// -----

// expected-error @+1 {{first argument is not the runtime's context, expected !llvm.ptr}}
func.func @no_context(%arena: memref<64xi8>) {
  %x = blurt.slot %arena offset 0 : memref<64xi8> -> memref<4xf32>
  return
}

// -----

func.func @tensor_form(%ctx: !llvm.ptr, %x: tensor<4x6xf32>) {
  // expected-error @+1 {{is not part of the plan form}}
  %y = blurt.reshape %x : tensor<4x6xf32> to tensor<24xf32>
  return
}

// -----

func.func @stray(%ctx: !llvm.ptr, %x: memref<4xf32>, %i: index) -> f32 {
  // expected-error @+1 {{uses a memref, which the kernel stage knows in slots, groups, library ops and calls only}}
  %y = memref.load %x[%i] : memref<4xf32>
  return %y : f32
}

// -----

func.func @attention_stride(%ctx: !llvm.ptr, %q: memref<1x4x2x8xf32, strided<[128, 32, 16, 2]>>,
    %o: memref<1x4x2x8xf32>, %l: memref<1x2x4xf32>) {
  // expected-error @+1 {{has an operand of stride 2 along its last dim, expected 1}}
  blurt.attention %q, %q, %q into %o, %l scale = 1.0
      : (memref<1x4x2x8xf32, strided<[128, 32, 16, 2]>>, memref<1x4x2x8xf32, strided<[128, 32, 16, 2]>>,
         memref<1x4x2x8xf32, strided<[128, 32, 16, 2]>>, memref<1x4x2x8xf32>, memref<1x2x4xf32>) -> ()
  return
}

// -----

func.func @bias(%ctx: !llvm.ptr, %arena: memref<1024xi8>) {
  %x = blurt.slot %arena offset 0 : memref<1024xi8> -> memref<4x4xf32>
  %b = blurt.slot %arena offset 64 : memref<1024xi8> -> memref<4xf32>
  %y = blurt.slot %arena offset 128 : memref<1024xi8> -> memref<4x4xf32>
  // expected-error @+1 {{has a bias, which the CPU target adds in groups}}
  blurt.gemm %x, %x bias %b into %y : (memref<4x4xf32>, memref<4x4xf32>, memref<4xf32>, memref<4x4xf32>) -> ()
  return
}
