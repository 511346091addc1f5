// RUN: bt-opt %s -split-input-file -verify-diagnostics -blu-differentiate

// All ops without a gradient are listed, and nothing else.
blu.step @train program(train) (%w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  // expected-error @below {{'blu.gelu_grad' op has no gradient, but the loss depends on its result and its operands on a parameter}}
  %a = blu.gelu_grad %w, %w approximate(tanh) : tensor<3xf32>
  // expected-error @below {{'blu.global_norm' op has no gradient}}
  %l = blu.global_norm %a : (tensor<3xf32>) -> tensor<f32>
  %unused = blu.gelu_grad %w, %w approximate(erf) : tensor<3xf32>
  blu.return %l : tensor<f32>
}

// -----

// expected-error @below {{'blu.step' op has no output 'loss' to differentiate}}
blu.step @train program(train) (%w: tensor<f32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<f32> {blu.tensor = {name = "score", role = "output"}}) {
  blu.return %w : tensor<f32>
}

// -----

blu.step @train program(train) (%q: tensor<1x2x1x4xf32> {blu.tensor = {name = "q", role = "param"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  // expected-error @below {{'blu.attention' op has no gradient rule for a cotangent of lse}}
  %o, %lse = blu.attention %q, %q, %q scale = 0.5 : (tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>, tensor<1x2x1x4xf32>) -> (tensor<1x2x1x4xf32>, tensor<1x1x2xf32>)
  %l = blu.reduce_sum %lse [0, 1, 2] : (tensor<1x1x2xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}

// -----

// A region takes the parameter from above; it is no operand.
blu.step @train program(train) (%w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}},
                                %n: tensor<2xi64> {blu.tensor = {name = "n", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  // expected-error @below {{'blu.accumulate' op has no gradient}}
  %s = blu.accumulate [2] iteration(%k) slices(%i = %n) : (tensor<2xi64>) -> (tensor<3xf32>) {
    %m = blu.mul %w, %w : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    blu.yield %m : tensor<3xf32>
  }
  %l = blu.reduce_sum %s [0] : (tensor<3xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}
