// RUN: bt-opt %s --blurt-canonicalize-views | FileCheck %s

// CHECK-DAG: #[[ID:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-DAG: #[[SWAP:.*]] = affine_map<(d0, d1) -> (d1, d0)>

// CHECK-LABEL: func.func @chains
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>)
// CHECK: %[[A:.*]] = blurt.reshape %[[X]] : tensor<2x3x4xf32> to tensor<24xf32>
// CHECK: %[[B:.*]] = blurt.transpose %[[X]] [2, 0, 1]
// CHECK: %[[C:.*]] = blurt.slice %[[X]] [1, 1, 2]
// CHECK: return %[[A]], %[[B]], %[[C]], %[[X]]
func.func @chains(%x: tensor<2x3x4xf32>) -> (tensor<24xf32>, tensor<4x2x3xf32>, tensor<1x1x1xf32>, tensor<2x3x4xf32>) {
  %a = blurt.reshape %x : tensor<2x3x4xf32> to tensor<6x4xf32>
  %b = blurt.reshape %a : tensor<6x4xf32> to tensor<24xf32>
  %c = blurt.transpose %x [1, 2, 0] : tensor<2x3x4xf32> to tensor<3x4x2xf32>
  %d = blurt.transpose %c [1, 2, 0] : tensor<3x4x2xf32> to tensor<4x2x3xf32>
  %e = blurt.slice %x [1, 0, 1] : tensor<2x3x4xf32> to tensor<1x2x3xf32>
  %f = blurt.slice %e [0, 1, 1] : tensor<1x2x3xf32> to tensor<1x1x1xf32>
  %g = blurt.transpose %x [0, 1, 2] : tensor<2x3x4xf32> to tensor<2x3x4xf32>
  return %b, %d, %f, %g : tensor<24xf32>, tensor<4x2x3xf32>, tensor<1x1x1xf32>, tensor<2x3x4xf32>
}

// Dims of extent 1 move freely.
// CHECK-LABEL: func.func @units
// CHECK: blurt.reshape %{{.*}} : tensor<1x3x1x4xf32> to tensor<3x1x4x1xf32>
func.func @units(%x: tensor<1x3x1x4xf32>) -> tensor<3x1x4x1xf32> {
  %0 = blurt.transpose %x [1, 0, 3, 2] : tensor<1x3x1x4xf32> to tensor<3x1x4x1xf32>
  return %0 : tensor<3x1x4x1xf32>
}

// A group reads and writes through its maps.
// CHECK-LABEL: func.func @borders
// CHECK-SAME: (%[[X:.*]]: tensor<8x4xf32>)
// CHECK-NOT: blurt.transpose
// CHECK: %[[Y:.*]] = blurt.group "exp" domain [4, 8] ins(%[[X]] [#[[SWAP]]] : tensor<8x4xf32>) outs([#[[SWAP]]]) -> tensor<8x4xf32>
// CHECK: return %[[Y]]
func.func @borders(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %t = blurt.transpose %x [1, 0] : tensor<8x4xf32> to tensor<4x8xf32>
  %y = blurt.group "exp" domain [4, 8]
      ins(%t [affine_map<(d0, d1) -> (d0, d1)>] : tensor<4x8xf32>)
      outs([affine_map<(d0, d1) -> (d0, d1)>]) -> tensor<4x8xf32> {
  ^bb0(%e: f32):
    %0 = math.exp %e : f32
    blurt.group_yield %0 : f32
  }
  %z = blurt.transpose %y [1, 0] : tensor<4x8xf32> to tensor<8x4xf32>
  return %z : tensor<8x4xf32>
}

// A GEMM reads a transposed matrix as it is.
// CHECK-LABEL: func.func @gemm
// CHECK: blurt.group "exp" {{.*}} outs([#[[ID]]])
// CHECK: blurt.transpose
func.func @gemm(%x: tensor<4x8xf32>) -> tensor<8x8xf32> {
  %y = blurt.group "exp" domain [4, 8]
      ins(%x [affine_map<(d0, d1) -> (d0, d1)>] : tensor<4x8xf32>)
      outs([affine_map<(d0, d1) -> (d0, d1)>]) -> tensor<4x8xf32> {
  ^bb0(%e: f32):
    %0 = math.exp %e : f32
    blurt.group_yield %0 : f32
  }
  %t = blurt.transpose %y [1, 0] : tensor<4x8xf32> to tensor<8x4xf32>
  %z = blurt.gemm %t, %x : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}
