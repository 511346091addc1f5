// RUN: bt-opt %s -split-input-file -blu-chunk-loss-head="bytes=256" | FileCheck %s
// RUN: bt-opt %s -split-input-file -blu-chunk-loss-head="bytes=0" | FileCheck %s --check-prefix=OFF

// OFF-NOT: blu.stack

// 12 rows of 64 bytes of logits, four at a time; loss, dX and dW of a chunk are
// computed together, dW and the loss are carried.
// CHECK-LABEL: blu.step @train
// CHECK: %[[G:.*]] = blu.div
// CHECK: %[[S:.*]]:3 = blu.stack "loss_head" [0 to 3] iteration(%{{.*}}) carry(%[[L:.*]] = %{{.*}}, %[[DW:.*]] = %{{.*}}) slices(%[[X:.*]] = %{{.*}}, %[[T:.*]] = %{{.*}})
// CHECK: %[[Z:.*]] = blu.linear %[[X]], %w : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
// CHECK: %[[LC:.*]] = blu.cross_entropy %[[Z]], %[[T]] {{.*}} reduction(sum)
// CHECK: %[[DZ:.*]] = blu.cross_entropy_grad %[[Z]], %[[T]], %[[G]]
// CHECK: %[[DX:.*]] = blu.matmul %[[DZ]], %w
// CHECK: %[[DWC:.*]] = blu.matmul %[[DZ]], %[[X]] trans_a
// CHECK: %[[L1:.*]] = blu.add %[[L]], %[[LC]]
// CHECK: %[[DW1:.*]] = blu.add %[[DW]], %[[DWC]]
// CHECK: blu.yield %[[L1]], %[[DW1]], %[[DX]]
// CHECK-NOT: blu.linear
// CHECK: %[[MEAN:.*]] = blu.div %[[S]]#0
// CHECK: %[[DXR:.*]] = blu.reshape %[[S]]#2 [12, 8]
// CHECK: blu.return %[[MEAN]], %[[DXR]], %[[S]]#1
blu.step @train program(train) (%w: tensor<16x8xf32> {blu.tensor = {name = "w", role = "param"}},
                                %x: tensor<12x8xf32> {blu.tensor = {name = "x", role = "input"}},
                                %t: tensor<12xi32> {blu.tensor = {name = "t", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}, tensor<12x8xf32> {blu.tensor = {name = "dx", role = "output"}}, tensor<16x8xf32> {blu.tensor = {name = "dw", role = "output"}}) {
  %z = blu.linear %x, %w : (tensor<12x8xf32>, tensor<16x8xf32>) -> tensor<12x16xf32>
  %l = blu.cross_entropy %z, %t ignore_index = -100 reduction(mean) : (tensor<12x16xf32>, tensor<12xi32>) -> tensor<f32>
  %one = blu.constant dense<1.0> : tensor<f32>
  %n = blu.constant dense<12.0> : tensor<f32>
  %g = blu.div %one, %n : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %dz = blu.cross_entropy_grad %z, %t, %g ignore_index = -100 : (tensor<12x16xf32>, tensor<12xi32>, tensor<f32>) -> tensor<12x16xf32>
  %dx = blu.matmul %dz, %w : (tensor<12x16xf32>, tensor<16x8xf32>) -> tensor<12x8xf32>
  %dw = blu.matmul %dz, %x trans_a : (tensor<12x16xf32>, tensor<12x8xf32>) -> tensor<16x8xf32>
  blu.return %l, %dx, %dw : tensor<f32>, tensor<12x8xf32>, tensor<16x8xf32>
}

// -----

// 7 rows are a chunk of 4 and a rest of 3; a loss by row is collected.
// CHECK-LABEL: blu.step @eval
// CHECK: %[[S:.*]] = blu.stack "loss_head" [0 to 1]
// CHECK: blu.cross_entropy {{.*}} reduction(none) : (tensor<4x16xf32>
// CHECK: %[[REST:.*]] = blu.cross_entropy {{.*}} reduction(none) : (tensor<3x16xf32>
// CHECK: %[[BULK:.*]] = blu.reshape %[[S]] [4]
// CHECK: blu.concat dim = 0 %[[BULK]], %[[REST]]
blu.step @eval program(eval) (%w: tensor<16x8xf32> {blu.tensor = {name = "w", role = "param"}},
                              %x: tensor<7x8xf32> {blu.tensor = {name = "x", role = "input"}},
                              %t: tensor<7xi32> {blu.tensor = {name = "t", role = "input"}})
    -> (tensor<7xf32> {blu.tensor = {name = "token_loss", role = "output"}}) {
  %z = blu.linear %x, %w : (tensor<7x8xf32>, tensor<16x8xf32>) -> tensor<7x16xf32>
  %l = blu.cross_entropy %z, %t ignore_index = -100 reduction(none) : (tensor<7x16xf32>, tensor<7xi32>) -> tensor<7xf32>
  blu.return %l : tensor<7xf32>
}

// -----

// Logits that are needed elsewhere stay.
// CHECK-LABEL: blu.step @eval
// CHECK-NOT: blu.stack
// CHECK: blu.linear {{.*}} -> tensor<12x16xf32>
blu.step @eval program(eval) (%w: tensor<16x8xf32> {blu.tensor = {name = "w", role = "param"}},
                              %x: tensor<12x8xf32> {blu.tensor = {name = "x", role = "input"}},
                              %t: tensor<12xi32> {blu.tensor = {name = "t", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}, tensor<12x16xf32> {blu.tensor = {name = "logits", role = "output"}}) {
  %z = blu.linear %x, %w : (tensor<12x8xf32>, tensor<16x8xf32>) -> tensor<12x16xf32>
  %l = blu.cross_entropy %z, %t ignore_index = -100 reduction(mean) : (tensor<12x16xf32>, tensor<12xi32>) -> tensor<f32>
  blu.return %l, %z : tensor<f32>, tensor<12x16xf32>
}

// -----

// Targets that are made after the logits move before the head.
// CHECK-LABEL: blu.step @eval
// CHECK: %[[T:.*]] = blu.reshape %t [12]
// CHECK: blu.stack "loss_head" [0 to 3]
blu.step @eval program(eval) (%w: tensor<16x8xf32> {blu.tensor = {name = "w", role = "param"}},
                              %x: tensor<12x8xf32> {blu.tensor = {name = "x", role = "input"}},
                              %t: tensor<3x4xi32> {blu.tensor = {name = "t", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  %z = blu.linear %x, %w : (tensor<12x8xf32>, tensor<16x8xf32>) -> tensor<12x16xf32>
  %t1 = blu.reshape %t [12] : (tensor<3x4xi32>) -> tensor<12xi32>
  %l = blu.cross_entropy %z, %t1 ignore_index = -100 reduction(sum) : (tensor<12x16xf32>, tensor<12xi32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}

// -----

// A head without columns has no chunks.
// CHECK-LABEL: blu.step @eval
// CHECK-NOT: blu.stack
blu.step @eval program(eval) (%w: tensor<0x8xf32> {blu.tensor = {name = "w", role = "param"}},
                              %x: tensor<12x8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<12x0xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %z = blu.linear %x, %w : (tensor<12x8xf32>, tensor<0x8xf32>) -> tensor<12x0xf32>
  blu.return %z : tensor<12x0xf32>
}

// -----

// bf16 logits and cotangents; losses and the weight's gradient are added up in f32.
// CHECK-LABEL: blu.step @bf16
// CHECK: %[[S:.*]]:3 = blu.stack "loss_head" [0 to 2] {{.*}} -> (tensor<f32>, tensor<16x8xf32>, tensor<2x8x8xbf16>)
// CHECK: %[[Z:.*]] = blu.linear {{.*}} -> tensor<8x16xbf16>
// CHECK: blu.cross_entropy %[[Z]], {{.*}} -> tensor<f32>
// CHECK: %[[DZ:.*]] = blu.cross_entropy_grad %[[Z]], {{.*}} -> tensor<8x16xbf16>
// CHECK: blu.matmul %[[DZ]], %w : {{.*}} -> tensor<8x8xbf16>
// CHECK: blu.matmul %[[DZ]], %{{.*}} trans_a wide : {{.*}} -> tensor<16x8xf32>
blu.step @bf16 program(train) (%w: tensor<16x8xbf16> {blu.tensor = {name = "w", role = "param"}},
                               %x: tensor<16x8xbf16> {blu.tensor = {name = "x", role = "input"}},
                               %t: tensor<16xi32> {blu.tensor = {name = "t", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}, tensor<16x8xbf16> {blu.tensor = {name = "dx", role = "output"}}, tensor<16x8xf32> {blu.tensor = {name = "dw", role = "output"}}) {
  %z = blu.linear %x, %w : (tensor<16x8xbf16>, tensor<16x8xbf16>) -> tensor<16x16xbf16>
  %l = blu.cross_entropy %z, %t ignore_index = -100 reduction(sum) : (tensor<16x16xbf16>, tensor<16xi32>) -> tensor<f32>
  %one = blu.constant dense<1.0> : tensor<f32>
  %dz = blu.cross_entropy_grad %z, %t, %one ignore_index = -100 : (tensor<16x16xbf16>, tensor<16xi32>, tensor<f32>) -> tensor<16x16xbf16>
  %dx = blu.matmul %dz, %w : (tensor<16x16xbf16>, tensor<16x8xbf16>) -> tensor<16x8xbf16>
  %dw = blu.matmul %dz, %x trans_a wide : (tensor<16x16xbf16>, tensor<16x8xbf16>) -> tensor<16x8xf32>
  blu.return %l, %dx, %dw : tensor<f32>, tensor<16x8xbf16>, tensor<16x8xf32>
}
