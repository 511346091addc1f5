// RUN: bt-opt %s -blu-cache-attention | FileCheck %s

// Caches of the context's length, one stacked pair a place in the model, updated
// where they lie; positions begin at the number of cached tokens.
// CHECK-LABEL: blu.step @decode
// CHECK-SAME: %[[KC:[a-zA-Z0-9_.]+]]: tensor<3x1x32x2x4xf32> {blu.tensor = {name = "cache.0.k", role = "cache", stack_count = 3 : i64, stack_first = 0 : i64}}
// CHECK-SAME: %[[VC:[a-zA-Z0-9_.]+]]: tensor<3x1x32x2x4xf32> {blu.tensor = {name = "cache.0.v", role = "cache", stack_count = 3 : i64, stack_first = 0 : i64}}
// CHECK-SAME: %position: tensor<i64> {blu.tensor = {name = "position", role = "scalar"}}
// CHECK-SAME: tensor<3x1x32x2x4xf32> {blu.donates = 1 : i64}, tensor<3x1x32x2x4xf32> {blu.donates = 2 : i64})
// CHECK: %[[S:.*]]:3 = blu.stack "s" {{.*}} slices(%[[K:.*]] = %[[KC]], %[[V:.*]] = %[[VC]])
// CHECK: blu.positions %{{.*}} at %position dim = 1
// CHECK: %[[O:.*]], %[[K1:.*]], %[[V1:.*]] = blu.cached_attention %{{.*}}, %{{.*}}, %{{.*}}, %[[K]], %[[V]] at %position scale
// CHECK: blu.yield %[[O]], %[[K1]], %[[V1]]
// CHECK: blu.return %[[S]]#0, %[[S]]#1, %[[S]]#2
blu.step @decode program(decode) (%q: tensor<1x1x2x4xf32> {blu.tensor = {name = "q", role = "input"}})
    -> (tensor<1x1x2x4xf32> {blu.tensor = {name = "o", role = "output"}}) attributes {blu.context = 32 : i64} {
  %y = blu.stack "s" [0 to 3] iteration(%i) carry(%h = %q) : (tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32> {
    %p = blu.positions %h dim = 1 : (tensor<1x1x2x4xf32>) -> tensor<1xi32>
    %o, %lse = blu.attention %h, %h, %h scale = 0.5 causal : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> (tensor<1x1x2x4xf32>, tensor<1x2x1xf32>)
    blu.yield %o : tensor<1x1x2x4xf32>
  }
  blu.return %y : tensor<1x1x2x4xf32>
}
// Other programs keep their attention.
// CHECK-LABEL: blu.step @eval
// CHECK: blu.attention
blu.step @eval program(eval) (%q: tensor<1x1x2x4xf32> {blu.tensor = {name = "q", role = "input"}})
    -> (tensor<1x1x2x4xf32> {blu.tensor = {name = "o", role = "output"}}) {
  %o, %lse = blu.attention %q, %q, %q scale = 0.5 causal : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> (tensor<1x1x2x4xf32>, tensor<1x2x1xf32>)
  blu.return %o : tensor<1x1x2x4xf32>
}
// A model's own offset of positions stays.
// CHECK-LABEL: blu.step @prefill
// CHECK-SAME: %position: tensor<i64>
// CHECK: %[[TWO:.*]] = blu.constant dense<2>
// CHECK: %[[AT:.*]] = blu.add %[[TWO]], %position
// CHECK: blu.positions %{{.*}} at %[[AT]] dim = 1
blu.step @prefill program(prefill) (%x: tensor<1x4xi32> {blu.tensor = {name = "tokens", role = "input"}})
    -> (tensor<4xi32> {blu.tensor = {name = "p", role = "output"}}) attributes {blu.context = 32 : i64} {
  %two = blu.constant dense<2> : tensor<i64>
  %p = blu.positions %x at %two dim = 1 : (tensor<1x4xi32>, tensor<i64>) -> tensor<4xi32>
  blu.return %p : tensor<4xi32>
}
