//===- GroupOps.td - one kernel's worth of work ------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_GROUP_OPS_TD
#define BLURT_GROUP_OPS_TD

include "BlurtDialect.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Blurt_GroupOp : Blurt_Op<"group", [
    AttrSizedOperandSegments, RecursiveMemoryEffects, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"GroupYieldOp">,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "elementwise work and reductions over one iteration domain";
  let description = [{
    The body is a scalar program evaluated at every point of `domain`. Block
    arguments come first for `inputs`, each the scalar that the input's map
    reads at the point, then for `tables`, each the whole tensor or memref, to be
    read by `blurt.load` at computed positions.

    `blurt.reduce` inside the body combines a value over all the dims in
    `reduce`; its result is uniform over them. A group may reduce several times,
    one after the other (LayerNorm: the mean, then the variance around it); all
    its reductions run over the same dims. A value written through an output map
    must be uniform over the dims that the map leaves out.

    A map's results are distinct dims of the domain or the constant 0 (for an
    extent of 1); extents of the operand equal those of the dims. Leading or
    missing dims broadcast.

    Integer element types stand for themselves, i1 is stored as one byte, bf16
    is what is loaded and stored: bodies compute in f32.

    The order in which a reduction adds depends on `domain`, `reduce`, and the
    position of the innermost dim alone, so that grouping changes no bit.

    Constraints:
    - G1: as many input maps as inputs, output maps as results (tensor form) or
      outs (memref form), each with as many dims as the domain.
    - G2: map results are distinct dims or 0, their extents match the operand.
    - G3: output maps mention every dim that is not in `reduce`.
    - G4: a yielded value whose output map leaves out a reduced dim comes from
      `blurt.reduce` results, uniform inputs and constants only.
    - G5: reduced dims are within the domain, ascending, without repetition.
    - G6: the body holds elementwise scalar operations, constants, and this
      dialect's `reduce`, `index` and `load` only, and yields a value for every
      output, of its element type (f32 for bf16).
    A dim of extent 1 may always be left out of a map.

    Example, softmax over the rows of 1024×256:
    ```mlir
    %y = blurt.group "softmax" domain [1024, 256] reduce [1]
        ins(%x [affine_map<(d0, d1) -> (d0, d1)>] : tensor<1024x256xf32>)
        outs([affine_map<(d0, d1) -> (d0, d1)>]) -> tensor<1024x256xf32> {
    ^bb0(%e: f32):
      %max = blurt.reduce max %e : f32
      %d = arith.subf %e, %max : f32
      %exp = math.exp %d : f32
      %sum = blurt.reduce sum %exp : f32
      %p = arith.divf %exp, %sum : f32
      blurt.group_yield %p : f32
    }
    ```
  }];
  let arguments = (ins
    StrAttr:$kernel,
    DenseI64ArrayAttr:$domain,
    DenseI64ArrayAttr:$reduce,
    AffineMapArrayAttr:$input_maps,
    AffineMapArrayAttr:$output_maps,
    Variadic<Blurt_Shaped>:$inputs,
    Variadic<Blurt_Shaped>:$tables,
    Variadic<AnyStridedMemRef>:$outs);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The map of input or output `i`.
    ::mlir::AffineMap getInputMap(unsigned i) {
      return ::llvm::cast<::mlir::AffineMapAttr>(getInputMaps()[i]).getValue();
    }
    ::mlir::AffineMap getOutputMap(unsigned i) {
      return ::llvm::cast<::mlir::AffineMapAttr>(getOutputMaps()[i]).getValue();
    }
    bool isReduced(int64_t dim) {
      return ::llvm::is_contained(getReduce(), dim);
    }
    /// The scalar type that stands for elements of `elementType` in a body.
    static ::mlir::Type getScalarType(::mlir::Type elementType);
    /// The dims of the domain, as a bit set, along which `value` of the body
    /// may vary. Dims of extent 1 never count.
    uint64_t getVaryingDims(::mlir::Value value);
    /// The dims that `map` mentions, as a bit set without those of extent 1.
    uint64_t getMentionedDims(::mlir::AffineMap map);
    bool hasTensorSemantics() { return getOuts().empty(); }
    /// Shaped types of what is written: results in tensor form, outs in memref
    /// form.
    ::mlir::SmallVector<::mlir::ShapedType> getOutputTypes();
    ::mlir::Block *getBodyBlock() { return &getBody().front(); }
    ::mlir::BlockArgument getTableArg(unsigned i) {
      return getBodyBlock()->getArgument(getInputs().size() + i);
    }
    ::mlir::Operation::operand_range getYielded() {
      return getBodyBlock()->getTerminator()->getOperands();
    }
  }];
  let builders = [
    // Tensor form if `outs` is empty, else memref form without results. The
    // body builder gets the block arguments (inputs, then tables) and returns
    // the values to yield.
    OpBuilder<(ins "::llvm::StringRef":$kernel,
      "::llvm::ArrayRef<int64_t>":$domain, "::llvm::ArrayRef<int64_t>":$reduce,
      "::mlir::ValueRange":$inputs,
      "::llvm::ArrayRef<::mlir::AffineMap>":$inputMaps,
      "::mlir::ValueRange":$tables, "::mlir::ValueRange":$outs,
      "::mlir::TypeRange":$resultTypes,
      "::llvm::ArrayRef<::mlir::AffineMap>":$outputMaps,
      "::llvm::function_ref<::llvm::SmallVector<::mlir::Value>("
      "::mlir::OpBuilder &, ::mlir::Location, ::mlir::ValueRange)>":$body)>
  ];
}

def Blurt_GroupYieldOp : Blurt_Op<"group_yield", [
    Pure, Terminator, HasParent<"GroupOp">]> {
  let summary = "the scalars written by a group, in the order of its outputs";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [
    OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

def Blurt_ReduceOp : Blurt_Op<"reduce", [
    Pure, AllTypesMatch<["value", "result"]>, HasParent<"GroupOp">]> {
  let summary = "combine a value over the reduced dims of the group";
  let description = [{
    `sum` starts from 0, `max` from -inf (NaN propagates). Floating point only,
    and i64 for counts. Accumulates in the value's own type.
  }];
  let arguments = (ins Blurt_ReduceKind:$kind, AnyTypeOf<[F64, F32, I64]>:$value);
  let results = (outs AnyTypeOf<[F64, F32, I64]>:$result);
  let assemblyFormat = "$kind $value attr-dict `:` type($value)";
  let builders = [
    OpBuilder<(ins "::mlir::blurt::ReduceKind":$kind, "::mlir::Value":$value), [{
      build($_builder, $_state, value.getType(), kind, value);
    }]>];
}

def Blurt_IndexOp : Blurt_Op<"index", [Pure, HasParent<"GroupOp">]> {
  let summary = "the current coordinate along one dim of the domain";
  let description = [{
    Constraints:
    - X1: `dim` is a dim of the domain.
  }];
  let arguments = (ins I64Attr:$dim);
  let results = (outs I64:$result);
  let assemblyFormat = "$dim attr-dict `:` type($result)";
  let builders = [
    OpBuilder<(ins "int64_t":$dim), [{
      build($_builder, $_state, $_builder.getI64Type(), dim);
    }]>];
  let hasVerifier = 1;
}

def Blurt_LoadOp : Blurt_Op<"load", [HasParent<"GroupOp">,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "read a table at computed positions";
  let description = [{
    Indices are i64 and in bounds; the runtime has checked token ids and labels
    before the step. Reading a row whose number does not vary along the
    innermost dim and whose last index is that dim's `blurt.index` is a vector
    load.

    Constraints:
    - X2: the table is one of the group's tables; as many indices as its rank;
      the result is its element type (f32 for bf16).
  }];
  let arguments = (ins Blurt_Shaped:$table, Variadic<I64>:$indices);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $table `[` $indices `]` attr-dict `:` type($table) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // BLURT_GROUP_OPS_TD
