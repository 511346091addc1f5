// RUN: bt-opt %s -blu-rematerialize | FileCheck %s

// The body goes into a checkpoint, parameters and casts of them stay outside; only in training, and
// only around outermost stacks.
// CHECK-LABEL: blu.model @train
// CHECK: blu.stack "s"
// CHECK-NEXT: %[[W:.*]] = blu.param "w"
// CHECK-NEXT: blu.cast %[[W]]
// CHECK-NEXT: %[[C:.*]] = blu.checkpoint -> tensor<8xf32>
// CHECK-NEXT: blu.mul %{{.*}}, %[[W]]
// CHECK: blu.stack "inner"
// CHECK-NOT: blu.checkpoint
// CHECK: blu.yield %[[C]] : tensor<8xf32>
blu.model @train(%x: tensor<8xf32> {blu.name = "x"}) -> (tensor<8xf32> {blu.name = "y"}) attributes {blu.program = 0 : i32} {
  %y = blu.stack "s" [0 to 4] iteration(%i) carry(%h = %x) : (tensor<8xf32>) -> tensor<8xf32> {
    %w = blu.param "w" init(#blu.ones) : tensor<8xf32>
    %v = blu.cast %w : tensor<8xf32> to tensor<8xbf16>
    %m = blu.mul %h, %w : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    %n = blu.stack "inner" [0 to 2] iteration(%j) carry(%g = %m) : (tensor<8xf32>) -> tensor<8xf32> {
      %e = blu.exp %g : tensor<8xf32>
      blu.yield %e : tensor<8xf32>
    }
    blu.yield %n : tensor<8xf32>
  }
  blu.return %y : tensor<8xf32>
}

// CHECK-LABEL: blu.model @eval
// CHECK-NOT: blu.checkpoint
blu.model @eval(%x: tensor<8xf32> {blu.name = "x"}) -> (tensor<8xf32> {blu.name = "y"}) attributes {blu.program = 1 : i32} {
  %y = blu.stack "s" [0 to 4] iteration(%i) carry(%h = %x) : (tensor<8xf32>) -> tensor<8xf32> {
    %e = blu.exp %h : tensor<8xf32>
    blu.yield %e : tensor<8xf32>
  }
  blu.return %y : tensor<8xf32>
}
