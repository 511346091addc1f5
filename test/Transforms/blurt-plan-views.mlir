// RUN: bt-opt %s --split-input-file --blurt-plan --blurt-verify-plan | FileCheck %s

// Reshapes, transposes and slices cost nothing: they are strides.

#id = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @views
// CHECK-SAME:    %{{.*}}: !llvm.ptr, %[[ARENA:.*]]: memref<{{[0-9]+}}xi8>
// CHECK:         %[[X:.*]] = blurt.slot %[[ARENA]] offset [[#OFF:]] {{.*}} -> memref<4x2xf32, strided<[1, 6]>>
// CHECK-NOT:     "copy"
// CHECK:         blurt.group "scale" domain [4, 2] ins(%[[X]]
func.func @views(%x: tensor<2x6xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<4x2xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %a = blurt.reshape %x : tensor<2x6xf32> to tensor<2x2x3xf32>
  %b = blurt.reshape %a : tensor<2x2x3xf32> to tensor<2x6xf32>
  %c = blurt.slice %b [0, 1] : tensor<2x6xf32> to tensor<2x4xf32>
  %d = blurt.transpose %c [1, 0] : tensor<2x4xf32> to tensor<4x2xf32>
  %y = blurt.group "scale" domain [4, 2] ins(%d [#id] : tensor<4x2xf32>)
      outs([#id]) -> tensor<4x2xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  return %y : tensor<4x2xf32>
}

// -----

// No strides show a transposed matrix as one row: it is copied once.

#id = affine_map<(d0) -> (d0)>
// CHECK-LABEL: func.func @reshape_of_transpose
// CHECK:         %[[T:.*]] = blurt.slot {{.*}} -> memref<3x2xf32, strided<[1, 3]>>
// CHECK:         %[[COPY:.*]] = blurt.slot {{.*}} -> memref<3x2xf32>
// CHECK:         blurt.group "copy" domain [3, 2] ins(%[[T]] {{.*}} outs(%[[COPY]]
// CHECK:         %[[ROW:.*]] = blurt.slot {{.*}} -> memref<6xf32>
// CHECK:         blurt.group "scale" domain [6] ins(%[[ROW]]
// CHECK-NOT:     "copy"
func.func @reshape_of_transpose(%x: tensor<2x3xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<6xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %t = blurt.transpose %x [1, 0] : tensor<2x3xf32> to tensor<3x2xf32>
  %r = blurt.reshape %t : tensor<3x2xf32> to tensor<6xf32>
  %y = blurt.group "scale" domain [6] ins(%r [#id] : tensor<6xf32>)
      outs([#id]) -> tensor<6xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  return %y : tensor<6xf32>
}

// -----

// A GEMM needs a matrix dim of stride 1: heads of a B×T×H×D value have it, one
// column out of the innermost dim has not.

// CHECK-LABEL: func.func @gemm_operands
// CHECK:         %[[COLS:.*]] = blurt.slot {{.*}} -> memref<2x8x4xf32, strided<[128, 16, 4]>>
// CHECK:         %[[PACKED:.*]] = blurt.slot {{.*}} -> memref<2x8x4xf32>
// CHECK:         blurt.group "copy" {{.*}} ins(%[[COLS]] {{.*}} outs(%[[PACKED]]
// CHECK:         %[[HEADS:.*]] = blurt.slot {{.*}} -> memref<2x4x8xf32, strided<[8, 16, 1]>>
// CHECK:         blurt.gemm %[[HEADS]], %[[PACKED]] into
func.func @gemm_operands(%q: tensor<4x2x8xf32> {blu.tensor = {name = "q", role = "input"}},
                         %k: tensor<2x8x4x4xf32> {blu.tensor = {name = "k", role = "input"}})
    -> (tensor<2x4x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %heads = blurt.transpose %q [1, 0, 2] : tensor<4x2x8xf32> to tensor<2x4x8xf32>
  %col = blurt.slice %k [0, 0, 0, 1] : tensor<2x8x4x4xf32> to tensor<2x8x4x1xf32>
  %cols = blurt.reshape %col : tensor<2x8x4x1xf32> to tensor<2x8x4xf32>
  %y = blurt.gemm %heads, %cols : (tensor<2x4x8xf32>, tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  return %y : tensor<2x4x4xf32>
}
