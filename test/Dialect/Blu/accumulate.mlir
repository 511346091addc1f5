// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @accumulate(
// CHECK-SAME: %[[XS:.+]]: tensor<2x8xf32>
// CHECK: blu.accumulate [2] iteration(%[[K:.+]]) slices(%[[X:.+]] = %[[XS]]) : (tensor<2x8xf32>) -> tensor<8xf32> {
// CHECK-NEXT: %[[C:.+]] = blu.cast %[[K]] : tensor<i64> to tensor<f32>
// CHECK-NEXT: %[[P:.+]] = blu.mul %[[X]], %[[C]]
// CHECK-NEXT: blu.yield %[[P]] : tensor<8xf32>
func.func @accumulate(%xs: tensor<2x8xf32>) {
  %s = blu.accumulate [2] iteration(%k) slices(%x = %xs) : (tensor<2x8xf32>) -> tensor<8xf32> {
    %c = blu.cast %k : tensor<i64> to tensor<f32>
    %p = blu.mul %x, %c : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
    blu.yield %p : tensor<8xf32>
  }
  return
}

// CHECK-LABEL: func.func @accumulate_without_slices(
// CHECK-SAME: %[[X:.+]]: tensor<i64>
// CHECK: blu.accumulate [3] iteration(%{{.+}}) : () -> (tensor<i64>, tensor<i64>) {
// CHECK-NEXT: blu.yield %[[X]], %[[X]] : tensor<i64>, tensor<i64>
func.func @accumulate_without_slices(%x: tensor<i64>) {
  %s:2 = blu.accumulate [3] : () -> (tensor<i64>, tensor<i64>) {
    blu.yield %x, %x : tensor<i64>, tensor<i64>
  }
  return
}
