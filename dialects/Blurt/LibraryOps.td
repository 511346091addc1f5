//===- LibraryOps.td - GEMM, attention, scatter ------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIBRARY_OPS_TD
#define BLURT_LIBRARY_OPS_TD

include "BlurtDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Blurt_DestinationOp<string mnemonic, list<Trait> traits = []>
    : Blurt_Op<mnemonic, traits # [
          DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let hasVerifier = 1;
}

def Blurt_GemmOp : Blurt_DestinationOp<"gemm", [AttrSizedOperandSegments]> {
  let summary = "a batch of matrix products by the BLAS library";
  let description = [{
    `out[b] = op(a[b]) · op(b[b]) (+ c[b])` for rank-2 operands (no batch) or
    rank-3 operands whose first dim is the batch; a batch of 1 broadcasts.
    `trans_a`, `trans_b` say that the stored matrix is the transpose of the
    operand. With `c` the product is added to it; in memref form `c` is the out
    itself and is updated in place. `bias` is added to every row of the product
    (CUDA only, where the library does it on the way out); the sum is rounded
    once, to the type of the result. With `tf32` operands are rounded to TF32
    before they are multiplied; sums are f32 as without it. With `split` each
    operand is split into scaled pieces of 16 bits whose products tensor cores
    add up, with an error no larger than that of f32 products (CUDA only:
    docs/Numerics.md).

    Constraints:
    - M1: ranks are all 2 or all 3; a and b have one float element type, and so
      does the result, or f32 where they are bf16.
    - M2: contracting extents agree; batches agree or are 1.
    - M3: c has the type of the result.
    - M4 (memref form): one of the two matrix dims has stride 1.
    - M5: `tf32` and `split` are for f32 operands, and exclude each other.
    - M6: bias has rank 1, the columns of the output and its element type, f32
      or bf16; there is no c.
  }];
  let arguments = (ins Blurt_Shaped:$a, Blurt_Shaped:$b,
                       Optional<Blurt_Shaped>:$c, Optional<Blurt_Shaped>:$bias,
                       Variadic<AnyStridedMemRef>:$outs,
                       UnitAttr:$trans_a, UnitAttr:$trans_b, UnitAttr:$tf32,
                       UnitAttr:$split);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $a (`transposed` $trans_a^)? `,` $b (`transposed` $trans_b^)?
    (`plus` $c^)? (`bias` $bias^)? (`into` $outs^)? (`tf32` $tf32^)?
    (`split` $split^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Blurt_AttentionOp : Blurt_DestinationOp<"attention", [AttrSizedOperandSegments]> {
  let summary = "tiled attention that never holds the score matrix";
  let description = [{
    q: B×T×H×D, k and v: B×S×Hk×D with Hk dividing H (head h reads kv head
    h / (H/Hk)). Outputs o: B×T×H×D and lse: B×H×T, the natural logarithm of the
    row's sum of exponentials of `scale · q·k`. With `causal`, query t sees keys
    s ≤ t + (S - T).

    With `position` (a rank-0 i64, generation) k and v are caches of S rows of
    which rows 0 … position+T-1 are valid, and query t sees keys s ≤
    position + t. lse is then not needed but still written. `tf32` is for the
    products as in `blurt.gemm`.

    Constraints:
    - A1: q, k, v have rank 4 and one float element type; v has k's shape.
    - A2: batch and head sizes of q and k agree; k's heads divide q's.
    - A3: position is a rank-0 i64.
    - A4: o has q's shape and element type; lse is B×H×T of f32, or of f64 if
      q is.
    - A6: `tf32` is for f32 operands.
  }];
  let arguments = (ins Blurt_Shaped:$q, Blurt_Shaped:$k, Blurt_Shaped:$v,
                       Optional<Blurt_Shaped>:$position,
                       Variadic<AnyStridedMemRef>:$outs,
                       F64Attr:$scale, UnitAttr:$causal, UnitAttr:$tf32);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`at` $position^)? (`into` $outs^)? `scale` `=` $scale
    (`causal` $causal^)? (`tf32` $tf32^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Blurt_AttentionGradOp : Blurt_DestinationOp<"attention_grad"> {
  let summary = "cotangents of q, k and v of attention, deterministic";
  let description = [{
    Inputs as of `blurt.attention`, its outputs o and lse, and do: B×T×H×D.
    Outputs dq, dk, dv of the shapes of q, k, v. Recomputes the probabilities
    tile by tile from lse.

    Constraints: A1, A2, A4 and A6 of `blurt.attention`, and
    - A5: d_o has q's type, dq, dk, dv have the shapes of q, k, v.
  }];
  let arguments = (ins Blurt_Shaped:$q, Blurt_Shaped:$k, Blurt_Shaped:$v,
                       Blurt_Shaped:$o, Blurt_Shaped:$lse, Blurt_Shaped:$d_o,
                       Variadic<AnyStridedMemRef>:$outs,
                       F64Attr:$scale, UnitAttr:$causal, UnitAttr:$tf32);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $o `,` $lse `,` $d_o (`into` $outs^)? `scale` `=` $scale
    (`causal` $causal^)? (`tf32` $tf32^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Blurt_ScatterAddOp : Blurt_DestinationOp<"scatter_add"> {
  let summary = "sum rows into the rows that ids name, in the order of the ids";
  let description = [{
    ids: N (i32 or i64), updates: N×C; out: V×C with
    `out[v] = Σ_{n: ids[n] = v} updates[n]`, added in ascending n; rows that no
    id names are 0.

    Constraints:
    - S1: ids has rank 1 and element type i32 or i64.
    - S2: updates has rank 2 and a row for every id.
    - S3: the output has rank 2 and the columns and element type of updates.
  }];
  let arguments = (ins Blurt_Shaped:$ids, Blurt_Shaped:$updates,
                       Variadic<AnyStridedMemRef>:$outs);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $ids `,` $updates (`into` $outs^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Blurt_CacheUpdateOp : Blurt_DestinationOp<"cache_update"> {
  let summary = "write rows into a key-value cache";
  let description = [{
    `cache[b, position + t] = rows[b, t]` for cache: B×S×…, rows: B×T×…;
    returns the cache. In memref form the out is the cache itself. The caller
    keeps position + T ≤ S.

    Constraints:
    - U1: cache and rows agree in element type, rank and every dim but 1; rows
      has no more of dim 1 than cache.
    - U2: position is a rank-0 i64.
    - U3: the output has the type of the cache, and is the cache in memref form.
  }];
  let arguments = (ins Blurt_Shaped:$cache, Blurt_Shaped:$rows,
                       Blurt_Shaped:$position,
                       Variadic<AnyStridedMemRef>:$outs);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $cache `,` $rows `at` $position (`into` $outs^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

#endif // BLURT_LIBRARY_OPS_TD
