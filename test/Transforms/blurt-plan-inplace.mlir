// RUN: bt-opt %s --split-input-file --blurt-plan --blurt-verify-plan | FileCheck %s

// A group writes over an input that dies in it, where each point reads what it
// writes; also one that reduces, since it writes in its last phase.

#id = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @group
// CHECK:         blurt.gemm {{.*}} into %[[Y:[0-9a-z]+]]
// CHECK-NEXT:    blurt.group "softmax" {{.*}} ins(%[[Y]] {{.*}} outs(%[[Y]]
// CHECK:         return
func.func @group(%x: tensor<8x8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<8x8xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %a = blurt.gemm %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = blurt.group "softmax" domain [8, 8] reduce [1] ins(%a [#id] : tensor<8x8xf32>)
      outs([#id]) -> tensor<8x8xf32> {
  ^bb0(%e: f32):
    %max = blurt.reduce max %e : f32
    %d = arith.subf %e, %max : f32
    %exp = math.exp %d : f32
    %sum = blurt.reduce sum %exp : f32
    %p = arith.divf %exp, %sum : f32
    blurt.group_yield %p : f32
  }
  return %y : tensor<8x8xf32>
}

// -----

// Not over an input that is read transposed, that is read as a table, that is
// read later, or that another result of the group has taken.

#id = affine_map<(d0, d1) -> (d0, d1)>
#tr = affine_map<(d0, d1) -> (d1, d0)>
// CHECK-LABEL: func.func @not_in_place
// CHECK:         blurt.gemm {{.*}} into %[[A:[0-9a-z]+]]
// CHECK:         blurt.group "transposed" {{.*}} ins(%[[A]] {{.*}}, %[[A]] {{.*}} outs(%[[B:[0-9a-z]+]]
// CHECK:         %[[C:.*]] = blurt.slot
// CHECK:         blurt.group "table" {{.*}} tables(%[[B]] {{.*}} outs(%[[C]]
// CHECK:         %[[D:.*]] = blurt.slot
// CHECK:         blurt.group "two" {{.*}} ins(%[[C]] {{.*}} outs(%[[C]] {{.*}} %[[D]]
// CHECK:         %[[E:.*]] = blurt.slot
// CHECK:         blurt.group "read_later" {{.*}} ins(%[[C]] {{.*}} outs(%[[E]]
// CHECK:         blurt.gemm %[[C]], %[[E]]
func.func @not_in_place(%x: tensor<8x8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<8x8xf32> {blu.tensor = {name = "y", role = "output"}},
        tensor<8x8xf32> {blu.tensor = {name = "z", role = "output"}}) {
  %a = blurt.gemm %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %b = blurt.group "transposed" domain [8, 8] ins(%a [#id] : tensor<8x8xf32>, %a [#tr] : tensor<8x8xf32>)
      outs([#id]) -> tensor<8x8xf32> {
  ^bb0(%e: f32, %f: f32):
    %s = arith.subf %e, %f : f32
    blurt.group_yield %s : f32
  }
  %c = blurt.group "table" domain [8, 8] tables(%b : tensor<8x8xf32>)
      outs([#id]) -> tensor<8x8xf32> {
  ^bb0(%t: tensor<8x8xf32>):
    %i = blurt.index 0 : i64
    %j = blurt.index 1 : i64
    %s = blurt.load %t[%j, %i] : tensor<8x8xf32> -> f32
    blurt.group_yield %s : f32
  }
  %d, %z = blurt.group "two" domain [8, 8] ins(%c [#id] : tensor<8x8xf32>)
      outs([#id], [#id]) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    %m = arith.mulf %e, %e : f32
    blurt.group_yield %s, %m : f32, f32
  }
  %g = blurt.group "read_later" domain [8, 8] ins(%d [#id] : tensor<8x8xf32>)
      outs([#id]) -> tensor<8x8xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  %y = blurt.gemm %d, %g : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y, %z : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

// A product is added to its addend in place; one that is read later is copied.

#id = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @gemm_addend
// CHECK:         blurt.group "scale" {{.*}} outs(%[[A:[0-9a-z]+]]
// CHECK:         blurt.group "copy" {{.*}} ins(%[[A]] {{.*}} outs(%[[B:[0-9a-z]+]]
// CHECK:         blurt.gemm %{{.*}}, %{{.*}} plus %[[B]] into %[[B]]
// CHECK-NEXT:    blurt.gemm %[[B]], %{{.*}} plus %[[A]] into %[[A]]
// CHECK-NEXT:    return
func.func @gemm_addend(%x: tensor<8x8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<8x8xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %a = blurt.group "scale" domain [8, 8] ins(%x [#id] : tensor<8x8xf32>)
      outs([#id]) -> tensor<8x8xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  %b = blurt.gemm %x, %x plus %a : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = blurt.gemm %b, %x plus %a : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
