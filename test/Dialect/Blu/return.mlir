// RUN: bt-opt %s | bt-opt | FileCheck %s
// RUN: bt-opt %s --emit-bytecode | bt-opt | FileCheck %s

// CHECK-LABEL: blu.model @values(
// CHECK-SAME: %[[X:.+]]: tensor<?xf32> {
// CHECK: blu.return %[[X]], %[[X]] : tensor<?xf32>, tensor<?xf32>
blu.model @values(%x: tensor<?xf32> {blu.name = "x"})
    -> (tensor<?xf32> {blu.name = "y"}, tensor<?xf32> {blu.name = "z"}) {
  blu.return %x, %x : tensor<?xf32>, tensor<?xf32>
}

// CHECK-LABEL: blu.model @nothing(
// CHECK: blu.return{{$}}
blu.model @nothing(%x: tensor<?xf32> {blu.name = "x"}) {
  blu.return
}
