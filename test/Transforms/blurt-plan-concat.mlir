// RUN: bt-opt %s --split-input-file --blurt-plan --blurt-verify-plan | FileCheck %s

// The producers of the parts write straight into the concatenation, also when a
// part is seen through a view.

#id = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @parts_in_place
// CHECK:         %[[DQ:.*]] = blurt.slot %{{.*}} offset [[#BASE:]] {{.*}} -> memref<2x4x1x8xf32, strided<[96, 24, 8, 1]>>
// CHECK:         %[[DK:.*]] = blurt.slot %{{.*}} offset [[#BASE+32]] {{.*}} -> memref<2x4x1x8xf32, strided<[96, 24, 8, 1]>>
// CHECK:         %[[DV:.*]] = blurt.slot %{{.*}} offset [[#BASE+64]] {{.*}} -> memref<2x4x1x8xf32, strided<[96, 24, 8, 1]>>
// CHECK:         blurt.attention_grad {{.*}} into %[[DQ]], %[[DK]], %[[DV]]
// CHECK-NOT:     "copy"
// CHECK:         return
func.func @parts_in_place(%q: tensor<2x4x1x8xf32> {blu.tensor = {name = "q", role = "input"}},
                          %o: tensor<2x4x1x8xf32> {blu.tensor = {name = "o", role = "input"}},
                          %lse: tensor<2x1x4xf32> {blu.tensor = {name = "lse", role = "input"}})
    -> (tensor<8x24xf32> {blu.tensor = {name = "dqkv", role = "output"}}) {
  %dq, %dk, %dv = blurt.attention_grad %q, %q, %q, %o, %lse, %o scale = 0.25 causal
      : (tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x1x4xf32>, tensor<2x4x1x8xf32>)
      -> (tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>, tensor<2x4x1x8xf32>)
  %rq = blurt.reshape %dq : tensor<2x4x1x8xf32> to tensor<8x8xf32>
  %rk = blurt.reshape %dk : tensor<2x4x1x8xf32> to tensor<8x8xf32>
  %rv = blurt.reshape %dv : tensor<2x4x1x8xf32> to tensor<8x8xf32>
  %y = blurt.concat dim = 1 %rq, %rk, %rv : (tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x24xf32>
  return %y : tensor<8x24xf32>
}

// -----

// An argument, and a part that occurs twice, are copied.

#id = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @copied_parts
// CHECK:         %[[X:.*]] = blurt.slot {{.*}} -> memref<2x4xf32>
// CHECK:         %[[P0:.*]] = blurt.slot %{{.*}} offset [[#BASE:]] {{.*}} -> memref<2x4xf32>
// CHECK:         blurt.group "scale" {{.*}} ins(%[[X]] {{.*}} outs(%[[P0]]
// CHECK:         %[[P1:.*]] = blurt.slot %{{.*}} offset [[#BASE+32]]
// CHECK:         blurt.group "copy" {{.*}} ins(%[[X]] {{.*}} outs(%[[P1]]
// CHECK:         %[[P2:.*]] = blurt.slot %{{.*}} offset [[#BASE+64]]
// CHECK:         blurt.group "copy" {{.*}} ins(%[[P0]] {{.*}} outs(%[[P2]]
// CHECK-NOT:     "copy"
func.func @copied_parts(%x: tensor<2x4xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<6x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %a = blurt.group "scale" domain [2, 4] ins(%x [#id] : tensor<2x4xf32>)
      outs([#id]) -> tensor<2x4xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  %y = blurt.concat dim = 0 %a, %x, %a : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<6x4xf32>
  return %y : tensor<6x4xf32>
}

// -----

// A part that some reader reshapes into what the concatenation's strides cannot
// express stays by itself.

#id = affine_map<(d0) -> (d0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @part_with_a_flat_reader
// CHECK:         blurt.group "scale" {{.*}} outs(%[[A:[0-9a-z]+]] [{{.*}}] : memref<2x4xf32>)
// CHECK:         %[[P0:.*]] = blurt.slot {{.*}} -> memref<2x4xf32, strided<[8, 1]>>
// CHECK:         blurt.group "copy" {{.*}} ins(%[[A]] {{.*}} outs(%[[P0]]
// CHECK:         %[[FLAT:.*]] = blurt.slot {{.*}} -> memref<8xf32>
// CHECK:         blurt.group "flat" {{.*}} ins(%[[FLAT]]
func.func @part_with_a_flat_reader(%x: tensor<2x4xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<2x8xf32> {blu.tensor = {name = "y", role = "output"}},
        tensor<8xf32> {blu.tensor = {name = "z", role = "output"}}) {
  %a = blurt.group "scale" domain [2, 4] ins(%x [#id2] : tensor<2x4xf32>)
      outs([#id2]) -> tensor<2x4xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  %y = blurt.concat dim = 1 %a, %a : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
  %r = blurt.reshape %a : tensor<2x4xf32> to tensor<8xf32>
  %z = blurt.group "flat" domain [8] ins(%r [#id] : tensor<8xf32>)
      outs([#id]) -> tensor<8xf32> {
  ^bb0(%e: f32):
    %s = arith.mulf %e, %e : f32
    blurt.group_yield %s : f32
  }
  return %y, %z : tensor<2x8xf32>, tensor<8xf32>
}
