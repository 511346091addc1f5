//===- ReductionOps.td - combining elements along dims -----*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_REDUCTION_OPS_TD
#define BLU_REDUCTION_OPS_TD

include "BluAttrs.td"

class Blu_ReductionOp<string mnemonic, string formula, string gradient>
    : Blu_InferredOp<mnemonic, [Blu_Differentiable]> {
  let arguments = (ins Blu_NumberTensor:$input, DenseI64ArrayAttr:$dims,
                       UnitAttr:$keep_dims);
  let results = (outs Blu_NumberTensor:$result);
  let assemblyFormat = [{
    $input $dims (`keep_dims` $keep_dims^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let description = formula # [{ over `dims`. With `keep_dims` they stay, with an
    extent of 1.
    Constraints:
    - C1: `dims` are dims of the input, in ascending order.
    Gradient: }] # gradient # [{
    Example: `%y = blu.}] # mnemonic # [{ %x [1] : (tensor<4x9x5xf32>) -> tensor<4x5xf32>`
  }];
}

def Blu_ReduceSumOp : Blu_ReductionOp<"reduce_sum", "Sum",
    "dx = g, repeated along `dims`."> {
  let summary = "sum over dims";
}
def Blu_ReduceMeanOp : Blu_ReductionOp<"reduce_mean", "Mean",
    "dx = g/n, repeated along `dims`, n elements to a mean."> {
  let summary = "arithmetic mean over dims";
}
def Blu_ReduceMaxOp : Blu_ReductionOp<"reduce_max", "Maximum",
    "g goes to the elements that equal the maximum, in equal parts."> {
  let summary = "maximum over dims, NaN if any is";
}

#endif // BLU_REDUCTION_OPS_TD
