// RUN: bt-opt %s --blurt-plan=debug-nonfinite=1 --blurt-verify-plan | FileCheck %s

// Floats are looked at as soon as they are there, arguments first. Integers are not,
// and without debug-memory nothing else is checked.

// CHECK-DAG: llvm.mlir.global internal constant @[[X:blurt_what_[0-9A-F]+]]("x\00")
// CHECK-DAG: llvm.mlir.global internal constant @[[GEMM:blurt_what_[0-9A-F]+]]("blurt.gemm at {{.*}}debug-nonfinite.mlir:{{[0-9:]+}}\00")

// CHECK-LABEL: func.func @eval
// CHECK-SAME:    %[[CTX:.*]]: !llvm.ptr
// CHECK:         %[[WHAT:.*]] = llvm.mlir.addressof @[[X]]
// CHECK:         call @blurt_debug_finite(%[[CTX]], %{{.*}}, %{{.*}}, %[[WHAT]],
// CHECK-NOT:     call @blurt_debug
// CHECK:         blurt.gemm
// CHECK:         %[[WHAT:.*]] = llvm.mlir.addressof @[[GEMM]]
// CHECK:         %[[BYTES:.*]] = arith.constant 256 : i64
// CHECK:         %[[WIDTH:.*]] = arith.constant 4 : i64
// CHECK:         call @blurt_debug_finite(%[[CTX]], %{{.*}}, %[[BYTES]], %[[WHAT]], %[[WIDTH]])
// CHECK-NOT:     call @blurt_debug
// CHECK:         return
// CHECK:       func.func private @blurt_debug_finite(!llvm.ptr, !llvm.ptr, i64, !llvm.ptr, i64)
func.func @eval(%x: tensor<8x8xf32> {blu.tensor = {name = "x", role = "input"}},
                %t: tensor<8xi32> {blu.tensor = {name = "t", role = "input"}})
    -> (tensor<8x8xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %y = blurt.gemm %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
