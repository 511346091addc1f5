// RUN: bt-opt %s -split-input-file -blu-instantiate-programs="batch=2 seq=16" | FileCheck %s
// RUN: bt-opt %s -split-input-file -blu-instantiate-programs="batch=2 seq=16 train-only=true" | FileCheck %s --check-prefix=TRAIN

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
// TRAIN-NOT: blu.model @eval
blu.model @lm(%tokens: tensor<?x?xi32> {blu.name = "tokens"}, %targets: tensor<?x?xi32> {blu.name = "targets"})
    -> (tensor<f32> {blu.name = "loss"}, tensor<?x?x32xf32> {blu.name = "logits"}) attributes {blu.context = 48 : i64} {
  %w = blu.param "w" init(#blu.zeros) : tensor<32x8xf32>
  %x = blu.embedding %w, %tokens : (tensor<32x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
  %y = blu.linear %x, %w : (tensor<?x?x8xf32>, tensor<32x8xf32>) -> tensor<?x?x32xf32>
  %l = blu.cross_entropy %y, %targets ignore_index = -100 reduction(mean) : (tensor<?x?x32xf32>, tensor<?x?xi32>) -> tensor<f32>
  blu.return %l, %y : tensor<f32>, tensor<?x?x32xf32>
}

// -----

// Only training keeps checkpoint regions, so that generation can cache what they
// hold.
// CHECK-LABEL: blu.model @train
// CHECK: blu.checkpoint
// CHECK-LABEL: blu.model @eval
// CHECK-NOT: blu.checkpoint
// CHECK-LABEL: blu.model @prefill
// CHECK-NOT: blu.checkpoint
// CHECK: %[[P:.*]] = blu.param "w"
// CHECK: %[[X:.*]] = blu.embedding %[[P]], %tokens
// CHECK: %[[Y:.*]] = blu.linear %[[X]], %[[P]]
// CHECK: blu.return %[[Y]]
// CHECK-LABEL: blu.model @decode
blu.model @lm(%tokens: tensor<?x?xi32> {blu.name = "tokens"}, %targets: tensor<?x?xi32> {blu.name = "targets"})
    -> (tensor<f32> {blu.name = "loss"}, tensor<?x?x32xf32> {blu.name = "logits"}) attributes {blu.context = 48 : i64} {
  %w = blu.param "w" init(#blu.zeros) : tensor<32x8xf32>
  %y = blu.checkpoint -> tensor<?x?x32xf32> {
    %x = blu.checkpoint -> tensor<?x?x8xf32> {
      %e = blu.embedding %w, %tokens : (tensor<32x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
      blu.yield %e : tensor<?x?x8xf32>
    }
    %z = blu.linear %x, %w : (tensor<?x?x8xf32>, tensor<32x8xf32>) -> tensor<?x?x32xf32>
    blu.yield %z : tensor<?x?x32xf32>
  }
  %l = blu.cross_entropy %y, %targets ignore_index = -100 reduction(mean) : (tensor<?x?x32xf32>, tensor<?x?xi32>) -> tensor<f32>
  blu.return %l, %y : tensor<f32>, tensor<?x?x32xf32>
}

// -----

// Attention in a stack within a stack trains, but does not generate.
// CHECK-LABEL: blu.model @eval
// CHECK: blu.attention
// CHECK-NOT: blu.model @prefill
blu.model @lm(%tokens: tensor<?x?xi32> {blu.name = "tokens"}, %targets: tensor<?x?xi32> {blu.name = "targets"})
    -> (tensor<f32> {blu.name = "loss"}, tensor<?x?x32xf32> {blu.name = "logits"}) attributes {blu.context = 48 : i64} {
  %w = blu.param "w" init(#blu.zeros) : tensor<32x8xf32>
  %x = blu.embedding %w, %tokens : (tensor<32x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
  %y = blu.stack "outer" [0 to 2] carry(%h = %x) : (tensor<?x?x8xf32>) -> (tensor<?x?x8xf32>) {
    %z = blu.stack "inner" [0 to 2] carry(%g = %h) : (tensor<?x?x8xf32>) -> (tensor<?x?x8xf32>) {
      %q = blu.reshape %g [0, 0, 2, -1] : (tensor<?x?x8xf32>) -> tensor<?x?x2x4xf32>
      %o, %lse = blu.attention %q, %q, %q scale = 0.5 causal : (tensor<?x?x2x4xf32>, tensor<?x?x2x4xf32>, tensor<?x?x2x4xf32>) -> (tensor<?x?x2x4xf32>, tensor<?x2x?xf32>)
      %r = blu.reshape %o [0, 0, -1] : (tensor<?x?x2x4xf32>) -> tensor<?x?x8xf32>
      blu.yield %r : tensor<?x?x8xf32>
    }
    blu.yield %z : tensor<?x?x8xf32>
  }
  %u = blu.linear %y, %w : (tensor<?x?x8xf32>, tensor<32x8xf32>) -> tensor<?x?x32xf32>
  %l = blu.cross_entropy %u, %targets ignore_index = -100 reduction(mean) : (tensor<?x?x32xf32>, tensor<?x?xi32>) -> tensor<f32>
  blu.return %l, %u : tensor<f32>, tensor<?x?x32xf32>
}

// -----

// Evaluation keeps losses by token, and the logits of a classifier, which are few.
// CHECK-LABEL: blu.model @train
// CHECK-SAME: -> (tensor<f32> {blu.name = "loss"})
// CHECK-LABEL: blu.model @eval
// CHECK-SAME: -> (tensor<f32> {blu.name = "loss"}, tensor<2xf32> {blu.name = "token_loss"}, tensor<2x3xf32> {blu.name = "logits"})
blu.model @classifier(%x: tensor<?x4xf32> {blu.name = "x"}, %t: tensor<?xi32> {blu.name = "label"})
    -> (tensor<f32> {blu.name = "loss"}, tensor<?xf32> {blu.name = "token_loss"}, tensor<?x3xf32> {blu.name = "logits"}) {
  %w = blu.param "w" init(#blu.zeros) : tensor<3x4xf32>
  %y = blu.linear %x, %w : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<?x3xf32>
  %e = blu.cross_entropy %y, %t ignore_index = -100 reduction(none) : (tensor<?x3xf32>, tensor<?xi32>) -> tensor<?xf32>
  %l = blu.cross_entropy %y, %t ignore_index = -100 reduction(mean) : (tensor<?x3xf32>, tensor<?xi32>) -> tensor<f32>
  blu.return %l, %e, %y : tensor<f32>, tensor<?xf32>, tensor<?x3xf32>
}
