// RUN: bt-opt %s -verify-diagnostics -blu-instantiate-programs="batch=2 seq=16"

// Chunks of the prompt have gcd(48, 64) = 16 positions, the last token the 48th.
blu.model @lm(%tokens: tensor<?x?xi32> {blu.name = "tokens"})
    -> (tensor<f32> {blu.name = "loss"}, tensor<?x?x8xf32> {blu.name = "logits"}) attributes {blu.context = 48 : i64} {
  %w = blu.param "w" init(#blu.zeros) : tensor<32x8xf32>
  %e = blu.param "positions" init(#blu.zeros) : tensor<16x8xf32>
  %p = blu.positions %tokens dim = 1 : (tensor<?x?xi32>) -> tensor<?xi32>
  %x = blu.embedding %w, %tokens : (tensor<32x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
  // expected-error @below {{'blu.embedding' op takes 48 positions from a table of 16 rows, expected a 'blu.context' of at most 16}}
  %q = blu.embedding %e, %p : (tensor<16x8xf32>, tensor<?xi32>) -> tensor<?x8xf32>
  %y = blu.add %x, %q : (tensor<?x?x8xf32>, tensor<?x8xf32>) -> tensor<?x?x8xf32>
  %l = blu.reduce_sum %x [0, 1, 2] : (tensor<?x?x8xf32>) -> tensor<f32>
  blu.return %l, %y : tensor<f32>, tensor<?x?x8xf32>
}
