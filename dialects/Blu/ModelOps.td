//===- ModelOps.td - models, parameters, stacks, steps -----*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_MODEL_OPS_TD
#define BLU_MODEL_OPS_TD

include "BluAttrs.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/CallInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"

class Blu_FunctionOp<string mnemonic> : Blu_Op<mnemonic, [
    FunctionOpInterface, IsolatedFromAbove, Symbol,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  code functionDeclarations = [{
    ::mlir::ArrayRef<::mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    ::mlir::ArrayRef<::mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
    ::mlir::Operation *getTerminator() { return getBodyBlock()->getTerminator(); }
  }];
  let extraClassDeclaration = functionDeclarations;
}

def Blu_ModelOp : Blu_FunctionOp<"model"> {
  let summary = "a function from inputs to named results, with parameters inside";
  let description = [{
    Arguments and results carry their names in the attribute `blu.name`. Each
    program of the executable keeps some results and drops what they do not need.
    The result `loss`, a scalar, is what training minimises; `logits` is what
    generation samples from. Dim 0 of every argument is the batch; dim 1, where
    it is unknown, the sequence.
    Constraints:
    - C1: every argument and result has a `blu.name`, unique on its side.
    - C2: a result named `loss` is a float scalar.
    - C3: names of parameters are unique, stacks expanded.
    - C4: so are the names under which they are exported.
    Example:
    ```mlir
    blu.model @affine(%x: tensor<?x4xf32> {blu.name = "x"}, %t: tensor<?xi32> {blu.name = "target"})
        -> (tensor<f32> {blu.name = "loss"}, tensor<?x3xf32> {blu.name = "logits"}) {
      %w = blu.param "weight" init(#blu.normal<0.0, 0.02>) : tensor<3x4xf32>
      %y = blu.linear %x, %w : (tensor<?x4xf32>, tensor<3x4xf32>) -> tensor<?x3xf32>
      %l = blu.cross_entropy %y, %t ignore_index = -100 reduction(mean) : (tensor<?x3xf32>, tensor<?xi32>) -> tensor<f32>
      blu.return %l, %y : tensor<f32>, tensor<?x3xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let extraClassDeclaration = functionDeclarations # [{
    /// Number of the argument or result of that `blu.name`, if there is one.
    std::optional<unsigned> findArgument(::llvm::StringRef name);
    std::optional<unsigned> findResult(::llvm::StringRef name);
    ::llvm::StringRef getArgumentName(unsigned i);
    ::llvm::StringRef getResultName(unsigned i);
  }];
}

def Blu_StepOp : Blu_FunctionOp<"step"> {
  let summary = "one program of the executable, as a function of its state";
  let description = [{
    What a call of the program does, with everything it reads as arguments and
    everything it writes as results. An argument's attribute `blu.tensor` is a
    dictionary: `name`; `role` (`param`, `moment1`, `moment2`, `cache`, `input`,
    `scalar`); for parameters also `init`, `init_a`, `init_b`, `export`,
    `transpose`, `decay`; for tensors of a stack, which hold all iterations along
    dim 0, `stack_count` and `stack_first`. A result either has a `blu.tensor` of
    role `output` or `gradient`, or gives new state: `blu.donates = k` says that it
    takes the place of argument k, which is updated where it lies.
    Constraints:
    - C1: every argument has a `blu.tensor` with a name and a role, unique
      together.
    - C2: every result has either `blu.tensor` or `blu.donates`.
    - C3: a donated argument has the type of its result, is state, and is donated
      once.
    Example:
    ```mlir
    blu.step @train program(train) (%w: tensor<3xf32> {blu.tensor = {name = "w", role = "param"}},
                     %x: tensor<3xf32> {blu.tensor = {name = "x", role = "input"}})
        -> (tensor<3xf32> {blu.donates = 0 : i64}) {
      %n = blu.add %w, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      blu.return %n : tensor<3xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Blu_Program:$program,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
}

def Blu_ReturnOp : Blu_Op<"return", [Pure, Terminator,
    ParentOneOf<["ModelOp", "StepOp"]>]> {
  let summary = "results of a model or step";
  let description = [{
    Constraints:
    - C1: values have the result types of the op around it.
    Example: `blu.return %loss, %logits : tensor<f32>, tensor<8x10xf32>`
  }];
  let arguments = (ins Variadic<Blu_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let hasVerifier = 1;
}

def Blu_YieldOp : Blu_Op<"yield", [Pure, Terminator,
    ParentOneOf<["StackOp", "CheckpointOp", "AccumulateOp"]>]> {
  let summary = "results of one run of a region";
  let description = [{
    Constraints:
    - C1: it ends a region of `blu.stack`, `blu.checkpoint` or `blu.accumulate`,
      which say how many values of which types.
    Example: `blu.yield %next : tensor<8x64xf32>`
  }];
  let arguments = (ins Variadic<Blu_Tensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

def Blu_ParamOp : Blu_Op<"param", [MemoryEffects<[MemRead]>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "a parameter of the model";
  let description = [{
    Inside a stack each iteration has its own, of name
    `STACK.ITERATION.NAME`. `decay` and `no_decay` say whether weight decay applies;
    by default it does to parameters of two or more dims. `export` is the name in
    weight files, `{i}` standing for the iteration; with `transpose` they hold the
    matrix transposed. Reading state is its effect: parameters that look the same,
    one in a stack and one above it, are never merged.
    Constraints:
    - C1: the name is not empty; the type is static and of floats.
    - C2: `decay` and `no_decay` exclude each other.
    - C3: `transpose` needs a rank of 2.
    Gradient: none, it has no operand; the cotangent of its result is what the
    optimizer gets.
    Example: `%w = blu.param "fc.weight" init(#blu.normal<0.0, 0.02>) export("h.{i}.mlp.c_fc.weight" transpose) : tensor<256x64xf32>`
  }];
  let arguments = (ins StrAttr:$name, Blu_InitAttr:$init,
                       OptionalAttr<StrAttr>:$export_name, UnitAttr:$transpose,
                       UnitAttr:$decay, UnitAttr:$no_decay);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = [{
    $name `init` `(` $init `)`
    (`export` `(` $export_name^ (`transpose` $transpose^)? `)`)?
    (`decay` $decay^)? (`no_decay` $no_decay^)? attr-dict `:` type($result)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether weight decay applies.
    bool decays() {
      return getDecay() || (!getNoDecay() && getType().getRank() >= 2);
    }
  }];
}

def Blu_StackOp : Blu_Op<"stack", [
    AttrSizedOperandSegments, RecursiveMemoryEffects, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "a region repeated, with parameters of its own for each iteration";
  let description = [{
    Runs the body once for each iteration `first` … `last - 1` (`reverse`: from the
    last to the first). Block arguments: the iteration, counted from 0, as
    `tensor<i64>`; the carried values; then one slice a stacked operand, its
    element along dim 0. The body yields the next carried values, then values to
    collect. Results: the last carried values, then the collections, iteration i's
    value at position i of a new dim 0. Values from above may be captured.

    In a model file stacks carry values and declare parameters; slices and
    collections appear when the stack is differentiated and its parameters become
    state. A stack stays rolled to the end.
    Constraints:
    - C1: 0 ≤ first < last.
    - C2: a stacked operand has a dim 0 of last - first.
    - C3: carried operands, arguments, yielded values and results agree in type.
    - C4: a collection has the type of the yielded value with a new dim 0 of
      last - first.
    Gradient: a stack in the other direction over the body's adjoint, which takes
    the saved values as slices; cotangents of captured values are carried,
    those of slices collected.
    Example:
    ```mlir
    %y, %all = blu.stack "block" [0 to 4] iteration(%i) carry(%h = %x) slices(%w = %ws)
        : (tensor<8x8xf32>, tensor<4x8x8xf32>) -> (tensor<8x8xf32>, tensor<4x8x8xf32>) {
      %n = blu.matmul %h, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      blu.yield %n, %h : tensor<8x8xf32>, tensor<8x8xf32>
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, I64Attr:$first, I64Attr:$last,
                       UnitAttr:$reverse, Variadic<Blu_Tensor>:$carries,
                       Variadic<Blu_Tensor>:$slices);
  let results = (outs Variadic<Blu_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let skipDefaultBuilders = 1;
  let builders = [
    OpBuilder<(ins "::llvm::StringRef":$name, "int64_t":$first,
                   "int64_t":$last, "bool":$reverse,
                   "::mlir::ValueRange":$carries, "::mlir::ValueRange":$slices,
                   "::mlir::TypeRange":$collectedTypes)>
  ];
  let extraClassDeclaration = [{
    int64_t getCount() { return getLast() - getFirst(); }
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
    ::mlir::BlockArgument getIteration() { return getBodyBlock()->getArgument(0); }
    ::mlir::BlockArgument getCarryArg(unsigned i) {
      return getBodyBlock()->getArgument(1 + i);
    }
    ::mlir::BlockArgument getSliceArg(unsigned i) {
      return getBodyBlock()->getArgument(1 + getCarries().size() + i);
    }
    unsigned getNumCarries() { return getCarries().size(); }
    unsigned getNumCollected() { return getNumResults() - getNumCarries(); }
    YieldOp getYield();
    /// `type` with a new dim 0 of `count`, and without dim 0.
    static ::mlir::RankedTensorType stackedType(::mlir::Type type, int64_t count);
    static ::mlir::RankedTensorType slicedType(::mlir::Type type);
  }];
}

def Blu_CheckpointOp : Blu_Op<"checkpoint", [
    RecursiveMemoryEffects, SingleBlock, NoRegionArguments]> {
  let summary = "a region whose inner values are recomputed in the backward pass";
  let description = [{
    The results are what the region yields. Only what the region captures is saved;
    the backward pass runs the same ops on it again (Chen et al., arXiv
    1604.06174), so the results do not change by a bit.
    Constraints:
    - C1: results have the types of the yielded values.
    Gradient: the adjoint of the region's recomputed ops.
    Example:
    ```mlir
    %y = blu.checkpoint -> tensor<8xf32> {
      %e = blu.exp %x : tensor<8xf32>
      blu.yield %e : tensor<8xf32>
    }
    ```
  }];
  let results = (outs Variadic<Blu_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`->` type($results)^)? attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
    YieldOp getYield();
  }];
}

def Blu_AccumulateOp : Blu_Op<"accumulate", [
    RecursiveMemoryEffects, SingleBlock,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmBlockArgumentNames"]>]> {
  let summary = "sums over microbatches";
  let description = [{
    Runs the body `count` times, on element k of each stacked operand the k-th
    time; each result is the sum of what the body yielded, added in ascending k.
    Block arguments: the microbatch as `tensor<i64>`, then the slices.
    Constraints:
    - C1: count is positive; a stacked operand has a dim 0 of count.
    - C2: results have the types of the yielded values, which are of numbers.
    Gradient: not supported.
    Example:
    ```mlir
    %s = blu.accumulate [2] iteration(%k) slices(%x = %xs) : (tensor<2x8xf32>) -> (tensor<8xf32>) {
      %e = blu.exp %x : tensor<8xf32>
      blu.yield %e : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins I64Attr:$count, Variadic<Blu_Tensor>:$slices);
  let results = (outs Variadic<Blu_NumberTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
    ::mlir::BlockArgument getIteration() { return getBodyBlock()->getArgument(0); }
    YieldOp getYield();
  }];
}

#endif // BLU_MODEL_OPS_TD
