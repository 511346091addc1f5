// RUN: bt-opt %s -blu-differentiate="microbatches=4" | FileCheck %s
// RUN: bt-opt %s -blu-differentiate="microbatches=4" -blu-accumulate-gradients="microbatches=4" -canonicalize | FileCheck %s --check-prefix=SUM
// RUN: bt-opt %s -blu-differentiate | FileCheck %s --check-prefix=ONE

// The mean becomes this microbatch's sum over the count of all, times their number; the
// loss is divided by that again.
// CHECK-LABEL: blu.step @train
// CHECK-SAME: %counted0: tensor<f32> {blu.tensor = {name = "counted0", role = "scalar"}}
// CHECK-SAME: tensor<f32> {blu.tensor = {name = "counted0", role = "count"}}
// CHECK: %[[COUNTED:.*]] = blu.compare ne %t, %{{.*}}
// CHECK: %[[ONES:.*]] = blu.cast %[[COUNTED]] : tensor<6xi1> to tensor<6xf32>
// CHECK: %[[S:.*]] = blu.cross_entropy %{{.*}}, %t ignore_index = -100 reduction(sum)
// CHECK: %[[FOUR:.*]] = blu.constant dense<4.000000e+00>
// CHECK: %[[PART:.*]] = blu.div %[[FOUR]], %counted0
// CHECK: blu.mul %[[S]], %[[PART]]
// CHECK: %[[N:.*]] = blu.reduce_sum %[[ONES]] [0]
// CHECK: blu.constant dense<2.500000e-01>

// The counts come first, in a loop of their own; scalar and result are gone.
// SUM-LABEL: blu.step @train
// SUM-NOT: counted0
// SUM: %[[ALL:.*]] = blu.accumulate [4] iteration({{.*}}) slices({{.*}}%[[T:[^ ]*]] = %t)
// SUM-NEXT: blu.compare ne %[[T]], %{{.*}}
// SUM-NEXT: blu.cast
// SUM-NEXT: %[[COUNT:.*]] = blu.reduce_sum
// SUM-NEXT: blu.yield %[[COUNT]]
// SUM: blu.accumulate [4]
// SUM: blu.div %{{.*}}, %[[ALL]]
// SUM: blu.yield

// ONE-LABEL: blu.step @train
// ONE-NOT: counted0
// ONE: reduction(mean)
blu.step @train program(train) (%w: tensor<3x2xf32> {blu.tensor = {name = "w", role = "param"}},
                                %x: tensor<6x2xf32> {blu.tensor = {name = "x", role = "input"}},
                                %t: tensor<6xi32> {blu.tensor = {name = "t", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "loss", role = "output"}})
    attributes {blurt.entry = {batch = 6 : i64, microbatches = 1 : i64, seq = 0 : i64}} {
  %z = blu.linear %x, %w : (tensor<6x2xf32>, tensor<3x2xf32>) -> tensor<6x3xf32>
  %l = blu.cross_entropy %z, %t ignore_index = -100 reduction(mean) : (tensor<6x3xf32>, tensor<6xi32>) -> tensor<f32>
  blu.return %l : tensor<f32>
}
