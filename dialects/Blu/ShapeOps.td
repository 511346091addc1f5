//===- ShapeOps.td - moving elements -----------------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_SHAPE_OPS_TD
#define BLU_SHAPE_OPS_TD

include "BluAttrs.td"

def Blu_ReshapeOp : Blu_InferredOp<"reshape", [Blu_Differentiable]> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    Each entry of `shape` is an extent, 0 for the extent of the same dim of the
    input, or -1 (once) for what is left.
    Constraints:
    - C1: entries are at least -1, at most one is -1; 0 names a dim that the
      input has.
    - C2: the number of elements stays the same.
    Gradient: dx = g in the input's shape.
    Example: `%y = blu.reshape %x [0, 0, 4, -1] : (tensor<2x?x64xf32>) -> tensor<2x?x4x16xf32>`
  }];
  let arguments = (ins Blu_Tensor:$input, DenseI64ArrayAttr:$shape);
  let results = (outs Blu_Tensor:$result);
  let assemblyFormat = [{
    $input $shape attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
}

def Blu_TransposeOp : Blu_InferredOp<"transpose", [Blu_Differentiable]> {
  let summary = "dims in another order";
  let description = [{
    Dim i of the result is dim `permutation[i]` of the input.
    Constraints:
    - C1: `permutation` holds 0 … rank-1 once each.
    Gradient: dx = g transposed by the inverse permutation.
    Example: `%y = blu.transpose %x [0, 2, 1] : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>`
  }];
  let arguments = (ins Blu_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Blu_Tensor:$result);
  let assemblyFormat = [{
    $input $permutation attr-dict `:` functional-type(operands, results)
  }];
}

def Blu_BroadcastOp : Blu_Op<"broadcast", [Pure, Blu_Differentiable]> {
  let summary = "repeat along missing dims and dims of extent 1";
  let description = [{
    Constraints:
    - C1: element types agree.
    - C2: the input's shape broadcasts to the result's: aligned at the last dim,
      extents are equal, 1 or missing.
    - C3: the result's shape is static.
    Gradient: dx = g summed over the repeated dims.
    Example: `%y = blu.broadcast %x : (tensor<3x1xf32>) -> tensor<2x3x4xf32>`
  }];
  let arguments = (ins Blu_Tensor:$input);
  let results = (outs Blu_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Blu_SliceOp : Blu_InferredOp<"slice", [Blu_Differentiable]> {
  let summary = "a range of one dim";
  let description = [{
    Elements `start` … `start + size - 1` along `dim`.
    Constraints:
    - C1: `dim` is a dim of the input.
    - C2: the range lies within the dim's extent.
    Gradient: dx = g padded with zeros.
    Example: `%y = blu.slice %x dim = 1 start = 2 size = 3 : (tensor<4x8xf32>) -> tensor<4x3xf32>`
  }];
  let arguments = (ins Blu_Tensor:$input, I64Attr:$dim, I64Attr:$start,
                       I64Attr:$size);
  let results = (outs Blu_Tensor:$result);
  let assemblyFormat = [{
    $input `dim` `=` $dim `start` `=` $start `size` `=` $size attr-dict `:`
    functional-type(operands, results)
  }];
}

def Blu_SplitOp : Blu_InferredOp<"split", [Blu_Differentiable]> {
  let summary = "consecutive parts along a dim";
  let description = [{
    Constraints:
    - C1: `dim` is a dim of the input.
    - C2: `sizes` are positive and add up to the dim's extent.
    Gradient: dx = the parts' cotangents concatenated, zeros for parts without.
    Example: `%q, %k, %v = blu.split %x dim = 1 [2, 2, 4] : (tensor<5x8xf32>) -> (tensor<5x2xf32>, tensor<5x2xf32>, tensor<5x4xf32>)`
  }];
  let arguments = (ins Blu_Tensor:$input, I64Attr:$dim,
                       DenseI64ArrayAttr:$sizes);
  let results = (outs Variadic<Blu_Tensor>:$parts);
  let assemblyFormat = [{
    $input `dim` `=` $dim $sizes attr-dict `:` functional-type(operands, results)
  }];
}

def Blu_ConcatOp : Blu_InferredOp<"concat", [Blu_Differentiable]> {
  let summary = "tensors one after the other along a dim";
  let description = [{
    Constraints:
    - C1: at least one part; all have one rank and element type; `dim` is a dim
      of theirs.
    - C2: the other dims agree.
    Gradient: each part takes its range of g.
    Example: `%y = blu.concat dim = 1 %a, %b : (tensor<5x2xf32>, tensor<5x3xf32>) -> tensor<5x5xf32>`
  }];
  let arguments = (ins I64Attr:$dim, Variadic<Blu_Tensor>:$parts);
  let results = (outs Blu_Tensor:$result);
  let assemblyFormat = [{
    `dim` `=` $dim $parts attr-dict `:` functional-type(operands, results)
  }];
}

def Blu_PositionsOp : Blu_InferredOp<"positions"> {
  let summary = "0, 1, 2, … along a dim of the operand";
  let description = [{
    `y[t] = t` (i32), as many as dim `dim` of `like` has; in the generation
    programs `y[t] = position + t`, with `position` the number of tokens that the
    cache already holds.
    Constraints:
    - C1: `dim` is a dim of `like`.
    Gradient: none, the result is an integer.
    Example: `%p = blu.positions %tokens dim = 1 : (tensor<4x32xi32>) -> tensor<32xi32>`
  }];
  let arguments = (ins Blu_Tensor:$like, Optional<Blu_I64Scalar>:$position,
                       I64Attr:$dim);
  let results = (outs RankedTensorOf<[I32]>:$result);
  let assemblyFormat = [{
    $like (`at` $position^)? `dim` `=` $dim attr-dict `:`
    functional-type(operands, results)
  }];
}

def Blu_StopGradientOp : Blu_Op<"stop_gradient", [Pure,
    SameOperandsAndResultType]> {
  let summary = "the operand, through which no gradient flows";
  let description = [{
    `y = x`.
    Constraints:
    - C1: the result has the operand's type.
    Gradient: 0.
    Example: `%y = blu.stop_gradient %x : tensor<8xf32>`
  }];
  let arguments = (ins Blu_Tensor:$input);
  let results = (outs Blu_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

#endif // BLU_SHAPE_OPS_TD
