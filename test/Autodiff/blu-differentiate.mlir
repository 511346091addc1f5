// RUN: bt-opt %s -split-input-file -blu-differentiate | FileCheck %s

// A value that is used twice collects both cotangents.
// CHECK-LABEL: blu.step @train
// CHECK-SAME: (%[[W:[a-z0-9]+]]: tensor<3xf32>
// CHECK-SAME: -> (tensor<f32>
// CHECK-SAME: name = "w", role = "gradient"
// CHECK: %[[E:.*]] = blu.exp %[[W]]
// CHECK: %[[P:.*]] = blu.mul %[[E]], %[[W]]
// CHECK: %[[L:.*]] = blu.reduce_sum %[[P]] [0]
// CHECK: %[[ONE:.*]] = blu.constant dense<1.000000e+00> : tensor<f32>
// CHECK: %[[R:.*]] = blu.reshape %[[ONE]] [1]
// CHECK: %[[G:.*]] = blu.broadcast %[[R]]
// CHECK: %[[GE:.*]] = blu.mul %[[G]], %[[W]]
// CHECK: %[[GW1:.*]] = blu.mul %[[G]], %[[E]]
// CHECK: %[[GW2:.*]] = blu.mul %[[GE]], %[[E]]
// CHECK: %[[GW:.*]] = blu.add %[[GW1]], %[[GW2]]
// CHECK: blu.return %[[L]], %[[GW]]
blu.step @train program(train) (%w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  %e = blu.exp %w : tensor<3xf32>
  %p = blu.mul %e, %w : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %l = blu.reduce_sum %p [0] : (tensor<3xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}

// -----

// Nothing is built for a parameter that the loss does not depend on, nor through
// stop_gradient.
// CHECK-LABEL: blu.step @train
// CHECK-SAME: (%[[A:[a-z0-9]+]]: tensor<f32>
// CHECK: blu.stop_gradient
// CHECK-NOT: blu.exp
// CHECK: %[[ZERO:.*]] = blu.constant dense<0.000000e+00> : tensor<f32>
// CHECK: blu.return %{{.*}}, %{{.*}}, %[[ZERO]]
blu.step @train program(train) (%a: tensor<f32> {blu.tensor = {name = "a", role = "param"}},
                                %b: tensor<f32> {blu.tensor = {name = "b", role = "param"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  %s = blu.stop_gradient %b : tensor<f32>
  %l = blu.mul %a, %s : (tensor<f32>, tensor<f32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}

// -----

// A stack: the carried value is saved, the cotangent runs the other way, that of
// a captured value is carried, that of a slice collected.
// CHECK-LABEL: blu.step @train
// CHECK-SAME: %[[WS:[a-zA-Z0-9_.]+]]: tensor<4x8xf32>
// CHECK-SAME: %[[C:[a-zA-Z0-9_.]+]]: tensor<8xf32> {{.*}}"c"
// CHECK: %[[F:.*]]:2 = blu.stack "s" [0 to 4] iteration(%{{.*}}) carry(%[[H:.*]] = %{{.*}}) slices(%[[W:.*]] = %[[WS]])
// CHECK-SAME: -> (tensor<8xf32>, tensor<4x8xf32>)
// CHECK: %[[M:.*]] = blu.mul %[[H]], %[[W]]
// CHECK: %[[N:.*]] = blu.mul %[[M]], %[[C]]
// CHECK: blu.yield %[[N]], %[[H]]
// CHECK: %[[B:.*]]:3 = blu.stack "s" [0 to 4]
// CHECK-SAME: carry(%[[DH:.*]] = %{{.*}}, %[[DC:.*]] = %{{.*}}) slices(
// CHECK-SAME: reverse
// CHECK: blu.add %[[DC]]
// CHECK: blu.yield %{{.*}}, %{{.*}}, %{{.*}} : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
// CHECK: blu.return %{{.*}}, %[[B]]#2, %[[B]]#1
blu.step @train program(train) (%ws: tensor<4x8xf32> {blu.tensor = {name = "s.{i}.w", role = "param"}},
                                %c: tensor<8xf32> {blu.tensor = {name = "c", role = "param"}},
                                %x: tensor<8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  %y = blu.stack "s" [0 to 4] iteration(%i) carry(%h = %x) slices(%w = %ws) : (tensor<8xf32>, tensor<4x8xf32>) -> (tensor<8xf32>) {
    %m = blu.mul %h, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %n = blu.mul %m, %c : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    blu.yield %n : tensor<8xf32>
  }
  %l = blu.reduce_sum %y [0] : (tensor<8xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}

// -----

// A checkpoint region runs again in the backward pass.
// CHECK-LABEL: blu.step @train
// CHECK: %[[Y:.*]] = blu.checkpoint
// CHECK: blu.exp
// CHECK: blu.tanh
// CHECK: blu.yield
// CHECK: blu.reduce_sum %[[Y]]
// CHECK: %[[E:.*]] = blu.exp
// CHECK: %[[T:.*]] = blu.tanh %[[E]]
// CHECK: blu.mul %[[T]], %[[T]]
blu.step @train program(train) (%w: tensor<8xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  %y = blu.checkpoint -> tensor<8xf32> {
    %e = blu.exp %w : tensor<8xf32>
    %t = blu.tanh %e : tensor<8xf32>
    blu.yield %t : tensor<8xf32>
  }
  %l = blu.reduce_sum %y [0] : (tensor<8xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}
