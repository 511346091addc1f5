//===- MatmulOps.td - matrix products ----------------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_MATMUL_OPS_TD
#define BLU_MATMUL_OPS_TD

include "BluAttrs.td"

def Blu_MatmulOp : Blu_InferredOp<"matmul", [Blu_Differentiable]> {
  let summary = "product of matrices, batched with broadcasting";
  let description = [{
    `y = op(a) · op(b)` over the last two dims, op transposing them where
    `trans_a` or `trans_b` is given; leading dims broadcast. A rank-1 `a` is a
    row, a rank-1 `b` a column, and the result lacks that dim.
    Constraints:
    - C1: operands have the same float element type and a rank of at least 1;
      a rank-1 operand is not transposed.
    - C2: contracting dims agree.
    - C3: leading dims broadcast as for `blu.add`.
    - C4: `wide`, with which the f32 sums are the result as they are, needs bf16
      operands.
    Gradient: da = g·op(b)ᵀ, db = op(a)ᵀ·g (transposed where the operand is),
    summed over the dims the operand was broadcast along. With `wide`, g is rounded
    to bf16 first. The products are wide for the rounded copy of a parameter.
    Example: `%y = blu.matmul %a, %b trans_b : (tensor<2x3x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5xf32>`
  }];
  let arguments = (ins Blu_FloatTensor:$lhs, Blu_FloatTensor:$rhs,
                       UnitAttr:$trans_a, UnitAttr:$trans_b, UnitAttr:$wide);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`trans_a` $trans_a^)? (`trans_b` $trans_b^)? (`wide` $wide^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Blu_LinearOp : Blu_InferredOp<"linear", [Blu_Differentiable]> {
  let summary = "affine map of the last dim";
  let description = [{
    `y = x·wᵀ + b`, x: …×K, w: N×K, b: N, y: …×N.
    Constraints:
    - C1: one float element type, but for b, which has the result's; x has a rank
      of at least 1, w of 2, b of 1.
    - C2: the last dims of x and w agree.
    - C3: b has as many elements as w rows.
    - C4: `wide`, with which the f32 sums are the result as they are, needs bf16
      operands.
    Gradient: dx = g·w, dw = gᵀ·x and db = Σ g over all rows of x; products as for
    `blu.matmul`.
    Example: `%y = blu.linear %x, %w, %b : (tensor<8x64xf32>, tensor<32x64xf32>, tensor<32xf32>) -> tensor<8x32xf32>`
  }];
  let arguments = (ins Blu_FloatTensor:$input, Blu_FloatTensor:$weight,
                       Optional<Blu_FloatTensor>:$bias, UnitAttr:$wide);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $weight (`,` $bias^)? (`wide` $wide^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

#endif // BLU_MATMUL_OPS_TD
