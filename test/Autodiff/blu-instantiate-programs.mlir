// RUN: bt-opt %s -blu-instantiate-programs="batch=2 seq=16" | FileCheck %s
// RUN: bt-opt %s -blu-instantiate-programs="batch=2 seq=16 train-only=true" | FileCheck %s --check-prefix=TRAIN

// Each program keeps its results, loses what only others need, and is static.
// CHECK-LABEL: blu.model @train
// CHECK-SAME: (%tokens: tensor<2x16xi32> {{.*}}, %targets: tensor<2x16xi32> {{.*}}) -> (tensor<f32> {blu.name = "loss"})
// CHECK-SAME: blu.program = 0 : i32
// CHECK-SAME: blurt.entry = {batch = 2 : i64, microbatches = 1 : i64, seq = 16 : i64}
// CHECK: blu.cross_entropy
// CHECK-LABEL: blu.model @eval
// CHECK-SAME: -> (tensor<f32> {blu.name = "loss"})
// CHECK: blu.cross_entropy
// A context of 48 takes prompts in chunks of gcd(48, 64) = 16.
// CHECK-LABEL: blu.model @prefill
// CHECK-SAME: (%tokens: tensor<1x16xi32> {blu.name = "tokens"}) -> (tensor<1x16x32xf32> {blu.name = "logits"})
// CHECK-NOT: blu.cross_entropy
// CHECK-LABEL: blu.model @decode
// CHECK-SAME: (%tokens: tensor<1x1xi32> {blu.name = "tokens"}) -> (tensor<1x1x32xf32> {blu.name = "logits"})
// CHECK: blu.embedding %{{.*}}, %tokens : (tensor<32x8xf32>, tensor<1x1xi32>) -> tensor<1x1x8xf32>

// TRAIN: blu.model @train
// TRAIN-NOT: blu.model
blu.model @lm(%tokens: tensor<?x?xi32> {blu.name = "tokens"}, %targets: tensor<?x?xi32> {blu.name = "targets"})
    -> (tensor<f32> {blu.name = "loss"}, tensor<?x?x32xf32> {blu.name = "logits"}) attributes {blu.context = 48 : i64} {
  %w = blu.param "w" init(#blu.zeros) : tensor<32x8xf32>
  %x = blu.embedding %w, %tokens : (tensor<32x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
  %y = blu.linear %x, %w : (tensor<?x?x8xf32>, tensor<32x8xf32>) -> tensor<?x?x32xf32>
  %l = blu.cross_entropy %y, %targets ignore_index = -100 reduction(mean) : (tensor<?x?x32xf32>, tensor<?x?xi32>) -> tensor<f32>
  blu.return %l, %y : tensor<f32>, tensor<?x?x32xf32>
}
