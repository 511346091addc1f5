// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: func.func @yield(
// CHECK-SAME: %[[X:.+]]: tensor<8xf32>
// CHECK: blu.yield %[[X]], %[[X]] : tensor<8xf32>, tensor<8xf32>
// CHECK: blu.yield{{$}}
func.func @yield(%x: tensor<8xf32>) {
  %y:2 = blu.checkpoint -> tensor<8xf32>, tensor<8xf32> {
    blu.yield %x, %x : tensor<8xf32>, tensor<8xf32>
  }
  blu.checkpoint {
    blu.yield
  }
  return
}
