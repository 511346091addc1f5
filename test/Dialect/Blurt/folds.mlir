// RUN: bt-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: func.func @reshapes
// CHECK-SAME: (%[[X:.*]]: tensor<4x6xf32>)
func.func @reshapes(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<2x12xf32>) {
  %a = blurt.reshape %x : tensor<4x6xf32> to tensor<24xf32>
  %b = blurt.reshape %a : tensor<24xf32> to tensor<4x6xf32>
  %c = blurt.reshape %a : tensor<24xf32> to tensor<2x12xf32>
  // CHECK-NEXT: %[[C:.*]] = blurt.reshape %[[X]] : tensor<4x6xf32> to tensor<2x12xf32>
  // CHECK-NEXT: return %[[X]], %[[C]]
  return %b, %c : tensor<4x6xf32>, tensor<2x12xf32>
}
