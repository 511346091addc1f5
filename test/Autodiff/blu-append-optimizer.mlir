// RUN: bt-opt %s -blu-append-optimizer | FileCheck %s
// RUN: bt-opt %s -blu-append-optimizer="optimizer=sgd" | FileCheck %s --check-prefix=SGD
// RUN: not bt-opt %s -blu-append-optimizer="optimizer=lion" 2>&1 | FileCheck %s --check-prefix=BAD

// RUN: bt-opt %s -blu-append-optimizer="groups=w:lr=0.5:decay=2,?:decay=3" | FileCheck %s --check-prefix=GROUP
// RUN: not bt-opt %s -blu-append-optimizer="groups=q*:lr=0.5" 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not bt-opt %s -blu-append-optimizer="groups=w:lr=-1" 2>&1 | FileCheck %s --check-prefix=FACTOR

// CHECK-LABEL: blu.step @train
// CHECK-SAME: role = "moment1"
// CHECK-SAME: role = "moment2"
// CHECK-SAME: tensor<2x3xf32> {blu.donates = 0 : i64}
// CHECK-SAME: tensor<f32> {blu.tensor = {name = "grad_norm", role = "output"}}
// CHECK-SAME: tensor<i1> {blu.tensor = {name = "applied", role = "output"}}
// CHECK: %[[N:.*]] = blu.global_norm %gw, %gb
// CHECK: %[[S:.*]] = blu.clip_scale %[[N]], %clip
// CHECK: %[[LOSS:.*]] = blu.cast %loss
// CHECK: %[[ABOVE:.*]] = blu.compare gt %[[LOSS]],
// CHECK: %[[FINITE:.*]] = blu.select %[[ABOVE]], %[[LOSS]],
// CHECK: %[[BELOW:.*]] = blu.compare lt %[[FINITE]], %loss_limit
// CHECK: %[[NUMBER:.*]] = blu.select %[[BELOW]],
// CHECK: %[[OK:.*]] = blu.compare lt %[[NUMBER]], %norm_limit
// CHECK: %[[MORE:.*]] = blu.add %moment1.updates, %{{.*}} : (tensor<i64>, tensor<i64>) -> tensor<i64>
// CHECK: %[[T:.*]] = blu.select %[[OK]], %[[MORE]], %moment1.updates
// CHECK: %[[GW:.*]] = blu.mul %gw, %[[S]]
// CHECK: blu.adamw %w, %[[GW]], {{.*}} step %[[T]] {{.*}} decay when %[[OK]] : tensor<2x3xf32>
// CHECK: %[[GB:.*]] = blu.mul %gb, %[[S]]
// CHECK: blu.adamw %b, %[[GB]], {{.*}} step %[[T]] {{.*}} weight_decay %weight_decay when %[[OK]] : tensor<3xf32>

// SGD-LABEL: blu.step @train
// SGD-NOT: role = "moment2"
// SGD-NOT: updates
// SGD: blu.sgd %w, {{.*}} momentum %momentum weight_decay %weight_decay decay when %{{.*}} : tensor<2x3xf32>

// The last group wins, for each factor by itself.
// GROUP: %[[HALF:.*]] = blu.constant dense<5.000000e-01> : tensor<f64>
// GROUP: %[[LR:.*]] = blu.mul %lr, %[[HALF]]
// GROUP: %[[THREE:.*]] = blu.constant dense<3.000000e+00> : tensor<f64>
// GROUP: %[[DECAY:.*]] = blu.mul %weight_decay, %[[THREE]]
// GROUP: blu.adamw %w, {{.*}} lr %[[LR]] {{.*}} weight_decay %[[DECAY]] decay
// GROUP: blu.adamw %b, {{.*}} lr %lr {{.*}} weight_decay %[[DECAY]] decay
// NONE: error: group 'q*:lr=0.5' matches no parameter
// FACTOR: error: group 'w:lr=-1': expected a factor of at least 0 for lr, got '-1'

// BAD: error: optimizer is 'lion', expected adamw or sgd
blu.step @train program(train) (%w: tensor<2x3xf32> {blu.tensor = {name = "w", role = "param", decay}},
                                %b: tensor<3xf32> {blu.tensor = {name = "b", role = "param"}},
                                %gw: tensor<2x3xf32> {blu.tensor = {name = "gw", role = "input"}},
                                %gb: tensor<3xf32> {blu.tensor = {name = "gb", role = "input"}},
                                %loss: tensor<f32> {blu.tensor = {name = "loss", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}}, tensor<2x3xf32> {blu.tensor = {name = "w", role = "gradient"}}, tensor<3xf32> {blu.tensor = {name = "b", role = "gradient"}}) {
  blu.return %loss, %gw, %gb : tensor<f32>, tensor<2x3xf32>, tensor<3xf32>
}
