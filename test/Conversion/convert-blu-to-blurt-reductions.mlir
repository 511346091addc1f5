// RUN: bt-opt %s --convert-blu-to-blurt | FileCheck %s

// Neighbouring dims of one kind are one dim of the domain, extents of 1 go.
// CHECK-DAG: #[[OUTER:.*]] = affine_map<(d0, d1) -> (d0)>
// CHECK-LABEL: func.func @rows
// CHECK: %[[X:.*]] = blurt.reshape %{{.*}} : tensor<2x3x1x4x5xf32> to tensor<6x20xf32>
// CHECK: %[[Y:.*]] = blurt.group "reduce_sum" domain [6, 20] reduce [1] ins(%[[X]] {{.*}}) outs([#[[OUTER]]]) -> tensor<6xf32>
// CHECK: blurt.reduce sum
// CHECK: blurt.reshape %[[Y]] : tensor<6xf32> to tensor<2x3xf32>

blu.step @rows program(train) (%x: tensor<2x3x1x4x5xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<2x3xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.reduce_sum %x [2, 3, 4] : (tensor<2x3x1x4x5xf32>) -> tensor<2x3xf32>
  blu.return %0 : tensor<2x3xf32>
}

// A big full reduction is done in two groups, by its shape alone.
// CHECK-LABEL: func.func @full
// CHECK: %[[P:.*]] = blurt.group "reduce_mean_partial" domain [512, 768] reduce [1] {{.*}} -> tensor<512xf32>
// CHECK: blurt.group "reduce_mean" domain [512] reduce [0] ins(%[[P]]
// CHECK: %[[S:.*]] = blurt.reduce sum
// CHECK: arith.divf %[[S]]

blu.step @full program(train) (%x: tensor<512x768xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.reduce_mean %x [0, 1] : (tensor<512x768xf32>) -> tensor<f32>
  blu.return %0 : tensor<f32>
}

// Integers are added as i64.
// CHECK-LABEL: func.func @integers
// CHECK: arith.extsi %{{.*}} : i32 to i64
// CHECK: blurt.reduce sum %{{.*}} : i64
// CHECK: arith.trunci %{{.*}} : i64 to i32

blu.step @integers program(train) (%x: tensor<3x7xi32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3xi32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.reduce_sum %x [1] : (tensor<3x7xi32>) -> tensor<3xi32>
  blu.return %0 : tensor<3xi32>
}

// Nothing to reduce: a view.
// CHECK-LABEL: func.func @unit
// CHECK-NOT: blurt.group "
// CHECK: blurt.reshape

blu.step @unit program(train) (%x: tensor<3x1xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.reduce_max %x [1] : (tensor<3x1xf32>) -> tensor<3xf32>
  blu.return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @softmax_columns
// CHECK: blurt.group "softmax" domain [3, 5, 2] reduce [1]
// CHECK: %[[M:.*]] = blurt.reduce max
// CHECK: %[[D:.*]] = arith.subf %{{.*}}, %[[M]]
// CHECK: %[[E:.*]] = math.exp %[[D]]
// CHECK: %[[S:.*]] = blurt.reduce sum %[[E]]
// CHECK: %[[R:.*]] = arith.divf %{{.*}}, %[[S]]
// CHECK: arith.mulf %[[E]], %[[R]]

blu.step @softmax_columns program(train) (%x: tensor<3x5x2xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3x5x2xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.softmax %x dim = 1 : tensor<3x5x2xf32>
  blu.return %0 : tensor<3x5x2xf32>
}

// The variance is taken around the mean.
// CHECK-LABEL: func.func @layer_norm
// CHECK: blurt.group "layer_norm" domain [6, 8] reduce [1]
// CHECK: %[[S:.*]] = blurt.reduce sum
// CHECK: %[[M:.*]] = arith.divf %[[S]]
// CHECK: %[[D:.*]] = arith.subf %{{.*}}, %[[M]]
// CHECK: %[[Q:.*]] = arith.mulf %[[D]], %[[D]]
// CHECK: blurt.reduce sum %[[Q]]

blu.step @layer_norm program(train) (%x: tensor<2x3x8xf32> {blu.tensor = {name = "x", role = "input"}}, %w: tensor<8xf32> {blu.tensor = {name = "w", role = "input"}}, %b: tensor<8xf32> {blu.tensor = {name = "b", role = "input"}})
    -> (tensor<2x3x8xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.layer_norm %x, %w, %b eps = 1.0e-05 : (tensor<2x3x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x3x8xf32>
  blu.return %0 : tensor<2x3x8xf32>
}

// Its gradient: rows give dx and the statistics, columns dw and db.
// CHECK-LABEL: func.func @layer_norm_grad
// CHECK: %[[R:.*]]:3 = blurt.group "layer_norm_grad" domain [6, 8] reduce [1] {{.*}} -> (tensor<6x8xf32>, tensor<6xf32>, tensor<6xf32>)
// CHECK: blurt.group "layer_norm_grad_params" domain [6, 8] reduce [0] {{.*}}%[[R]]#1 {{.*}}%[[R]]#2 {{.*}} -> (tensor<8xf32>, tensor<8xf32>)

blu.step @layer_norm_grad program(train) (%x: tensor<6x8xf32> {blu.tensor = {name = "x", role = "input"}}, %w: tensor<8xf32> {blu.tensor = {name = "w", role = "input"}}, %g: tensor<6x8xf32> {blu.tensor = {name = "g", role = "input"}})
    -> (tensor<6x8xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<8xf32> {blu.tensor = {name = "r1", role = "output"}}, tensor<8xf32> {blu.tensor = {name = "r2", role = "output"}}) {
  %0, %1, %2 = blu.layer_norm_grad %x, %w, %g eps = 1.0e-05 : (tensor<6x8xf32>, tensor<8xf32>, tensor<6x8xf32>) -> (tensor<6x8xf32>, tensor<8xf32>, tensor<8xf32>)
  blu.return %0, %1, %2 : tensor<6x8xf32>, tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @cross_entropy
// CHECK: %[[L:.*]] = blurt.group "cross_entropy" domain [6, 9] reduce [1] {{.*}} tables(%{{.*}} : tensor<6x9xf32>) {{.*}} -> tensor<6xf32>
// CHECK: %[[I:.*]] = arith.cmpi eq
// CHECK: %[[C:.*]] = arith.select %[[I]], %{{.*}}, %{{.*}} : i64
// CHECK: blurt.load %{{.*}}[%{{.*}}, %[[C]]]
// CHECK: blurt.group "mean_loss" domain [6] reduce [0] ins(%[[L]]

blu.step @cross_entropy program(train) (%x: tensor<6x9xf32> {blu.tensor = {name = "x", role = "input"}}, %t: tensor<6xi32> {blu.tensor = {name = "t", role = "input"}})
    -> (tensor<f32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.cross_entropy %x, %t ignore_index = -100 reduction(mean) : (tensor<6x9xf32>, tensor<6xi32>) -> tensor<f32>
  blu.return %0 : tensor<f32>
}

// Padding is below every class, in the gradient and in the loss.
// CHECK-LABEL: func.func @cross_entropy_classes
// CHECK: blurt.group "cross_entropy_grad" domain [6, 16]
// CHECK: %[[IN:.*]] = arith.cmpi slt, %{{.*}}, %{{.*}} : i64
// CHECK: %[[LOWEST:.*]] = arith.constant 0xFF800000 : f32
// CHECK: %[[Z:.*]] = arith.select %[[IN]], %{{.*}}, %[[LOWEST]] : f32
// CHECK: %[[MAX:.*]] = blurt.reduce max %[[Z]]
// CHECK: arith.subf %[[Z]], %[[MAX]]

blu.step @cross_entropy_classes program(train) (%x: tensor<6x16xf32> {blu.tensor = {name = "x", role = "input"}}, %t: tensor<6xi32> {blu.tensor = {name = "t", role = "input"}}, %g: tensor<f32> {blu.tensor = {name = "g", role = "input"}})
    -> (tensor<6x16xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.cross_entropy_grad %x, %t, %g ignore_index = -100 classes = 9 : (tensor<6x16xf32>, tensor<6xi32>, tensor<f32>) -> tensor<6x16xf32>
  blu.return %0 : tensor<6x16xf32>
}
