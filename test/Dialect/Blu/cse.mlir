// RUN: bt-opt %s -cse | FileCheck %s

// The parameters look the same, but inside the stack every iteration has its
// own.
// CHECK-LABEL: blu.model @params_are_not_merged(
// CHECK: %[[W:.+]] = blu.param "w"
// CHECK: blu.add %{{.+}}, %[[W]]
// CHECK: blu.stack
// CHECK: %[[V:.+]] = blu.param "w"
// CHECK: blu.add %{{.+}}, %[[V]]
blu.model @params_are_not_merged(%x: tensor<?x4xf32> {blu.name = "x"})
    -> (tensor<?x4xf32> {blu.name = "y"}) {
  %w = blu.param "w" init(#blu.zeros) : tensor<4xf32>
  %z = blu.add %x, %w : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  %y = blu.stack "s" [0 to 2] carry(%h = %z) : (tensor<?x4xf32>) -> tensor<?x4xf32> {
    %v = blu.param "w" init(#blu.zeros) : tensor<4xf32>
    %a = blu.add %h, %v : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    blu.yield %a : tensor<?x4xf32>
  }
  blu.return %y : tensor<?x4xf32>
}

// CHECK-LABEL: func.func @equal_ops_are_merged(
// CHECK: %[[E:.+]] = blu.exp
// CHECK-NOT: blu.exp
// CHECK: return %[[E]], %[[E]]
func.func @equal_ops_are_merged(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = blu.exp %x : tensor<4xf32>
  %b = blu.exp %x : tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}
