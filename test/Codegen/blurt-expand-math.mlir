// RUN: bt-opt %s -blurt-expand-math | FileCheck %s

// CHECK-LABEL: func.func @vector
// CHECK-NOT: math.exp
// CHECK: math.fma %{{.*}} : vector<16xf32>
// CHECK: return
func.func @vector(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.exp %x : vector<16xf32>
  return %y : vector<16xf32>
}

// Scalars take the same path, so that they have the bits of a lane.
// CHECK-LABEL: func.func @scalar
// CHECK-NOT: call
// CHECK: math.fma %{{.*}} : f32
// CHECK: return
func.func @scalar(%x: f32) -> f32 {
  %y = math.tanh %x : f32
  return %y : f32
}

// CHECK-LABEL: func.func @double
// CHECK-SAME: (%[[X:.*]]: vector<2xf64>)
// CHECK: %[[LOW:.*]] = vector.extract %[[X]][0]
// CHECK: llvm.call @erf(%[[LOW]]) : (f64) -> f64
// CHECK: %[[HIGH:.*]] = vector.extract %[[X]][1]
// CHECK: llvm.call @erf(%[[HIGH]]) : (f64) -> f64
func.func @double(%x: vector<2xf64>) -> vector<2xf64> {
  %y = math.erf %x : vector<2xf64>
  return %y : vector<2xf64>
}
