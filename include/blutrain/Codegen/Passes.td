//===- Passes.td - from the plan to host code --------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_CODEGEN_PASSES_TD
#define BLUTRAIN_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

def BlurtEmitCpuKernels : Pass<"blurt-emit-cpu-kernels", "::mlir::ModuleOp"> {
  let summary = "turn planned groups and library ops into CPU kernels and calls";
  let description = [{
    Takes the plan form: functions over the arena in which every memref is a
    `blurt.slot`. Each `blurt.group` becomes an outlined kernel of vector loops
    and a call that runs its tasks on the thread pool; groups of the same
    structure share a kernel. GEMMs become library calls. Memrefs become
    pointers.

    Before:
    ```mlir
    func.func @run(%ctx: !llvm.ptr, %arena: memref<8192xi8>) {
      %x = blurt.slot %arena offset 0 : memref<8192xi8> -> memref<1024xf32>
      %y = blurt.slot %arena offset 4096 : memref<8192xi8> -> memref<1024xf32>
      blurt.group "square" domain [1024]
          ins(%x [affine_map<(d0) -> (d0)>] : memref<1024xf32>)
          outs(%y [affine_map<(d0) -> (d0)>] : memref<1024xf32>) {
      ^bb0(%e: f32):
        %s = arith.mulf %e, %e : f32
        blurt.group_yield %s : f32
      }
      return
    }
    ```
    After (shortened):
    ```mlir
    llvm.func internal @kernel_square_0(%args: !llvm.ptr, %begin: i64, %end: i64) {
      ...
      scf.for %t = %begin to %end step %c1 : i64 {
        scf.for %i = %c0 to %c1024 step %c16 : i64 {
          %p = llvm.getelementptr inbounds %x[%i] : ..., f32
          %e = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
          %s = arith.mulf %e, %e : vector<16xf32>
          llvm.store %s, %q {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
        }
      }
      llvm.return
    }
    func.func @run(%ctx: !llvm.ptr, %arena: !llvm.ptr) {
      ...
      llvm.call @kernel_square_0(%args, %c0, %c1) : ...
      return
    }
    ```
  }];
  let statistics = [
    Statistic<"numGroups", "groups", "groups that were given a kernel">,
    Statistic<"numKernels", "kernels", "kernels after sharing">
  ];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect",
    "::mlir::vector::VectorDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect"
  ];
}

def BlurtExpandMath : Pass<"blurt-expand-math", "::mlir::ModuleOp"> {
  let summary = "expand f32 math functions, call libm for the rest";
  let description = [{
    exp, log, tanh, erf, rsqrt and powf on f32 scalars and vectors become
    polynomials over `math.fma` and integer operations, the same for scalars and
    vectors, so that a tail or a uniform value has the bits of a lane. What has
    no expansion (f64, and rarer functions) becomes a libm call for each lane.

    Before:
    ```mlir
    %y = math.exp %x : vector<16xf32>
    %z = math.tanh %w : f64
    ```
    After:
    ```mlir
    %n = math.roundeven %t : vector<16xf32>
    %r = math.fma %n, %mln2, %x : vector<16xf32>
    ...
    %z = llvm.call @tanh(%w) : (f64) -> f64
    ```
  }];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::vector::VectorDialect",
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"
  ];
}

def BlurtEmitProgramTable
    : Pass<"blurt-emit-program-table", "::mlir::ModuleOp"> {
  let summary = "write the program table that the runtime reads";
  let description = [{
    Turns the module attribute `blurt.program` into the constant global
    `blurt_program_main`, laid out as `blurt_program` of `blurt/blurt.h`, and
    the strings, shapes, tensors and entries that it points to. All but the
    entries' functions, named by `symbol`, come from the attribute.

    Before:
    ```mlir
    module attributes {blurt.program = {
        name = "mlp", target = "cpu", ...,
        state = [{name = "w", role = "param", type = tensor<4x4xf32>, ... } ],
        entries = [{name = "train", symbol = "train", ... } ] } } { ... }
    ```
    After:
    ```mlir
    llvm.mlir.global external constant @blurt_program_main()
        : !llvm.struct<(i32, i32, ptr, ...)> { ... }
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // BLUTRAIN_CODEGEN_PASSES_TD
