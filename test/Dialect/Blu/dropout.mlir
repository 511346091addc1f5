// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @dropout(
// CHECK-SAME: %[[X:.+]]: tensor<8x64xf32>, %[[K:.+]]: tensor<i64>
// CHECK: blu.dropout %[[X]] key %[[K]] rate = 1.000000e-01 : tensor<8x64xf32>
// CHECK: blu.dropout %[[X]] rate = 0.000000e+00 : tensor<8x64xf32>
func.func @dropout(%x: tensor<8x64xf32>, %k: tensor<i64>) {
  %y = blu.dropout %x key %k rate = 1.000000e-01 : tensor<8x64xf32>
  %z = blu.dropout %x rate = 0.000000e+00 : tensor<8x64xf32>
  return
}
