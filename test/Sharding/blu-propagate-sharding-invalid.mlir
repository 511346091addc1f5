// RUN: bt-opt %s -blu-propagate-sharding -split-input-file -verify-diagnostics

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @over_the_batch program(train) (
    %x: tensor<8x4xf32> {blu.tensor = {name = "x", role = "input"}, blu.sharding = {dims = [["dp"], []]}})
    -> (tensor<8x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  // expected-error @+1 {{'blu.softmax' op needs dim 0 of operand 0 whole, but it is cut along 'dp'}}
  %y = blu.softmax %x dim = 0 : tensor<8x4xf32>
  blu.return %y : tensor<8x4xf32>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
blu.step @whole_beside_cut program(train) (
    %x: tensor<8x4xf32> {blu.tensor = {name = "x", role = "input"}, blu.sharding = {dims = [["dp"], []]}},
    %w: tensor<8x4xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<8x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  // expected-error @+1 {{'blu.add' op has dim 0 of operand 1 whole, where another operand is cut along 'dp'}}
  %y = blu.add %x, %w : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  blu.return %y : tensor<8x4xf32>
}
}

// -----

module attributes {blu.mesh = {dp = 2 : i64}} {
// expected-error @+1 {{'blu.step' op result 0 is new state that is cut, expected it whole}}
blu.step @cut_state program(train) (
    %x: tensor<8x4xf32> {blu.tensor = {name = "x", role = "input"}, blu.sharding = {dims = [["dp"], []]}},
    %w: tensor<8x4xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<8x4xf32> {blu.donates = 1 : i64}) {
  blu.return %x : tensor<8x4xf32>
}
}
