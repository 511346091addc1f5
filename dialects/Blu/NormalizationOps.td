//===- NormalizationOps.td - rows scaled by their statistics -*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_NORMALIZATION_OPS_TD
#define BLU_NORMALIZATION_OPS_TD

include "BluAttrs.td"

def Blu_LayerNormOp : Blu_InferredOp<"layer_norm", [Blu_Differentiable]> {
  let summary = "rows brought to mean 0 and variance 1, then scaled and shifted";
  let description = [{
    For each row x of the last dim: `y = w·(x - μ)·r + b`, μ = mean(x),
    r = 1/√(mean((x - μ)²) + eps) (Ba et al., arXiv 1607.06450). The variance is
    taken around the mean in a second sum, so that a large mean costs no digits.
    Constraints:
    - C1: one float element type; w and b have rank 1 and the length of the
      input's last dim.
    - C2: eps is positive.
    Gradient: `blu.layer_norm_grad`. Saves the input; recomputes μ and r.
    Example: `%y = blu.layer_norm %x, %w, %b eps = 1.0e-05 : (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>) -> tensor<8x64xf32>`
  }];
  let arguments = (ins Blu_FloatTensor:$input, Blu_FloatTensor:$weight,
                       Blu_FloatTensor:$bias, F64Attr:$eps);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $weight `,` $bias `eps` `=` $eps attr-dict `:`
    functional-type(operands, results)
  }];
}

def Blu_LayerNormGradOp : Blu_InferredOp<"layer_norm_grad"> {
  let summary = "cotangents of the operands of `blu.layer_norm`";
  let description = [{
    With x̂ = (x - μ)·r and h = w·g: `dx = r·(h - mean(h) - x̂·mean(h·x̂))`,
    `dw = Σ g·x̂`, `db = Σ g`, sums over all rows.
    Constraints:
    - C1: as for `blu.layer_norm`; the cotangent has the input's type.
    - C2: eps is positive.
    Gradient: not supported.
    Example: `%dx, %dw, %db = blu.layer_norm_grad %x, %w, %g eps = 1.0e-05 : (tensor<8x64xf32>, tensor<64xf32>, tensor<8x64xf32>) -> (tensor<8x64xf32>, tensor<64xf32>, tensor<64xf32>)`
  }];
  let arguments = (ins Blu_FloatTensor:$input, Blu_FloatTensor:$weight,
                       Blu_FloatTensor:$grad, F64Attr:$eps);
  let results = (outs Blu_FloatTensor:$d_input, Blu_FloatTensor:$d_weight,
                      Blu_FloatTensor:$d_bias);
  let assemblyFormat = [{
    $input `,` $weight `,` $grad `eps` `=` $eps attr-dict `:`
    functional-type(operands, results)
  }];
}

class Blu_SoftmaxLikeOp<string mnemonic, string formula, string gradient>
    : Blu_Op<mnemonic, [Pure, SameOperandsAndResultType, Blu_Differentiable]> {
  let arguments = (ins Blu_FloatTensor:$input, I64Attr:$dim);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = "$input `dim` `=` $dim attr-dict `:` type($input)";
  let hasVerifier = 1;
  let description = formula # [{
    along `dim`, with m the maximum, which keeps the exponential from overflowing.
    Constraints:
    - C1: `dim` is a dim of the input.
    Gradient: }] # gradient # [{
    Example: `%y = blu.}] # mnemonic # [{ %x dim = 1 : tensor<8x64xf32>`
  }];
}

def Blu_SoftmaxOp : Blu_SoftmaxLikeOp<"softmax",
    "`y = e^(x-m) / Σ e^(x-m)`", "dx = y·(g - Σ g·y). Saves the result."> {
  let summary = "exponentials normalised to a sum of 1";
}
def Blu_LogSoftmaxOp : Blu_SoftmaxLikeOp<"log_softmax",
    "`y = x - m - ln Σ e^(x-m)`", "dx = g - e^y·Σ g. Saves the result."> {
  let summary = "logarithm of softmax";
}

#endif // BLU_NORMALIZATION_OPS_TD
