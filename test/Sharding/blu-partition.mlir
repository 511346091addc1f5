// RUN: bt-opt %s -blu-propagate-sharding -blu-partition | FileCheck %s

module attributes {blu.mesh = {dp = 2 : i64}} {
// CHECK-LABEL: blu.step @train
// CHECK-SAME: %x: tensor<4x3xf32> {blu.part = {dims = {{\[\["dp"\], \[\]\]}}}, blu.tensor = {name = "x", role = "input"}}
// CHECK-SAME: %dp_index: tensor<i64> {blu.tensor = {name = "dp_index", role = "scalar"}}
// CHECK-SAME: -> (tensor<12xf32>
// CHECK-SAME: tensor<f32>
// CHECK-SAME: blurt.entry = {batch = 4 : i64
// CHECK-NOT: blu.sharding
// The elements of a part draw the random numbers that they have in the whole.
// CHECK: %[[N:.*]] = blu.constant dense<12> : tensor<i64>
// CHECK: %[[O:.*]] = blu.mul %dp_index, %[[N]]
// CHECK: %[[K:.*]] = blu.shift_key %seed, %[[O]]
// CHECK: %[[X:.*]] = blu.dropout %x key %[[K]] rate = 5.000000e-01 : tensor<4x3xf32>
// CHECK: blu.reshape %[[X]] [12] : (tensor<4x3xf32>) -> tensor<12xf32>
// The mean of a part is divided by the parts before they are added up.
// CHECK: %[[M:.*]] = blu.reduce_mean {{.*}} : (tensor<12xf32>) -> tensor<f32>
// CHECK: %[[S:.*]] = blu.div %[[M]], %{{.*}}
// CHECK: blu.all_reduce %[[S]]
blu.step @train program(train) (
    %x: tensor<8x3xf32> {blu.tensor = {name = "x", role = "input"}, blu.sharding = {dims = [["dp"], []]}},
    %key: tensor<i64> {blu.tensor = {name = "seed", role = "scalar"}})
    -> (tensor<24xf32> {blu.tensor = {name = "y", role = "output"}},
        tensor<f32> {blu.tensor = {name = "loss", role = "output"}})
    attributes {blurt.entry = {batch = 8 : i64, microbatches = 1 : i64, seq = 0 : i64}} {
  %d = blu.dropout %x key %key rate = 0.5 : tensor<8x3xf32>
  %r = blu.reshape %d [24] : (tensor<8x3xf32>) -> tensor<24xf32>
  %c = blu.constant dense<2.0> : tensor<24xf32>
  %y = blu.mul %r, %c : (tensor<24xf32>, tensor<24xf32>) -> tensor<24xf32>
  %m = blu.reduce_mean %y [0] : (tensor<24xf32>) -> tensor<f32>
  blu.return %y, %m : tensor<24xf32>, tensor<f32>
}
}
