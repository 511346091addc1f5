// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @softmax(
// CHECK-SAME: %[[X:.+]]: tensor<?x64xf32>
// CHECK: blu.softmax %[[X]] dim = 1 : tensor<?x64xf32>
func.func @softmax(%x: tensor<?x64xf32>) {
  %y = blu.softmax %x dim = 1 : tensor<?x64xf32>
  return
}
