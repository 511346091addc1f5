// RUN: bt-opt %s -blurt-expand-math="device=true" | FileCheck %s

// exp, tanh and erf use the GPU's instructions, lane by lane; a quotient by
// 1 + e^x is a product with a reciprocal, any other quotient stays one.

// CHECK-LABEL: func.func @exponential
func.func @exponential(%x: f32) -> f32 {
  // CHECK: %[[T:.*]] = arith.mulf
  // CHECK: math.fma
  // CHECK: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%[[T]])
  // CHECK-NOT: arith.shli
  %y = math.exp %x : f32
  return %y : f32
}

// One that may be approximate is 2^x and no more.
// CHECK-LABEL: func.func @approximate
func.func @approximate(%x: f32) -> f32 {
  // CHECK: %[[T:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
  // CHECK-NEXT: %[[Y:.*]] = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"(%[[T]])
  // CHECK-NEXT: return %[[Y]]
  %y = math.exp %x fastmath<afn> : f32
  return %y : f32
}

// Lanes are rounded in pairs, the second the upper half; an odd one is not.
// CHECK-LABEL: func.func @rounding
func.func @rounding(%x: vector<4xf32>, %z: vector<3xf32>) -> (vector<4xbf16>, vector<3xbf16>) {
  // CHECK: %[[B:.*]] = vector.extract %arg0[1]
  // CHECK: %[[A:.*]] = vector.extract %arg0[0]
  // CHECK: llvm.call_intrinsic "llvm.nvvm.ff2bf16x2.rn"(%[[B]], %[[A]]) : (f32, f32) -> vector<2xbf16>
  // CHECK: llvm.call_intrinsic "llvm.nvvm.ff2bf16x2.rn"
  // CHECK-NOT: call_intrinsic
  // CHECK: arith.truncf %arg1 : vector<3xf32> to vector<3xbf16>
  %y = arith.truncf %x : vector<4xf32> to vector<4xbf16>
  %w = arith.truncf %z : vector<3xf32> to vector<3xbf16>
  return %y, %w : vector<4xbf16>, vector<3xbf16>
}

// CHECK-LABEL: func.func @tangent
func.func @tangent(%x: vector<2xf32>) -> vector<2xf32> {
  // CHECK-COUNT-2: llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz.f"
  // CHECK-COUNT-2: llvm.call_intrinsic "llvm.nvvm.rcp.approx.ftz.f"
  // CHECK-NOT: arith.divf
  %y = math.tanh %x : vector<2xf32>
  return %y : vector<2xf32>
}

// CHECK-LABEL: func.func @sigmoid
func.func @sigmoid(%a: f32, %x: f32) -> f32 {
  // CHECK: llvm.nvvm.ex2.approx
  // CHECK: llvm.nvvm.rcp.approx
  // CHECK-NOT: arith.divf
  %one = arith.constant 1.0 : f32
  %e = math.exp %x : f32
  %s = arith.addf %e, %one : f32
  %y = arith.divf %a, %s : f32
  return %y : f32
}

// CHECK-LABEL: func.func @quotient
func.func @quotient(%a: f32, %x: f32) -> f32 {
  // CHECK: arith.divf
  %half = arith.constant 0.5 : f32
  %e = math.exp %x : f32
  %s = arith.addf %e, %half : f32
  %y = arith.divf %a, %s : f32
  return %y : f32
}

// CHECK-LABEL: func.func @wide
func.func @wide(%x: f64) -> f64 {
  // CHECK: llvm.call @exp
  %y = math.exp %x : f64
  return %y : f64
}
