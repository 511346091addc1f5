// RUN: bt-opt %s -blu-seed-sharding="mesh=dp=2" | FileCheck %s
// RUN: not bt-opt %s -blu-seed-sharding="mesh=dp=0" 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not bt-opt %s -blu-seed-sharding="mesh=xp=2" 2>&1 | FileCheck %s --check-prefix=AXIS
// RUN: not bt-opt %s -blu-seed-sharding="mesh=dp=2,dp=4" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not bt-opt %s -blu-seed-sharding="mesh=tp=2" 2>&1 | FileCheck %s --check-prefix=BUILT

// SIZE: error: mesh 'dp=0': expected a size from 1 to 1048576 for dp, got '0'
// AXIS: error: mesh 'xp=2': expected axes dp, tp, pp or cp, got 'xp'
// TWICE: error: mesh 'dp=2,dp=4': repeats dp
// BUILT: error: mesh 'tp=2': axis tp is not supported yet, expected dp alone

// The batch of inputs is cut, and a mean is of what is counted on all devices.
// CHECK: module attributes {blu.mesh = {dp = 2 : i64}}
// CHECK-LABEL: blu.step @train
// CHECK-SAME: %w: tensor<3x4xf32> {blu.tensor = {name = "w", role = "param"}}
// CHECK-SAME: blu.sharding = {dims = {{\[}}["dp"], []]}
// CHECK: %[[S:.*]] = blu.cross_entropy %{{.*}} reduction(sum)
// CHECK: %[[N:.*]] = blu.reduce_sum
// CHECK: blu.div %[[S]], %[[N]]
blu.step @train program(train) (%w: tensor<3x4xf32> {blu.tensor = {name = "w", role = "param"}},
    %x: tensor<8x4xf32> {blu.tensor = {name = "x", role = "input"}},
    %t: tensor<8xi32> {blu.tensor = {name = "t", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}) {
  %y = blu.linear %x, %w : (tensor<8x4xf32>, tensor<3x4xf32>) -> tensor<8x3xf32>
  %l = blu.cross_entropy %y, %t ignore_index = -100 reduction(mean) : (tensor<8x3xf32>, tensor<8xi32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}
// With microbatches the batch is dim 1.
// CHECK-LABEL: blu.step @more
// CHECK-SAME: blu.sharding = {dims = {{\[}}[], ["dp"], []]}
blu.step @more program(train) (%x: tensor<2x8x4xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<2x8x4xf32> {blu.tensor = {name = "y", role = "output"}})
    attributes {blurt.entry = {batch = 8 : i64, microbatches = 2 : i64, seq = 0 : i64}} {
  blu.return %x : tensor<2x8x4xf32>
}
// Generation runs on one device.
// CHECK-LABEL: blu.step @decode
// CHECK-NOT: blu.sharding
blu.step @decode program(decode) (%x: tensor<8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<8xf32> {blu.tensor = {name = "y", role = "output"}}) {
  blu.return %x : tensor<8xf32>
}
