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

// -----

// The stack that is made again for the checkpoint region may lie in memory where
// the later stack did: it must not get that one's cotangent too.
// CHECK-LABEL: blu.step @train
// CHECK-NOT: blu.add
blu.step @train program(train) (%w: tensor<8xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  %k = blu.checkpoint -> tensor<8xf32> {
    %a = blu.stack "a" [0 to 2] carry(%h = %w) : (tensor<8xf32>) -> (tensor<8xf32>) {
      %t = blu.tanh %h : tensor<8xf32>
      blu.yield %t : tensor<8xf32>
    }
    blu.yield %a : tensor<8xf32>
  }
  %y = blu.stack "b" [0 to 2] carry(%h = %k) : (tensor<8xf32>) -> (tensor<8xf32>) {
    %t = blu.tanh %h : tensor<8xf32>
    blu.yield %t : tensor<8xf32>
  }
  %l = blu.reduce_sum %y [0] : (tensor<8xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}

// -----

// 2^40 ways lead from the result back to what is saved.
// CHECK-LABEL: blu.step @train
// CHECK: blu.stack
// CHECK: blu.stack
blu.step @train program(train) (%w: tensor<8xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  %y = blu.stack "s" [0 to 2] carry(%h = %w) : (tensor<8xf32>) -> (tensor<8xf32>) {
    %0 = blu.exp %h : tensor<8xf32>
    %1 = blu.add %0, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %2 = blu.add %1, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %3 = blu.add %2, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %4 = blu.add %3, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %5 = blu.add %4, %4 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %6 = blu.add %5, %5 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %7 = blu.add %6, %6 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %8 = blu.add %7, %7 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %9 = blu.add %8, %8 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %10 = blu.add %9, %9 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %11 = blu.add %10, %10 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %12 = blu.add %11, %11 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %13 = blu.add %12, %12 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %14 = blu.add %13, %13 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %15 = blu.add %14, %14 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %16 = blu.add %15, %15 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %17 = blu.add %16, %16 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %18 = blu.add %17, %17 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %19 = blu.add %18, %18 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %20 = blu.add %19, %19 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %21 = blu.add %20, %20 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %22 = blu.add %21, %21 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %23 = blu.add %22, %22 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %24 = blu.add %23, %23 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %25 = blu.add %24, %24 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %26 = blu.add %25, %25 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %27 = blu.add %26, %26 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %28 = blu.add %27, %27 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %29 = blu.add %28, %28 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %30 = blu.add %29, %29 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %31 = blu.add %30, %30 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %32 = blu.add %31, %31 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %33 = blu.add %32, %32 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %34 = blu.add %33, %33 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %35 = blu.add %34, %34 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %36 = blu.add %35, %35 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %37 = blu.add %36, %36 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %38 = blu.add %37, %37 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %39 = blu.add %38, %38 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %40 = blu.add %39, %39 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %m = blu.mul %40, %40 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    blu.yield %m : tensor<8xf32>
  }
  %l = blu.reduce_sum %y [0] : (tensor<8xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}
