// RUN: bt-opt %s -blu-propagate-sharding | FileCheck %s

module attributes {blu.mesh = {dp = 2 : i64}} {
// A sum over the batch is one over devices; what is linear in it passes it on, up
// to where the sum itself is needed.
// CHECK-LABEL: blu.step @sums
// CHECK: %[[M:.*]] = blu.matmul {{.*}} trans_a {blu.sharding = [{dims = {{\[}}[], []], partial = ["dp"]}]}
// CHECK: %[[H:.*]] = blu.mul %[[M]], {{.*}} partial = ["dp"]
// CHECK: %[[A:.*]] = blu.all_reduce %[[H]] axis = "dp" size = 2
// CHECK-NOT: partial
// CHECK: blu.exp %[[A]]
blu.step @sums program(train) (
    %x: tensor<8x4xf32> {blu.tensor = {name = "x", role = "input"}, blu.sharding = {dims = [["dp"], []]}},
    %s: tensor<f32> {blu.tensor = {name = "lr", role = "scalar"}})
    -> (tensor<4x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %m = blu.matmul %x, %x trans_a : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %h = blu.mul %m, %s : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %e = blu.exp %h : tensor<4x4xf32>
  blu.return %e : tensor<4x4xf32>
}

// Through a reshape the outermost dim of a group is cut; a broadcast is cut as it
// is used.
// CHECK-LABEL: blu.step @shapes
// CHECK: blu.reshape {{.*}} [24, 4] {blu.sharding = [{dims = {{\[}}["dp"], []]}]}
// CHECK: blu.broadcast %{{.*}} {blu.sharding = [{dims = {{\[}}["dp"], []]}]}
// CHECK: blu.add {{.*}} {blu.sharding = [{dims = {{\[}}["dp"], []]}]}
blu.step @shapes program(train) (
    %x: tensor<8x3x4xf32> {blu.tensor = {name = "x", role = "input"}, blu.sharding = {dims = [["dp"], [], []]}},
    %s: tensor<f32> {blu.tensor = {name = "lr", role = "scalar"}})
    -> (tensor<24x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %r = blu.reshape %x [24, 4] : (tensor<8x3x4xf32>) -> tensor<24x4xf32>
  %b = blu.broadcast %s : (tensor<f32>) -> tensor<24x4xf32>
  %y = blu.add %r, %b : (tensor<24x4xf32>, tensor<24x4xf32>) -> tensor<24x4xf32>
  blu.return %y : tensor<24x4xf32>
}

// What a stack adds up over iterations begins with zeros, a part of any sum; what
// it carries stays cut.
// CHECK-LABEL: blu.step @stack
// CHECK: %[[S:.*]]:3 = blu.stack
// CHECK: blu.sharding = [{dims = {{\[}}["dp"], []]}, {dims = {{\[}}[]], partial = ["dp"]}, {dims = {{\[}}[], []], partial = ["dp"]}]
// CHECK-DAG: blu.all_reduce %[[S]]#1
// CHECK-DAG: blu.all_reduce %[[S]]#2
blu.step @stack program(train) (
    %x: tensor<8x4xf32> {blu.tensor = {name = "x", role = "input"}, blu.sharding = {dims = [["dp"], []]}})
    -> (tensor<8x4xf32> {blu.tensor = {name = "y", role = "output"}},
        tensor<4xf32> {blu.tensor = {name = "s", role = "output"}},
        tensor<3x4xf32> {blu.tensor = {name = "t", role = "output"}}) {
  %z = blu.constant dense<0.0> : tensor<4xf32>
  %r:3 = blu.stack "s" [0 to 3] iteration(%i) carry(%h = %x, %c = %z) : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<3x4xf32>) {
    %e = blu.exp %h : tensor<8x4xf32>
    %s = blu.reduce_sum %e [0] : (tensor<8x4xf32>) -> tensor<4xf32>
    %n = blu.add %c, %s : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    blu.yield %e, %n, %s : tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  blu.return %r#0, %r#1, %r#2 : tensor<8x4xf32>, tensor<4xf32>, tensor<3x4xf32>
}
}
