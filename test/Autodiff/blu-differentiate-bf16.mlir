// RUN: bt-opt %s -split-input-file -blu-differentiate -canonicalize | FileCheck %s

// The gradient of a parameter of which products read a rounded copy is not
// rounded: as a slice and, summed over the iterations, as a captured value.
// CHECK-LABEL: blu.step @weights
// CHECK: %[[US:.*]] = blu.cast %u : tensor<3x8x8xf32> to tensor<3x8x8xbf16>
// CHECK: %[[V:.*]] = blu.cast %v : tensor<8x8xf32> to tensor<8x8xbf16>
// CHECK: %[[ADJ:.*]]:3 = blu.stack "s" {{.*}} reverse : {{.*}} -> (tensor<4x8xbf16>, tensor<8x8xf32>, tensor<3x8x8xf32>)
// CHECK: %[[DV:.*]] = blu.matmul %{{.*}}, %{{.*}} trans_a wide : {{.*}} -> tensor<8x8xf32>
// CHECK: %[[DU:.*]] = blu.matmul %{{.*}}, %{{.*}} trans_a wide : {{.*}} -> tensor<8x8xf32>
// CHECK: %[[SUM:.*]] = blu.add %{{.*}}, %[[DV]] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
// CHECK: blu.yield %{{.*}}, %[[SUM]], %[[DU]]
// CHECK: blu.return %{{.*}}, %[[ADJ]]#2, %[[ADJ]]#1 : tensor<f32>, tensor<3x8x8xf32>, tensor<8x8xf32>
blu.step @weights program(train) (%us: tensor<3x8x8xf32> {blu.tensor = {name = "u", role = "param", stack_count = 3 : i64, stack_first = 0 : i64}},
                                  %v: tensor<8x8xf32> {blu.tensor = {name = "v", role = "param"}},
                                  %x: tensor<4x8xbf16> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  %u16 = blu.cast %us : tensor<3x8x8xf32> to tensor<3x8x8xbf16>
  %v16 = blu.cast %v : tensor<8x8xf32> to tensor<8x8xbf16>
  %y = blu.stack "s" [0 to 3] iteration(%i) carry(%h = %x) slices(%u = %u16) : (tensor<4x8xbf16>, tensor<3x8x8xbf16>) -> tensor<4x8xbf16> {
    %a = blu.linear %h, %u : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
    %b = blu.linear %a, %v16 : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
    blu.yield %b : tensor<4x8xbf16>
  }
  %w = blu.cast %y : tensor<4x8xbf16> to tensor<4x8xf32>
  %l = blu.reduce_sum %w [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}

// -----

// Nor is the gradient of a bias that was rounded and widened again.
// CHECK-LABEL: blu.step @bias
// CHECK: %[[SUM:.*]] = blu.reduce_sum %{{.*}} [0] : (tensor<4x8xf32>) -> tensor<8xf32>
// CHECK-NOT: blu.cast
// CHECK: blu.return %{{.*}}, %[[SUM]] : tensor<f32>, tensor<8xf32>
blu.step @bias program(train) (%b: tensor<8xf32> {blu.tensor = {name = "b", role = "param"}},
                               %x: tensor<4x8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  %b16 = blu.cast %b : tensor<8xf32> to tensor<8xbf16>
  %b32 = blu.cast %b16 : tensor<8xbf16> to tensor<8xf32>
  %s = blu.add %x, %b32 : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %q = blu.mul %s, %s : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = blu.reduce_sum %q [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}

// -----

// Of two cotangents that meet, one of which was computed in f32, the sum is rounded.
// CHECK-LABEL: blu.step @stream
// CHECK: %[[A:.*]] = blu.cast %w : tensor<8xf32> to tensor<8xbf16>
// CHECK: %[[SLOPE:.*]] = blu.sub
// CHECK: %[[DT:.*]] = blu.mul %{{.*}}, %[[SLOPE]] : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
// CHECK: blu.add %{{.*}}, %[[DT]] : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
blu.step @stream program(train) (%w: tensor<8xf32> {blu.tensor = {name = "w", role = "param"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  %a = blu.cast %w : tensor<8xf32> to tensor<8xbf16>
  %h = blu.neg %a : tensor<8xbf16>
  %h32 = blu.cast %h : tensor<8xbf16> to tensor<8xf32>
  %t = blu.tanh %h32 : tensor<8xf32>
  %t16 = blu.cast %t : tensor<8xf32> to tensor<8xbf16>
  %s = blu.add %h, %t16 : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
  %s32 = blu.cast %s : tensor<8xbf16> to tensor<8xf32>
  %l = blu.reduce_sum %s32 [0] : (tensor<8xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}

// -----

// Nor is that of one whose rounded copy is padded: it is a part of the product.
// CHECK-LABEL: blu.step @padded
// CHECK: %[[DW:.*]] = blu.matmul %{{.*}}, %{{.*}} trans_a wide : {{.*}} -> tensor<8x8xf32>
// CHECK: %[[PARTS:.*]]:2 = blu.split %[[DW]] dim = 0 [5, 3] : (tensor<8x8xf32>) -> (tensor<5x8xf32>, tensor<3x8xf32>)
// CHECK: blu.return %{{.*}}, %[[PARTS]]#0 : tensor<f32>, tensor<5x8xf32>
blu.step @padded program(train) (%w: tensor<5x8xf32> {blu.tensor = {name = "w", role = "param"}},
                                 %x: tensor<4x8xbf16> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  %n = blu.cast %w : tensor<5x8xf32> to tensor<5x8xbf16>
  %z = blu.constant dense<0.0> : tensor<3x8xbf16>
  %p = blu.concat dim = 0 %n, %z : (tensor<5x8xbf16>, tensor<3x8xbf16>) -> tensor<8x8xbf16>
  %y = blu.linear %x, %p : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %y32 = blu.cast %y : tensor<4x8xbf16> to tensor<4x8xf32>
  %l = blu.reduce_sum %y32 [0, 1] : (tensor<4x8xf32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}
