// RUN: bt-opt %s --convert-blu-to-blurt | FileCheck %s

// CHECK-LABEL: func.func @stack
// CHECK: %[[L:.*]]:2 = blurt.loop "block" count 2 reverse carry(%{{.*}} : tensor<3x4xf32>) slice(%{{.*}} : tensor<2x4x4xf32>) -> (tensor<3x4xf32>, tensor<2x3x4xf32>)
// CHECK: ^bb0(%{{.*}}: tensor<i64>, %[[H:.*]]: tensor<3x4xf32>, %[[W:.*]]: tensor<4x4xf32>):
// CHECK: %[[Y:.*]] = blurt.gemm %[[H]], %[[W]]
// CHECK: blurt.loop_yield %[[Y]], %[[H]]
// CHECK: return %[[L]]#0, %[[L]]#1

blu.step @stack program(train) (%x: tensor<3x4xf32> {blu.tensor = {name = "x", role = "input"}}, %w: tensor<2x4x4xf32> {blu.tensor = {name = "w", role = "input"}})
    -> (tensor<3x4xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<2x3x4xf32> {blu.tensor = {name = "r1", role = "output"}}) {
  %0, %1 = blu.stack "block" [3 to 5] iteration(%i) carry(%h = %x) slices(%v = %w) reverse : (tensor<3x4xf32>, tensor<2x4x4xf32>) -> (tensor<3x4xf32>, tensor<2x3x4xf32>) {
    %y = blu.matmul %h, %v : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
    blu.yield %y, %h : tensor<3x4xf32>, tensor<3x4xf32>
  }
  blu.return %0, %1 : tensor<3x4xf32>, tensor<2x3x4xf32>
}

// Sums over microbatches are carried; products are added to them directly.
// CHECK-LABEL: func.func @accumulate
// CHECK: blurt.group "fill" domain [4, 5]
// CHECK: blurt.group "fill" domain [3, 4]
// CHECK: blurt.loop "accumulate" count 2
// CHECK: ^bb0(%{{.*}}: tensor<i64>, %[[S:[^:]*]]: tensor<4x5xf32>, %[[T:[^:]*]]: tensor<3x4xf32>,
// CHECK: %[[P:.*]] = blurt.gemm %{{.*}} transposed, %{{.*}} plus %[[S]]
// CHECK: %[[Q:.*]] = blurt.group "accumulate" {{.*}} ins(%[[T]]
// CHECK: blurt.loop_yield %[[P]], %[[Q]]

blu.step @accumulate program(train) (%x: tensor<2x3x4xf32> {blu.tensor = {name = "x", role = "input"}}, %y: tensor<2x3x5xf32> {blu.tensor = {name = "y", role = "input"}})
    -> (tensor<4x5xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<3x4xf32> {blu.tensor = {name = "r1", role = "output"}}) {
  %0, %1 = blu.accumulate [2] iteration(%k) slices(%a = %x, %b = %y) : (tensor<2x3x4xf32>, tensor<2x3x5xf32>) -> (tensor<4x5xf32>, tensor<3x4xf32>) {
    %p = blu.matmul %a, %b trans_a : (tensor<3x4xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
    %e = blu.exp %a : tensor<3x4xf32>
    blu.yield %p, %e : tensor<4x5xf32>, tensor<3x4xf32>
  }
  blu.return %0, %1 : tensor<4x5xf32>, tensor<3x4xf32>
}

// One microbatch needs no loop; a checkpoint's region is inlined.
// CHECK-LABEL: func.func @once
// CHECK-NOT: blurt.loop
// CHECK: blurt.reshape %{{.*}} : tensor<1x3xf32> to tensor<3xf32>
// CHECK: blurt.group "exp"
// CHECK: return

blu.step @once program(train) (%x: tensor<1x3xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3xf32> {blu.tensor = {name = "r0", role = "output"}}) {
  %0 = blu.accumulate [1] iteration(%k) slices(%a = %x) : (tensor<1x3xf32>) -> (tensor<3xf32>) {
    %c = blu.checkpoint -> tensor<3xf32> {
      %e = blu.exp %a : tensor<3xf32>
      blu.yield %e : tensor<3xf32>
    }
    blu.yield %c : tensor<3xf32>
  }
  blu.return %0 : tensor<3xf32>
}

// Views; what no strides express is copied first.
// CHECK-LABEL: func.func @views
// CHECK: %[[T:.*]] = blurt.transpose %{{.*}} [1, 0, 2]
// CHECK: %[[C:.*]] = blurt.group "copy" {{.*}} ins(%[[T]]
// CHECK: blurt.reshape %[[C]] : tensor<3x2x4xf32> to tensor<3x8xf32>
// CHECK: blurt.slice %{{.*}} [0, 0, 0]
// CHECK: blurt.slice %{{.*}} [0, 0, 1]
// CHECK: blurt.concat dim = 2

blu.step @views program(train) (%x: tensor<2x3x4xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<3x8xf32> {blu.tensor = {name = "r0", role = "output"}}, tensor<2x3x4xf32> {blu.tensor = {name = "r1", role = "output"}}) {
  %t = blu.transpose %x [1, 0, 2] : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %0 = blu.reshape %t [3, 8] : (tensor<3x2x4xf32>) -> tensor<3x8xf32>
  %a, %b = blu.split %x dim = 2 [1, 3] : (tensor<2x3x4xf32>) -> (tensor<2x3x1xf32>, tensor<2x3x3xf32>)
  %1 = blu.concat dim = 2 %b, %a : (tensor<2x3x3xf32>, tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
  blu.return %0, %1 : tensor<3x8xf32>, tensor<2x3x4xf32>
}
