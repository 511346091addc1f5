//===- LoopOps.td - rolled stacks --------------------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LOOP_OPS_TD
#define BLURT_LOOP_OPS_TD

include "BlurtDialect.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Blurt_LoopOp : Blurt_Op<"loop", [
    AttrSizedOperandSegments, RecursiveMemoryEffects, SingleBlock]> {
  let summary = "a rolled stack: carried values, per-iteration slices, collections";
  let description = [{
    Runs the body `count` times, for i = 0 … count-1, or count-1 … 0 with
    `reverse`. Block arguments: the iteration i as `tensor<i64>`, then one
    per `carries` (its value from the previous iteration, at first the operand),
    then one per `slices` (element i along the leading dim of the operand, which
    has `count` of them). The terminator `blurt.loop_yield` gives the next
    carried values, then the values to collect. Results: the last carried values,
    then the collections, each with a leading dim of `count`, iteration i's value
    at position i (whatever the direction). The body may capture values from
    above. Only the tensor form exists; the plan stage turns the loop into
    `scf.for` over arena slots.

    Example: four layers, each with its own weight; the input of each is kept:
    ```mlir
    %last, %saved = blurt.loop "block" count 4 carry(%h : tensor<8x16xf32>)
        slice(%w : tensor<4x16x16xf32>)
        -> (tensor<8x16xf32>, tensor<4x8x16xf32>) {
    ^bb0(%i: tensor<i64>, %x: tensor<8x16xf32>, %wi: tensor<16x16xf32>):
      %y = blurt.gemm %x, %wi transposed
          : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
      blurt.loop_yield %y, %x : tensor<8x16xf32>, tensor<8x16xf32>
    }
    ```

    Constraints:
    - L1: slices have a leading dim of `count`.
    - L2: types of carried operands, arguments, yielded values, results agree.
    - L3: a collection's type is its yielded type with a leading dim of `count`.
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$count, UnitAttr:$reverse,
                       Variadic<AnyRankedTensor>:$carries,
                       Variadic<AnyRankedTensor>:$slices);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
    ::mlir::Value getIteration() { return getBodyBlock()->getArgument(0); }
    ::mlir::BlockArgument getCarryArg(unsigned i) {
      return getBodyBlock()->getArgument(1 + i);
    }
    ::mlir::BlockArgument getSliceArg(unsigned i) {
      return getBodyBlock()->getArgument(1 + getCarries().size() + i);
    }
    unsigned getNumCollected() {
      return getNumResults() - getCarries().size();
    }
  }];
  let builders = [
    // The body builder gets the iteration, the carried values and the slices,
    // and returns the next carried values and the values to collect.
    OpBuilder<(ins "::llvm::StringRef":$name, "int64_t":$count, "bool":$reverse,
      "::mlir::ValueRange":$carries, "::mlir::ValueRange":$slices,
      "::llvm::function_ref<std::pair<::llvm::SmallVector<::mlir::Value>, "
      "::llvm::SmallVector<::mlir::Value>>(::mlir::OpBuilder &, "
      "::mlir::Location, ::mlir::Value, ::mlir::ValueRange, "
      "::mlir::ValueRange)>":$body)>
  ];
}

def Blurt_LoopYieldOp : Blurt_Op<"loop_yield", [
    Pure, Terminator, HasParent<"LoopOp">]> {
  let summary = "next carried values, then values to collect";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif // BLURT_LOOP_OPS_TD
