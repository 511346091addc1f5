// RUN: bt-opt %s -blu-append-optimizer | FileCheck %s
// RUN: bt-opt %s -blu-append-optimizer="optimizer=sgd" | FileCheck %s --check-prefix=SGD
// RUN: not bt-opt %s -blu-append-optimizer="optimizer=lion" 2>&1 | FileCheck %s --check-prefix=BAD

// CHECK-LABEL: blu.step @train
// CHECK-SAME: role = "moment1"
// CHECK-SAME: role = "moment2"
// CHECK-SAME: tensor<2x3xf32> {blu.donates = 0 : i64}
// CHECK-SAME: tensor<f32> {blu.tensor = {name = "grad_norm", role = "output"}}
// CHECK: %[[N:.*]] = blu.global_norm %gw, %gb
// CHECK: %[[S:.*]] = blu.clip_scale %[[N]], %clip
// CHECK: %[[GW:.*]] = blu.mul %gw, %[[S]]
// CHECK: blu.adamw %w, %[[GW]], {{.*}} decay : tensor<2x3xf32>
// CHECK: %[[GB:.*]] = blu.mul %gb, %[[S]]
// CHECK: blu.adamw %b, %[[GB]], {{.*}} weight_decay %weight_decay : tensor<3xf32>

// SGD-LABEL: blu.step @train
// SGD-NOT: role = "moment2"
// SGD: blu.sgd %w, {{.*}} momentum %momentum weight_decay %weight_decay decay : tensor<2x3xf32>

// BAD: error: optimizer is 'lion', expected adamw or sgd
blu.step @train program(train) (%w: tensor<2x3xf32> {blu.tensor = {name = "w", role = "param", decay}},
                                %b: tensor<3xf32> {blu.tensor = {name = "b", role = "param"}},
                                %gw: tensor<2x3xf32> {blu.tensor = {name = "gw", role = "input"}},
                                %gb: tensor<3xf32> {blu.tensor = {name = "gb", role = "input"}})
    -> (tensor<2x3xf32> {blu.tensor = {name = "w", role = "gradient"}}, tensor<3xf32> {blu.tensor = {name = "b", role = "gradient"}}) {
  blu.return %gw, %gb : tensor<2x3xf32>, tensor<3xf32>
}
