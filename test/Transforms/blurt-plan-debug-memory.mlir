// RUN: bt-opt %s --blurt-plan=debug-memory=1 --blurt-verify-plan | FileCheck %s

// Arguments are defined at the begin; every operand is checked, every result
// defined, every dead storage poisoned. What is not one run of bytes is walked
// row by row.

// CHECK-DAG: llvm.mlir.global internal constant @[[X:blurt_what_[0-9A-F]+]]("x\00")
// CHECK-DAG: llvm.mlir.global internal constant @[[GEMM:blurt_what_[0-9A-F]+]]("blurt.gemm at {{.*}}plan-debug-memory.mlir:{{[0-9:]+}}\00")

#id = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: func.func @eval
// CHECK-SAME:    %[[CTX:.*]]: !llvm.ptr
// CHECK:         %[[WHAT:.*]] = llvm.mlir.addressof @[[X]]
// CHECK:         %[[ADDRESS:.*]] = memref.extract_aligned_pointer_as_index
// CHECK:         %[[INT:.*]] = arith.index_cast %[[ADDRESS]] : index to i64
// CHECK:         %[[PTR:.*]] = llvm.inttoptr %[[INT]]
// CHECK:         %[[BYTES:.*]] = arith.constant 256 : i64
// CHECK:         call @blurt_debug_define(%[[CTX]], %[[PTR]], %[[BYTES]], %[[WHAT]])
// CHECK:         llvm.mlir.addressof @[[GEMM]]
// CHECK:         call @blurt_debug_use
// CHECK:         call @blurt_debug_use
// CHECK:         blurt.gemm
// CHECK:         call @blurt_debug_define
// CHECK:         scf.for %[[ROW:.*]] = %{{.*}} to %[[ROWS:.*]] step
// CHECK:           %[[STEP:.*]] = arith.muli %[[ROW]], %{{.*}}
// CHECK:           arith.addi %{{.*}}, %[[STEP]]
// CHECK:           %[[LENGTH:.*]] = arith.constant 16 : i64
// CHECK:           call @blurt_debug_use({{.*}}, %[[LENGTH]], %{{.*}})
// CHECK:         }
// CHECK:         blurt.group "half"
// CHECK:         call @blurt_debug_define
// CHECK:         call @blurt_debug_retire
// CHECK:         return
// CHECK:       func.func private @blurt_debug_define(!llvm.ptr, !llvm.ptr, i64, !llvm.ptr)
func.func @eval(%x: tensor<8x8xf32> {blu.tensor = {name = "x", role = "input"}})
    -> (tensor<8x4xf32> {blu.tensor = {name = "y", role = "output"}}) {
  %a = blurt.gemm %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %h = blurt.slice %a [0, 2] : tensor<8x8xf32> to tensor<8x4xf32>
  %y = blurt.group "half" domain [8, 4] ins(%h [#id] : tensor<8x4xf32>) outs([#id]) -> tensor<8x4xf32> {
  ^bb0(%e: f32):
    %s = arith.addf %e, %e : f32
    blurt.group_yield %s : f32
  }
  return %y : tensor<8x4xf32>
}
