//===- EmbeddingOps.td - rows by number --------------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_EMBEDDING_OPS_TD
#define BLU_EMBEDDING_OPS_TD

include "BluAttrs.td"

def Blu_EmbeddingOp : Blu_InferredOp<"embedding", [Blu_Differentiable]> {
  let summary = "rows of a table by number";
  let description = [{
    `y[…, :] = table[ids[…], :]`. Ids out of range are refused before the step
    begins: token shards are checked against the vocabulary.
    Constraints:
    - C1: the table has rank 2.
    Gradient: dtable = `blu.embedding_grad`.
    Example: `%y = blu.embedding %w, %ids : (tensor<256x64xf32>, tensor<4x32xi32>) -> tensor<4x32x64xf32>`
  }];
  let arguments = (ins Blu_FloatTensor:$table, Blu_IntTensor:$ids);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = [{
    $table `,` $ids attr-dict `:` functional-type(operands, results)
  }];
}

def Blu_EmbeddingGradOp : Blu_InferredOp<"embedding_grad"> {
  let summary = "cotangent of the table of `blu.embedding`";
  let description = [{
    `dtable[v, :] = Σ g[n, :] over n with ids[n] = v`, added in ascending n;
    rows that no id names are 0.
    Constraints:
    - C1: g has the shape of ids with one more dim.
    - C2: rows is positive.
    Gradient: not supported.
    Example: `%dw = blu.embedding_grad %ids, %g rows = 256 : (tensor<4x32xi32>, tensor<4x32x64xf32>) -> tensor<256x64xf32>`
  }];
  let arguments = (ins Blu_IntTensor:$ids, Blu_FloatTensor:$grad, I64Attr:$rows);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = [{
    $ids `,` $grad `rows` `=` $rows attr-dict `:`
    functional-type(operands, results)
  }];
}

#endif // BLU_EMBEDDING_OPS_TD
