//===- LossOps.td - what training minimises ----------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_LOSS_OPS_TD
#define BLU_LOSS_OPS_TD

include "BluAttrs.td"

def Blu_CrossEntropyOp : Blu_InferredOp<"cross_entropy", [Blu_Differentiable]> {
  let summary = "negative log-likelihood of labels under softmax";
  let description = [{
    For each row x of the logits' last dim and its label c: `loss = m +
    ln Σ e^(x-m) - x[c]`, 0 where the label is `ignore_index`. `mean` divides the
    sum by the number of rows that are not ignored (0/0, a NaN, if all are),
    `sum` adds them up, `none` keeps one a row. Losses of bf16 logits are f32.
    With `classes = n` a row is its first n elements; what follows them is padding,
    whatever it holds.
    Constraints:
    - C1: targets have the logits' shape without the last dim.
    - C2: logits have a rank of at least 1.
    - C3: `classes` is at least 1 and at most the logits' last dim.
    Gradient: `blu.cross_entropy_grad`. Saves the logits.
    Example: `%l = blu.cross_entropy %x, %t ignore_index = -100 reduction(mean) : (tensor<11x29xf32>, tensor<11xi32>) -> tensor<f32>`
  }];
  let arguments = (ins Blu_FloatTensor:$logits, Blu_IntTensor:$targets,
                       I64Attr:$ignore_index, Blu_LossReduction:$reduction,
                       OptionalAttr<I64Attr>:$classes);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = [{
    $logits `,` $targets `ignore_index` `=` $ignore_index
    `reduction` `(` $reduction `)` (`classes` `=` $classes^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Blu_CrossEntropyGradOp : Blu_InferredOp<"cross_entropy_grad"> {
  let summary = "cotangent of the logits of unreduced `blu.cross_entropy`";
  let description = [{
    `dx = (softmax(x) - onehot(c))·g` row by row, 0 where the label is
    `ignore_index`. The cotangent of a row has the targets' shape; for `mean` and
    `sum` the rule of `blu.cross_entropy` passes g/n or g, repeated. With
    `classes = n`, which is as for `blu.cross_entropy`, dx is 0 from element n on.
    Constraints:
    - C1: targets have the logits' shape without the last dim.
    - C2: the cotangent has the targets' shape, or rank 0.
    - C3: `classes` is at least 1 and at most the logits' last dim.
    Gradient: not supported.
    Example: `%dx = blu.cross_entropy_grad %x, %t, %g ignore_index = -100 : (tensor<11x29xf32>, tensor<11xi32>, tensor<f32>) -> tensor<11x29xf32>`
  }];
  let arguments = (ins Blu_FloatTensor:$logits, Blu_IntTensor:$targets,
                       Blu_FloatTensor:$grad, I64Attr:$ignore_index,
                       OptionalAttr<I64Attr>:$classes);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = [{
    $logits `,` $targets `,` $grad `ignore_index` `=` $ignore_index
    (`classes` `=` $classes^)? attr-dict `:` functional-type(operands, results)
  }];
}

#endif // BLU_LOSS_OPS_TD
