// RUN: bt-opt %s -blu-hoist-casts | FileCheck %s

// The cast of a slice, in a nested region too, becomes the slice of a cast; that
// of a carried value stays.
// CHECK-LABEL: func.func @hoist
// CHECK-SAME: (%[[X:.*]]: tensor<8xf32>, %[[WS:.*]]: tensor<4x8xf32>)
// CHECK: %[[VS:.*]] = blu.cast %[[WS]] : tensor<4x8xf32> to tensor<4x8xbf16>
// CHECK: blu.stack "s" {{.*}} carry(%[[H:.*]] = %[[X]]) slices(%{{.*}} = %[[WS]], %[[V:.*]] = %[[VS]])
// CHECK-NEXT: %[[H16:.*]] = blu.cast %[[H]]
// CHECK-NEXT: blu.checkpoint
// CHECK-NEXT: blu.mul %[[H16]], %[[V]]
func.func @hoist(%x: tensor<8xf32>, %ws: tensor<4x8xf32>) -> tensor<8xf32> {
  %y = blu.stack "s" [0 to 4] iteration(%i) carry(%h = %x) slices(%w = %ws) : (tensor<8xf32>, tensor<4x8xf32>) -> tensor<8xf32> {
    %g = blu.cast %h : tensor<8xf32> to tensor<8xbf16>
    %m = blu.checkpoint -> tensor<8xbf16> {
      %v = blu.cast %w : tensor<8xf32> to tensor<8xbf16>
      %p = blu.mul %g, %v : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xbf16>
      blu.yield %p : tensor<8xbf16>
    }
    %n = blu.cast %m : tensor<8xbf16> to tensor<8xf32>
    blu.yield %n : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}
