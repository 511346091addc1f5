// RUN: bt-opt %s -split-input-file -verify-diagnostics -blu-vjp | FileCheck %s
// RUN: not bt-opt %s -split-input-file -blu-vjp="recompute=all" 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: error: recompute is 'all', expected views or cheap

// CHECK-LABEL: blu.step @vjp program(vjp)
// CHECK-SAME: %w: tensor<3xf32> {blu.tensor = {{{.*}}name = "w", role = "param"}}
// CHECK-SAME: %x: tensor<3xf32> {blu.tensor = {name = "x", role = "input"}}
// CHECK-SAME: %[[G:[a-zA-Z0-9_.]+]]: tensor<3xf32> {blu.tensor = {name = "gout.y", role = "input"}}
// CHECK-SAME: name = "y", role = "output"
// CHECK-SAME: name = "gin.w"
// CHECK-SAME: name = "gin.x"
// CHECK: %[[Y:.*]] = blu.mul %x, %w
// CHECK: %[[GX:.*]] = blu.mul %[[G]], %w
// CHECK: %[[GW:.*]] = blu.mul %[[G]], %x
// CHECK: blu.return %[[Y]], %[[GW]], %[[GX]]
blu.model @m(%x: tensor<3xf32> {blu.name = "x"}) -> (tensor<3xf32> {blu.name = "y"}) {
  %w = blu.param "w" init(#blu.ones) : tensor<3xf32>
  %y = blu.mul %x, %w : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  blu.return %y : tensor<3xf32>
}

// -----

// expected-error @below {{'blu.model' op has an argument of type 'tensor<?xf32>', expected static shapes}}
blu.model @m(%x: tensor<?xf32> {blu.name = "x"}) -> (tensor<?xf32> {blu.name = "y"}) {
  blu.return %x : tensor<?xf32>
}
