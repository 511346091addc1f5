// RUN: bt-opt %s -blu-accumulate-gradients="microbatches=4" | FileCheck %s
// RUN: bt-opt %s -blu-accumulate-gradients="microbatches=1" | FileCheck %s --check-prefix=ONE
// RUN: not bt-opt %s -blu-accumulate-gradients="microbatches=0" 2>&1 | FileCheck %s --check-prefix=BAD

// Inputs get the microbatches as dim 0, each microbatch its own seed. Parameters are
// cast and padded once for all of them.
// CHECK-LABEL: blu.step @train
// CHECK-SAME: %x: tensor<4x8xf32>
// CHECK-SAME: microbatches = 4 : i64
// CHECK: %[[W:.*]] = blu.cast %w : tensor<8xf32> to tensor<8xbf16>
// CHECK: %[[Z:.*]] = blu.constant dense<0.000000e+00> : tensor<4xbf16>
// CHECK: %[[P:.*]] = blu.concat dim = 0 %[[W]], %[[Z]]
// CHECK: %[[A:.*]]:2 = blu.accumulate [4] iteration(%[[K:.*]]) slices(%[[X:.*]] = %x)
// CHECK: %[[SEED:.*]] = blu.random_key %seed, %step, %[[K]] site = -1
// CHECK: blu.random_key %[[SEED]], %step site = 0
// CHECK: blu.cast %[[W]]
// CHECK: blu.neg %[[P]]
// CHECK: blu.mul %{{.*}}, %w
// CHECK: blu.yield
// CHECK: blu.return %[[A]]#0, %[[A]]#1

// ONE-NOT: blu.accumulate
// BAD: error: microbatches is 0, expected at least 1
blu.step @train program(train) (%w: tensor<8xf32> {blu.tensor = {name = "w", role = "param"}},
                                %x: tensor<8xf32> {blu.tensor = {name = "x", role = "input"}},
                                %seed: tensor<i64> {blu.tensor = {name = "seed", role = "scalar"}},
                                %step: tensor<i64> {blu.tensor = {name = "step", role = "scalar"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}, tensor<8xf32> {blu.tensor = {name = "w", role = "gradient"}})
    attributes {blurt.entry = {batch = 8 : i64, microbatches = 1 : i64, seq = 0 : i64}} {
  %k = blu.random_key %seed, %step site = 0 : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %d = blu.dropout %x key %k rate = 0.5 : tensor<8xf32>
  %w16 = blu.cast %w : tensor<8xf32> to tensor<8xbf16>
  %w32 = blu.cast %w16 : tensor<8xbf16> to tensor<8xf32>
  %z = blu.constant dense<0.0> : tensor<4xbf16>
  %p = blu.concat dim = 0 %w16, %z : (tensor<8xbf16>, tensor<4xbf16>) -> tensor<12xbf16>
  %n = blu.neg %p : tensor<12xbf16>
  %m = blu.mul %d, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %l = blu.reduce_sum %m [0] : (tensor<8xf32>) -> tensor<f32>
  blu.return %l, %d : tensor<f32>, tensor<8xf32>
}
