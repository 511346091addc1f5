//===- ViewOps.td - other views of the same bytes ----------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_VIEW_OPS_TD
#define BLURT_VIEW_OPS_TD

include "BlurtDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Blurt_ReshapeOp : Blurt_Op<"reshape", [Pure]> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    Constraints:
    - V1: source and result have as many elements, of the same type.
  }];
  let arguments = (ins AnyRankedTensor:$source);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `to` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Blurt_TransposeOp : Blurt_Op<"transpose", [Pure]> {
  let summary = "dims in another order: result dim i is source dim permutation[i]";
  let description = [{
    Constraints:
    - V2: `permutation` holds every dim of the source once; extents follow it.
  }];
  let arguments = (ins AnyRankedTensor:$source, DenseI64ArrayAttr:$permutation);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $source $permutation attr-dict `:` type($source) `to` type($result)
  }];
  let hasVerifier = 1;
}

def Blurt_SliceOp : Blurt_Op<"slice", [Pure]> {
  let summary = "a box of the source: sizes are the result's";
  let description = [{
    Constraints:
    - V3: one offset a dim; offset + size stays within the source.
  }];
  let arguments = (ins AnyRankedTensor:$source, DenseI64ArrayAttr:$offsets);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $source $offsets attr-dict `:` type($source) `to` type($result)
  }];
  let hasVerifier = 1;
}

def Blurt_ConcatOp : Blurt_Op<"concat", [Pure]> {
  let summary = "tensors one after the other along a dim";
  let description = [{
    Where it can, the planner lets the producers of the parts write straight
    into the result.

    Constraints:
    - V4: parts agree with the result in all dims but `dim`, where they sum up.
  }];
  let arguments = (ins I64Attr:$dim, Variadic<AnyRankedTensor>:$parts);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    `dim` `=` $dim $parts attr-dict `:` functional-type($parts, $result)
  }];
  let hasVerifier = 1;
}

def Blurt_SlotOp : Blurt_Op<"slot", [Pure]> {
  let summary = "a place in the arena (plan stage)";
  let description = [{
    The memref at `arena + offset + Σ steps[i] · iterations[i]` bytes. The
    result's layout has static strides and offset 0.

    Constraints:
    - V5: the arena is a static memref of i8 with one dim.
    - V6: one step for every iteration.
    - V7: the result has static shape and strides and offset 0, and ends within
      the arena.

    Example: iteration %i's slot of a 4-times stacked 1024×256 f32 value:
    ```mlir
    %h = blurt.slot %arena[%i] offset 65536 steps [1048576]
        : memref<9437184xi8> -> memref<1024x256xf32>
    ```
  }];
  let arguments = (ins AnyStridedMemRef:$arena, Variadic<Index>:$iterations,
                       I64Attr:$offset,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$steps);
  let results = (outs AnyStridedMemRef:$result);
  let assemblyFormat = [{
    $arena (`[` $iterations^ `]`)? `offset` $offset (`steps` $steps^)? attr-dict
    `:` type($arena) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // BLURT_VIEW_OPS_TD
