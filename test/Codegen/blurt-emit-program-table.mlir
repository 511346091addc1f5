// RUN: bt-opt %s -blurt-emit-program-table | FileCheck %s
// RUN: sed 's/symbol = "train"/symbol = "nowhere"/' %s | not bt-opt -blurt-emit-program-table 2>&1 | FileCheck %s --check-prefix=BAD

// The table is the one public symbol; strings are shared; entries become internal.
// CHECK-DAG: llvm.mlir.global private constant @{{.*}}("w\00")
// CHECK-DAG: llvm.mlir.global private constant @{{.*}}("train\00")
// CHECK-DAG: llvm.mlir.global external constant @blurt_program_main()
// CHECK-DAG: llvm.func internal @train

// BAD: error: attribute 'blurt.program' entry 'train' names the function 'nowhere', which does not exist
module attributes {blurt.program = {name = "m", target = "cpu", precision = "fp32", optimizer = "adamw",
    plan_hash = "00", metadata = {source = "m.mlir"}, state_bytes = 64 : i64, peak_bytes = 128 : i64,
    state = [{name = "w", role = "param", type = tensor<4xf32>, offset = 0 : i64, init = "ones"}],
    entries = [{name = "train", symbol = "train", peak_bytes = 128 : i64, batch = 1 : i64, seq = 0 : i64, microbatches = 1 : i64,
                tensors = [{name = "loss", role = "output", type = tensor<f32>, offset = 64 : i64}]}]}} {
  llvm.func @train(%ctx: !llvm.ptr, %arena: !llvm.ptr) {
    llvm.return
  }
}
