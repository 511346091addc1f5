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
