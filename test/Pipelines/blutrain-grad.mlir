// RUN: bt-opt %s -blutrain-blu="batch=2" -blutrain-grad="remat=none" -o /dev/null
// RUN: bt-opt %s -blutrain-grad="vjp=true remat=full" | FileCheck %s
// RUN: not bt-opt %s -blutrain-blu="batch=2" -blutrain-grad="remat=most" 2>&1 | FileCheck %s --check-prefix=REMAT

// Options of the pipelines are those of bt-compile. A vector-Jacobian product
// recomputes as training does: the reverse stack starts from the carried value.
// CHECK: blu.stack "s" [0 to 3]
// CHECK: blu.checkpoint
// CHECK: blu.exp
// CHECK: blu.stack "s" [0 to 3] {{.*}} reverse
// CHECK: blu.exp

// REMAT: error: recompute is 'most', expected views or cheap
blu.model @m(%x: tensor<2x4xf32> {blu.name = "x"}) -> (tensor<f32> {blu.name = "loss"}) {
  %y = blu.stack "s" [0 to 3] carry(%h = %x) : (tensor<2x4xf32>) -> (tensor<2x4xf32>) {
    %w = blu.param "w" init(#blu.ones) : tensor<4xf32>
    %e = blu.exp %h : tensor<2x4xf32>
    %m = blu.mul %e, %w : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    blu.yield %m : tensor<2x4xf32>
  }
  %l = blu.reduce_sum %y [0, 1] : (tensor<2x4xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}
