// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @carry(
// CHECK-SAME: %[[X:.+]]: tensor<?x8xf32>
// CHECK: blu.stack "block" [0 to 4] iteration(%{{.+}}) carry(%[[H:.+]] = %[[X]]) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
// CHECK: %[[W:.+]] = blu.param "weight"
// CHECK: %[[N:.+]] = blu.linear %[[H]], %[[W]]
// CHECK: blu.yield %[[N]] : tensor<?x8xf32>
func.func @carry(%x: tensor<?x8xf32>) {
  %y = blu.stack "block" [0 to 4] carry(%h = %x) : (tensor<?x8xf32>) -> tensor<?x8xf32> {
    %w = blu.param "weight" init(#blu.zeros) : tensor<8x8xf32>
    %n = blu.linear %h, %w : (tensor<?x8xf32>, tensor<8x8xf32>) -> tensor<?x8xf32>
    blu.yield %n : tensor<?x8xf32>
  }
  return
}

// CHECK-LABEL: func.func @slices_and_collections(
// CHECK-SAME: %[[X:.+]]: tensor<8x8xf32>, %[[WS:.+]]: tensor<4x8x8xf32>
// CHECK: blu.stack "block" [2 to 6] iteration(%{{.+}}) carry(%[[H:.+]] = %[[X]]) slices(%[[W:.+]] = %[[WS]]) reverse
// CHECK-SAME: : (tensor<8x8xf32>, tensor<4x8x8xf32>) -> (tensor<8x8xf32>, tensor<4x8x8xf32>) {
// CHECK-NEXT: %[[N:.+]] = blu.matmul %[[H]], %[[W]]
// CHECK-NEXT: blu.yield %[[N]], %[[H]] : tensor<8x8xf32>, tensor<8x8xf32>
func.func @slices_and_collections(%x: tensor<8x8xf32>, %ws: tensor<4x8x8xf32>) {
  %y:2 = blu.stack "block" [2 to 6] iteration(%i) carry(%h = %x) slices(%w = %ws) reverse
      : (tensor<8x8xf32>, tensor<4x8x8xf32>) -> (tensor<8x8xf32>, tensor<4x8x8xf32>) {
    %n = blu.matmul %h, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    blu.yield %n, %h : tensor<8x8xf32>, tensor<8x8xf32>
  }
  return
}

// Values from above may be captured; a stack may stand inside another.
// CHECK-LABEL: func.func @nested(
// CHECK-SAME: %[[X:.+]]: tensor<8xf32>
// CHECK: blu.stack "outer" [0 to 2] iteration(%[[I:.+]]) : () -> tensor<2x3x8xf32> {
// CHECK: %[[IN:.+]] = blu.stack "inner" [0 to 3] iteration(%[[J:.+]]) : () -> tensor<3x8xf32> {
// CHECK: %[[S:.+]] = blu.add %[[I]], %[[J]]
// CHECK: blu.yield %[[X]] : tensor<8xf32>
// CHECK: blu.yield %[[IN]] : tensor<3x8xf32>
func.func @nested(%x: tensor<8xf32>) {
  %y = blu.stack "outer" [0 to 2] iteration(%i) : () -> tensor<2x3x8xf32> {
    %z = blu.stack "inner" [0 to 3] iteration(%j) : () -> tensor<3x8xf32> {
      %s = blu.add %i, %j : (tensor<i64>, tensor<i64>) -> tensor<i64>
      blu.yield %x : tensor<8xf32>
    }
    blu.yield %z : tensor<3x8xf32>
  }
  return
}
