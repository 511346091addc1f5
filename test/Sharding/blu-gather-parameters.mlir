// RUN: bt-opt %s -blu-gather-parameters="zero=3" | FileCheck %s --check-prefixes=CHECK,Z3
// RUN: bt-opt %s -blu-gather-parameters="zero=1" | FileCheck %s --check-prefixes=CHECK,Z1
// RUN: bt-opt %s -blu-gather-parameters="zero=0" | FileCheck %s --check-prefix=Z0
// RUN: not bt-opt %s -blu-gather-parameters="zero=4" 2>&1 | FileCheck %s --check-prefix=BAD

// BAD: error: zero is 4, expected 0, 1, 2 or 3
// Z0: %v: tensor<7xf32> {blu.tensor = {name = "v", role = "param"}}
// Z0-NOT: blu.all_gather
// Z0: blu.local_shard

module attributes {blu.mesh = {dp = 2 : i64}} {
// CHECK-LABEL: blu.step @train
// CHECK-SAME: %s.i.w: tensor<2x3xf32> {blu.tensor = {name = "s.{i}.w", role = "param", shard_of = array<i64: 5>, shards = 2 : i64, stack_count = 2 : i64, stack_first = 0 : i64}}
// CHECK-SAME: %s.i.b: tensor<2x3xf32>
// CHECK-SAME: %v: tensor<4xf32> {blu.tensor = {name = "v", role = "param", shard_of = array<i64: 7>, shards = 2 : i64}}
// CHECK-SAME: -> (tensor<f32> {{.*}}, tensor<4xf32> {blu.donates = 2 : i64})

// In stage 3 what lies between two stacks gathers for itself, and no more than it
// reads: v as it is in front of the first one, and rounded behind it.
// Z3: %[[V:.*]] = blu.all_gather %v axis = "dp" size = 2 : (tensor<4xf32>) -> tensor<7xf32>
// Z3: blu.reduce_sum %[[V]]
// Z3: %[[C:.*]] = blu.cast %s.i.w : tensor<2x3xf32> to tensor<2x3xbf16>
// Z3: blu.stack "s" {{.*}} slices(%[[P:.*]] = %[[C]], %[[B:.*]] = %s.i.b)
// Z3-NEXT: %[[G:.*]]:2 = blu.all_gather %[[P]], %[[B]] axis = "dp" size = 2 : (tensor<3xbf16>, tensor<3xf32>) -> (tensor<5xbf16>, tensor<5xf32>)
// Z3-NEXT: blu.cast %[[G]]#0
// Z3: %[[D:.*]] = blu.cast %v : tensor<4xf32> to tensor<4xbf16>
// Z3-NEXT: %[[R:.*]] = blu.all_gather %[[D]] axis = "dp" size = 2 : (tensor<4xbf16>) -> tensor<7xbf16>
// Z3-NEXT: blu.concat dim = 0 %[[R]],

// In the others each is gathered once, rounded unless it is read as it is, too.
// Z1: %[[V:.*]] = blu.all_gather %v axis = "dp" size = 2 : (tensor<4xf32>) -> tensor<7xf32>
// Z1: %[[D:.*]] = blu.cast %[[V]] : tensor<7xf32> to tensor<7xbf16>
// Z1: blu.concat dim = 0 %[[D]],
// Z1: %[[C:.*]] = blu.cast %s.i.w : tensor<2x3xf32> to tensor<2x3xbf16>
// Z1-NEXT: %[[G:.*]]:2 = blu.all_gather %[[C]], %s.i.b axis = "dp" size = 2 : (tensor<2x3xbf16>, tensor<2x3xf32>) -> (tensor<2x5xbf16>, tensor<2x5xf32>)
// Z1-NEXT: blu.stack "s" {{.*}} slices(%{{.*}} = %[[G]]#0, %{{.*}} = %[[G]]#1)
// Z1-NOT: all_gather

// The update is of pieces.
// CHECK-NOT: local_shard
// CHECK: %[[N:.*]], %{{.*}} = blu.sgd %v, {{.*}} : tensor<4xf32>
// CHECK-NOT: all_gather
// CHECK: blu.return %{{.*}}, %[[N]]
blu.step @train program(train) (
    %w: tensor<2x5xf32> {blu.tensor = {name = "s.{i}.w", role = "param", stack_count = 2 : i64, stack_first = 0 : i64}},
    %b: tensor<2x5xf32> {blu.tensor = {name = "s.{i}.b", role = "param", stack_count = 2 : i64, stack_first = 0 : i64}},
    %v: tensor<7xf32> {blu.tensor = {name = "v", role = "param"}},
    %lr: tensor<f64> {blu.tensor = {name = "lr", role = "scalar"}},
    %m: tensor<4xf32> {blu.tensor = {name = "v", role = "moment1", shards = 2 : i64, shard_of = array<i64: 7>}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}, tensor<7xf32> {blu.donates = 2 : i64}) {
  %zero = blu.constant dense<0.0> : tensor<1xbf16>
  %rv = blu.cast %v : tensor<7xf32> to tensor<7xbf16>
  %padded = blu.concat dim = 0 %rv, %zero : (tensor<7xbf16>, tensor<1xbf16>) -> tensor<8xbf16>
  %x = blu.reduce_sum %v [0] : (tensor<7xf32>) -> tensor<f32>
  %cw = blu.cast %w : tensor<2x5xf32> to tensor<2x5xbf16>
  %s = blu.stack "s" [0 to 2] iteration(%i) carry(%h = %x) slices(%unread = %w, %ws = %cw, %bs = %b) : (tensor<f32>, tensor<2x5xf32>, tensor<2x5xbf16>, tensor<2x5xf32>) -> (tensor<f32>) {
    %f = blu.cast %ws : tensor<5xbf16> to tensor<5xf32>
    %p = blu.mul %f, %bs : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
    %t = blu.reduce_sum %p [0] : (tensor<5xf32>) -> tensor<f32>
    %n = blu.add %h, %t : (tensor<f32>, tensor<f32>) -> tensor<f32>
    blu.yield %n : tensor<f32>
  }
  %u = blu.cast %padded : tensor<8xbf16> to tensor<8xf32>
  %e = blu.exp %u : tensor<8xf32>
  %y = blu.reduce_sum %e [0] : (tensor<8xf32>) -> tensor<f32>
  %loss = blu.add %s, %y : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %own = blu.local_shard %v axis = "dp" size = 2 : (tensor<7xf32>) -> tensor<4xf32>
  %v1, %m1 = blu.sgd %own, %m, %m lr %lr momentum %lr weight_decay %lr : tensor<4xf32>
  %all = blu.all_gather %v1 axis = "dp" size = 2 : (tensor<4xf32>) -> tensor<7xf32>
  blu.return %loss, %all : tensor<f32>, tensor<7xf32>
}
}
