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

def BlurtEmitCudaKernels
    : Pass<"blurt-emit-cuda-kernels", "::mlir::ModuleOp"> {
  let summary = "turn planned groups and library ops into CUDA kernels";
  let description = [{
    Takes the plan form. Each `blurt.group` becomes a kernel of the gpu.module
    `kernels`, or two if its reduction is cut into parts; groups of the same
    structure and alignment share one. Scatter, cache updates and attention have
    kernels of their own. GEMMs become entries of a table. The host functions
    queue both by number; how each kernel is launched, and which products there
    are, is left in the module attribute `blurt.device`.

    The module attribute `blurt.workspace` says which bytes of the arena hold
    partial results.

    If sm_90a is among the architectures, kernels of attention have a second form
    in the gpu.module `kernels_sm_90a`, under the same symbols and numbers and
    over the same operands; the table of those kernels is `kernels_sm_90a` of
    `blurt.device`.

    Before:
    ```mlir
    module attributes {blurt.workspace = array<i64: 8192, 4096>} {
      func.func @run(%ctx: !llvm.ptr, %arena: memref<12288xi8>) {
        %x = blurt.slot %arena offset 0 : memref<12288xi8> -> memref<1024xf32>
        %y = blurt.slot %arena offset 4096 : memref<12288xi8> -> memref<1024xf32>
        blurt.group "square" domain [1024]
            ins(%x [affine_map<(d0) -> (d0)>] : memref<1024xf32>)
            outs(%y [affine_map<(d0) -> (d0)>] : memref<1024xf32>) {
        ^bb0(%e: f32):
          %s = arith.mulf %e, %e : f32
          blurt.group_yield %s : f32
        }
        return
      }
    }
    ```
    After (shortened):
    ```mlir
    module attributes {blurt.device = {kernels = [{symbol = "bt_square_0",
        grid = array<i32: 1, 1, 1>, block = array<i32: 256, 1, 1>, ...} ], ...} } {
      gpu.module @kernels {
        llvm.func @bt_square_0(%x: !llvm.ptr, %y: !llvm.ptr)
            attributes {nvvm.kernel, nvvm.reqntid = array<i32: 256, 1, 1>} {
          ...
          %e = llvm.load %p {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
          %s = arith.mulf %e, %e : vector<4xf32>
          llvm.store %s, %q {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr
          ...
        }
      }
      func.func @run(%ctx: !llvm.ptr, %arena: !llvm.ptr) {
        ...
        llvm.call @blurt_launch(%ctx, %c0, %args) : ...
        return
      }
    }
    ```
  }];
  let statistics = [
    Statistic<"numGroups", "groups", "groups that were given a kernel">,
    Statistic<"numKernels", "kernels", "kernels after sharing">
  ];
  let options = [
    ListOption<"archs", "arch", "std::string",
               "Architectures that kernels are for; any but sm_90a if empty">];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect",
    "::mlir::gpu::GPUDialect", "::mlir::scf::SCFDialect",
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
    With `device` exp, tanh and erf are built on the GPU's ex2.approx and
    rcp.approx.

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
  let options = [
    Option<"device", "device", "bool", /*default=*/"false",
           "Use the instructions of an NVIDIA GPU for 2^x and 1/x">];
  let dependentDialects = [
    "::mlir::LLVM::LLVMDialect", "::mlir::vector::VectorDialect",
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"
  ];
}

def BlurtCompileDevice : Pass<"blurt-compile-device", "::mlir::ModuleOp"> {
  let summary = "compile the kernels of a CUDA program to machine code";
  let description = [{
    Lowers the gpu.module `kernels` to the LLVM dialect, translates it to PTX for
    each architecture, links libdevice, and runs ptxas. For sm_90a, functions of
    `kernels_sm_90a` take the place of those of the same name, and the image says
    which table tells how its kernels are launched. The images become constants of
    the host module, listed in `blurt.device`. The PTX of the lowest plain
    architecture goes in as well, for devices that no image fits. Does nothing to
    modules without `blurt.device`. A kernel with spills or a stack frame, and one
    whose tensor core products ptxas had to put one after the other, draws a
    warning.

    Before:
    ```mlir
    module attributes {blurt.device = {kernels = [...], ...} } {
      gpu.module @kernels { llvm.func @bt_square_0(...) ... }
    }
    ```
    After:
    ```mlir
    module attributes {blurt.device = {images = [{arch = 80 : i64, kind = 0 : i64,
        symbol = "blurt_image_0", ...} ], kernels = [...], ...} } {
      llvm.mlir.global private constant @blurt_image_0("\7FELF...")
    }
    ```
  }];
  let options = [
    ListOption<"archs", "arch", "std::string",
               "Architectures, sm_80 or sm_90a for example">,
    Option<"toolkit", "toolkit", "std::string", /*default=*/"\"\"",
           "Folder of the CUDA toolkit; searched for if empty">,
    Option<"ptxFile", "ptx", "std::string", /*default=*/"\"\"",
           "Write the PTX of each architecture to this name plus .ARCH.ptx">,
    Option<"resourceFile", "resources", "std::string", /*default=*/"\"\"",
           "Append what ptxas says of each kernel to this file">];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
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
