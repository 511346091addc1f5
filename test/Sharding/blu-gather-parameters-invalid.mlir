// RUN: bt-opt %s -blu-gather-parameters="zero=3" -verify-diagnostics

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @eval program(eval) (
    %w: tensor<2x5xf32> {blu.tensor = {name = "s.{i}.w", role = "param", stack_count = 2 : i64, stack_first = 0 : i64}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  // expected-error @below {{takes all iterations of 's.{i}.w' at once, expected a stack that takes one at a time}}
  %x = blu.reduce_sum %w [0, 1] : (tensor<2x5xf32>) -> tensor<f32>
  blu.return %x : tensor<f32>
}
}
