//===- Passes.td - passes within a stage -------------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_TRANSFORMS_PASSES_TD
#define BLUTRAIN_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// The plan stage
//===----------------------------------------------------------------------===//

def PlanPass : Pass<"blurt-plan", "::mlir::ModuleOp"> {
  let summary = "give every tensor of every entry a place in the arena";
  let description = [{
    Takes `blurt` functions over tensors (the `fuse` stage) to functions over
    one arena (the `plan` stage): views cost nothing, producers write straight
    into concatenations, collections and carried values, donated state is
    updated in place, and everything else is packed by lifetime.

    ```mlir
    func.func @eval(%x: tensor<8xf32> {blu.tensor = {name = "x", role = "input"}})
        -> (tensor<8xf32> {blu.tensor = {name = "y", role = "output"}}) {
      %y = blurt.group "exp" domain [8] ins(%x [#id] : tensor<8xf32>)
          outs([#id]) -> tensor<8xf32> {...}
      return %y : tensor<8xf32>
    }
    ```
    becomes
    ```mlir
    func.func @eval(%ctx: !llvm.ptr, %arena: memref<64xi8>) {
      %x = blurt.slot %arena offset 0 {buffer = 0} : memref<64xi8> -> memref<8xf32>
      blurt.group "exp" domain [8] ins(%x [#id] : memref<8xf32>)
          outs(%x [#id] : memref<8xf32>) {...}
      return
    }
    ```
    and the module's `blurt.program` says where the tensors of the interface
    lie. The integer `buffer` on a slot names the storage it is part of. With
    `workspace`, the module's `blurt.workspace` is the offset and the size of an
    area of at least that many bytes that belongs to whichever operation runs.

    An asynchronous collective keeps its operands until `blurt.wait`, which comes
    before the first operation that touches them. One that is carried into the
    next iteration of a loop has its inputs in rings of two slots, at `i mod 2`.

    A donated result that cannot be computed in place is an error that names the
    state tensor and the operation that still reads the old value.
  }];
  let options = [
    Option<"memoryLimit", "memory-limit", "int64_t", /*default=*/"0",
           "Refuse a plan whose peak is above this many bytes (0: no limit)">,
    Option<"debugMemory", "debug-memory", "bool", /*default=*/"false",
           "Check every operand against its live interval at run time">,
    Option<"debugNonfinite", "debug-nonfinite", "bool", /*default=*/"false",
           "Let the runtime look for values that are not finite in every "
           "result">,
    Option<"workspaceBytes", "workspace", "int64_t", /*default=*/"0",
           "Keep at least this many bytes between state and scratch for partial "
           "results">,
    Option<"rowAlignment", "row-alignment", "int64_t", /*default=*/"1",
           "Begin rows of the operands of products on multiples of so many bytes "
           "where nothing asks for them in one piece">,
    Option<"reportFile", "report", "std::string", /*default=*/"\"\"",
           "Write the plan report to this file, as JSON or, if it "
           "ends in .html, as a page">];
  let statistics = [
    Statistic<"numStorages", "storages", "Number of storages">,
    Statistic<"numCopies", "copies", "Number of copies inserted">];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::blurt::BlurtDialect",
    "::mlir::func::FuncDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::memref::MemRefDialect", "::mlir::scf::SCFDialect"];
}

def FuseBiasPass : Pass<"blurt-fuse-bias", "::mlir::ModuleOp"> {
  let summary = "let the library of a product add its bias";
  let description = [{
    A group that first of all adds a row vector to a product of f32, or of bf16
    if it reads no more of the sum than its rounding to bf16, leaves that to the
    product; where nothing else was done, the group goes. In f32 the bits stay
    the same; in bf16 the product is not rounded before the bias is added. The
    vector has the product's element type.

    ```mlir
    %p = blurt.gemm %x, %w transposed : ... -> tensor<32x8xf32>
    %y = blurt.group "bias" domain [32, 8]
        ins(%p [#id] : tensor<32x8xf32>, %b [#last] : tensor<8xf32>)
        outs([#id]) -> tensor<32x8xf32> {
    ^bb0(%e: f32, %v: f32):
      %s = arith.addf %e, %v : f32
      blurt.group_yield %s : f32
    }
    ```
    becomes
    ```mlir
    %y = blurt.gemm %x, %w transposed bias %b : ... -> tensor<32x8xf32>
    ```
  }];
  let statistics = [
    Statistic<"numBiases", "biases", "Number of biases moved">];
  let dependentDialects = ["::mlir::blurt::BlurtDialect"];
}

def TransposeOperandsPass
    : Pass<"blurt-transpose-operands", "::mlir::ModuleOp"> {
  let summary = "copy operands of TF32 products so that they lie along k";
  let description = [{
    The tensor cores of Hopper read TF32 operands along the contracted dim only.
    A product a' b of two matrices that lie across it, as the gradient of a
    weight is, runs at half the rate: the library turns its operands as it goes.
    Where the product is large enough to pay for it, both are copied first.

    ```mlir
    %w = blurt.gemm %dy transposed, %x tf32
        : (tensor<32768x3072xf32>, tensor<32768x768xf32>) -> tensor<3072x768xf32>
    ```
    becomes
    ```mlir
    %dyt = blurt.group "transpose" domain [3072, 32768]
        ins(%dy [affine_map<(d0, d1) -> (d1, d0)>] : tensor<32768x3072xf32>) ...
    %xt = blurt.group "transpose" domain [768, 32768] ...
    %w = blurt.gemm %dyt, %xt transposed tf32
        : (tensor<3072x32768xf32>, tensor<768x32768xf32>) -> tensor<3072x768xf32>
    ```
  }];
  let statistics = [
    Statistic<"numProducts", "products", "Number of products changed">];
  let dependentDialects = ["::mlir::blurt::BlurtDialect"];
}

def OverlapCollectivesPass
    : Pass<"blurt-overlap-collectives", "::mlir::ModuleOp"> {
  let summary = "mark the collectives that other work can hide";
  let description = [{
    A reduce-scatter or all-gather becomes `async` if anything but views and
    other collectives stands between it and the first use of what it gives, or
    if a loop does no more than collect that: then it is under way during the
    next iteration. `blurt-plan` keeps its bytes until then and places the
    waits.

    An all-gather of slices that a loop goes through also gets `blurt.ahead`:
    iteration i starts what iteration i+1 gathers. What comes first is started
    before the loop, what is gathered lies in two slots in turns.

    ```mlir
    %piece = blurt.collective "reduce_scatter" %g axis = "dp" size = 2 : ...
    ```
    in a loop that collects `%piece` becomes
    ```mlir
    %piece = blurt.collective "reduce_scatter" async %g axis = "dp" size = 2 : ...
    ```
  }];
  let statistics = [
    Statistic<"numAsynchronous", "asynchronous", "Number of collectives">,
    Statistic<"numAhead", "ahead", "Number of those started ahead">];
}

def VerifyPlanPass : Pass<"blurt-verify-plan", "::mlir::ModuleOp"> {
  let summary = "check that no two live buffers of a plan overlap";
  let description = [{
    Recomputes from plan-form IR alone, without the analyses of `blurt-plan`,
    when each buffer is live: from its first to its last access in program
    order, through all of a loop unless it is written before it is read in
    every iteration. Fails if buffers that are live at one time share a byte, if
    a slot reaches past the arena or out of its buffer's entry in
    `blurt.program`, or if something other than plan-form operations is left.
    Follows asynchronous collectives through every iteration of every loop: while
    one is under way nothing may write what it reads or touch what it writes, and
    each is waited for before it starts again and before the return.
  }];
}

#endif // BLUTRAIN_TRANSFORMS_PASSES_TD
