// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @constant(
// CHECK: blu.constant dense<5.000000e-01> : tensor<f32>
// CHECK: blu.constant dense<[1, 2, 3]> : tensor<3xi64>
// CHECK: blu.constant dense<[true, false]> : tensor<2xi1>
func.func @constant() {
  %y = blu.constant dense<5.000000e-01> : tensor<f32>
  %z = blu.constant dense<[1, 2, 3]> : tensor<3xi64>
  %m = blu.constant dense<[true, false]> : tensor<2xi1>
  return
}
