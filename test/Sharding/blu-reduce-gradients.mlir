// RUN: bt-opt %s -blu-reduce-gradients="zero=0" | FileCheck %s --check-prefixes=CHECK,Z0
// RUN: bt-opt %s -blu-reduce-gradients="zero=1" | FileCheck %s --check-prefixes=CHECK,Z1
// RUN: bt-opt %s -blu-reduce-gradients="zero=3" | FileCheck %s --check-prefixes=CHECK,Z1,Z3
// RUN: not bt-opt %s -blu-reduce-gradients="zero=4" 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: error: zero is 4, expected 0, 1, 2 or 3

module attributes {blu.mesh = {dp = 2 : i64}} {
// CHECK-LABEL: blu.step @train
// Z1-SAME: %moment1.s.i.w: tensor<2x3xf32> {blu.tensor = {name = "s.{i}.w", role = "moment1", shard_of = array<i64: 5>, shards = 2 : i64, stack_count = 2 : i64, stack_first = 0 : i64}}
// Z1-SAME: %moment1.v: tensor<4xf32> {blu.tensor = {name = "v", role = "moment1", shard_of = array<i64: 7>, shards = 2 : i64}}
// Z3-SAME: -> (tensor<2x3xf32> {blu.tensor = {name = "s.{i}.w", role = "gradient", shard_of = array<i64: 5>, shards = 2 : i64,
// Z1-SAME: tensor<2x5xf32> {blu.donates = 0 : i64}
// An iteration's gradients leave together, at its end.
// CHECK: %[[S:.*]]:2 = blu.stack
// CHECK: %[[G:.*]] = blu.mul
// CHECK: %[[P:.*]] = blu.reduce_scatter %[[G]] axis = "dp" size = 2 : (tensor<5xf32>) -> tensor<3xf32>
// Z0: %[[A:.*]] = blu.all_gather %[[P]] axis = "dp" size = 2 : (tensor<3xf32>) -> tensor<5xf32>
// Z0: blu.yield %{{.*}}, %[[A]]
// Z1: blu.yield %{{.*}}, %[[P]]
// CHECK: %[[V:.*]] = blu.exp %v
// CHECK: %[[Q:.*]] = blu.reduce_scatter %[[V]] axis = "dp" size = 2 : (tensor<7xf32>) -> tensor<4xf32>
// Z0: %[[W:.*]] = blu.all_gather %[[Q]]
// What is there first is squared first.
// Z0: %[[L:.*]] = blu.local_shard %[[S]]#1 {{.*}} -> tensor<2x3xf32>
// Z0: blu.mul %[[L]], %[[L]]
// Z0: %[[M:.*]] = blu.local_shard %[[W]] {{.*}} -> tensor<4xf32>
// Z0: blu.mul %[[M]], %[[M]]
// Z1: blu.mul %[[S]]#1, %[[S]]#1
// The norm adds up devices in their order.
// CHECK: %[[N:.*]] = blu.all_gather %{{.*}} : (tensor<1xf32>) -> tensor<2xf32>
// CHECK: %[[T:.*]] = blu.reduce_sum %[[N]] [0]
// CHECK: blu.sqrt %[[T]]
// Z1: %[[O:.*]] = blu.local_shard %s.i.w
// Z1: %[[W1:.*]], %{{.*}} = blu.sgd %[[O]], {{.*}} : tensor<2x3xf32>
// Z1: blu.all_gather %[[W1]] {{.*}} -> tensor<2x5xf32>
// Z1: %[[O1:.*]] = blu.local_shard %v
// Z1: %[[V1:.*]], %{{.*}} = blu.sgd %[[O1]], {{.*}} : tensor<4xf32>
// Z1: blu.all_gather %[[V1]] {{.*}} -> tensor<7xf32>
blu.step @train program(train) (
    %w: tensor<2x5xf32> {blu.tensor = {name = "s.{i}.w", role = "param", stack_count = 2 : i64, stack_first = 0 : i64}},
    %v: tensor<7xf32> {blu.tensor = {name = "v", role = "param"}},
    %lr: tensor<f64> {blu.tensor = {name = "lr", role = "scalar"}},
    %m1: tensor<2x5xf32> {blu.tensor = {name = "s.{i}.w", role = "moment1", stack_count = 2 : i64, stack_first = 0 : i64}},
    %m2: tensor<7xf32> {blu.tensor = {name = "v", role = "moment1"}})
    -> (tensor<2x5xf32> {blu.tensor = {name = "s.{i}.w", role = "gradient", stack_count = 2 : i64, stack_first = 0 : i64}},
        tensor<7xf32> {blu.tensor = {name = "v", role = "gradient"}},
        tensor<2x5xf32> {blu.donates = 0 : i64}, tensor<2x5xf32> {blu.donates = 3 : i64},
        tensor<7xf32> {blu.donates = 1 : i64}, tensor<7xf32> {blu.donates = 4 : i64}) {
  %z = blu.constant dense<1.0> : tensor<5xf32>
  %s:2 = blu.stack "s" [0 to 2] iteration(%i) carry(%h = %z) slices(%x = %w) : (tensor<5xf32>, tensor<2x5xf32>) -> (tensor<5xf32>, tensor<2x5xf32>) {
    %g = blu.mul %h, %x : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    blu.yield %h, %g : tensor<5xf32>, tensor<5xf32>
  }
  %e = blu.exp %v : tensor<7xf32>
  %a = blu.all_reduce %s#1 axis = "dp" size = 2 : (tensor<2x5xf32>) -> tensor<2x5xf32>
  %b = blu.all_reduce %e axis = "dp" size = 2 : (tensor<7xf32>) -> tensor<7xf32>
  %n = blu.global_norm %a, %b : (tensor<2x5xf32>, tensor<7xf32>) -> tensor<f32>
  %c = blu.mul %a, %n : (tensor<2x5xf32>, tensor<f32>) -> tensor<2x5xf32>
  %d = blu.mul %b, %n : (tensor<7xf32>, tensor<f32>) -> tensor<7xf32>
  %w1, %k1 = blu.sgd %w, %c, %m1 lr %lr momentum %lr weight_decay %lr : tensor<2x5xf32>
  %v1, %k2 = blu.sgd %v, %d, %m2 lr %lr momentum %lr weight_decay %lr : tensor<7xf32>
  blu.return %a, %b, %w1, %k1, %v1, %k2 : tensor<2x5xf32>, tensor<7xf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<7xf32>, tensor<7xf32>
}
}
