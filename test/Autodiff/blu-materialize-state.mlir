// RUN: bt-opt %s -split-input-file -verify-diagnostics -blu-materialize-state | FileCheck %s

// Parameters come before inputs; those of a stack hold its iterations along dim 0
// and are slices; a parameter in a checkpoint in a stack is the stack's.
// CHECK-LABEL: blu.step @eval program(eval)
// CHECK-SAME: %[[A:[a-zA-Z0-9_.]+]]: tensor<3x8xf32> {blu.tensor = {export = "h.{i}.w", init = "normal", init_a = 0.000000e+00 : f64, init_b = 2.000000e-02 : f64, name = "s.{i}.w", role = "param", stack_count = 3 : i64, stack_first = 2 : i64}}
// CHECK-SAME: %[[B:[a-zA-Z0-9_.]+]]: tensor<3x4x8xf32> {blu.tensor = {decay, {{.*}}name = "s.{i}.m", role = "param", {{.*}}transpose}}
// CHECK-SAME: %[[C:[a-zA-Z0-9_.]+]]: tensor<8xf32> {blu.tensor = {init = "constant", init_a = 5.000000e-01 : f64, {{.*}}name = "c", role = "param"}}
// CHECK-SAME: %x: tensor<8xf32> {blu.tensor = {name = "x", role = "input"}}
// CHECK-SAME: -> (tensor<8xf32> {blu.tensor = {name = "y", role = "output"}})
// CHECK: blu.stack "s" [2 to 5] {{.*}} slices(%[[AI:.*]] = %[[A]], %[[BI:.*]] = %[[B]])
// CHECK: blu.mul %{{.*}}, %[[AI]]
// CHECK: blu.checkpoint
// CHECK: blu.reduce_sum %[[BI]]
// CHECK: blu.add %{{.*}}, %[[C]]
// CHECK-NOT: blu.param
blu.model @eval(%x: tensor<8xf32> {blu.name = "x"}) -> (tensor<8xf32> {blu.name = "y"}) attributes {blu.program = 1 : i32} {
  %y = blu.stack "s" [2 to 5] iteration(%i) carry(%h = %x) : (tensor<8xf32>) -> tensor<8xf32> {
    %w = blu.param "w" init(#blu.normal<0.0, 0.02>) export("h.{i}.w") : tensor<8xf32>
    %m = blu.mul %h, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %c = blu.checkpoint -> tensor<8xf32> {
      %p = blu.param "m" init(#blu.zeros) export("h.{i}.m" transpose) : tensor<4x8xf32>
      %r = blu.reduce_sum %p [0] : (tensor<4x8xf32>) -> tensor<8xf32>
      %s = blu.add %m, %r : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      blu.yield %s : tensor<8xf32>
    }
    blu.yield %c : tensor<8xf32>
  }
  %c = blu.param "c" init(#blu.fill<0.5>) : tensor<8xf32>
  %z = blu.add %y, %c : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  blu.return %z : tensor<8xf32>
}

// -----

blu.model @eval(%x: tensor<8xf32> {blu.name = "x"}) -> (tensor<8xf32> {blu.name = "y"}) attributes {blu.program = 1 : i32} {
  %y = blu.stack "s" [0 to 2] iteration(%i) carry(%h = %x) : (tensor<8xf32>) -> tensor<8xf32> {
    %n = blu.stack "t" [0 to 2] iteration(%j) carry(%g = %h) : (tensor<8xf32>) -> tensor<8xf32> {
      // expected-error @below {{'blu.param' op is in a stack within a stack, expected at most one stack around a parameter}}
      %w = blu.param "w" init(#blu.ones) : tensor<8xf32>
      %m = blu.mul %g, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
      blu.yield %m : tensor<8xf32>
    }
    blu.yield %n : tensor<8xf32>
  }
  blu.return %y : tensor<8xf32>
}

// -----

// expected-error @below {{'blu.model' op expected a 'blu.program' attribute, as blu-instantiate-programs sets it}}
blu.model @m(%x: tensor<8xf32> {blu.name = "x"}) -> (tensor<8xf32> {blu.name = "y"}) {
  blu.return %x : tensor<8xf32>
}
