//===- AttentionOps.td - scaled dot-product attention ------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_ATTENTION_OPS_TD
#define BLU_ATTENTION_OPS_TD

include "BluAttrs.td"

def Blu_AttentionOp : Blu_InferredOp<"attention", [Blu_Differentiable]> {
  let summary = "scaled dot-product attention over heads";
  let description = [{
    q: B×T×H×D, k and v: B×S×Hk×D; query head h reads kv head ⌊h·Hk/H⌋:
    `o[b,t,h] = Σ_s softmax_s(scale · q[b,t,h]·k[b,s]) v[b,s]`, and
    `lse[b,h,t] = ln Σ_s e^(scale · q·k)`. With `causal`, query t sees the keys
    s ≤ t + (S - T): the last query sees all. Never holds a T×S matrix (Dao et
    al., arXiv 2205.14135).
    Constraints:
    - C1: one float element type, rank 4; k and v have one type; B and D agree.
    - C2: Hk divides H.
    - C3: with `causal`, S ≥ T.
    - C4: scale is positive and finite.
    Gradient: `blu.attention_grad`. Saves q, k, v, o and lse. A cotangent of lse is
    not supported.
    Example: `%o, %lse = blu.attention %q, %k, %v scale = 0.125 causal : (tensor<2x32x4x64xf32>, tensor<2x32x4x64xf32>, tensor<2x32x4x64xf32>) -> (tensor<2x32x4x64xf32>, tensor<2x4x32xf32>)`
  }];
  let arguments = (ins Blu_FloatTensor:$q, Blu_FloatTensor:$k,
                       Blu_FloatTensor:$v, F64Attr:$scale, UnitAttr:$causal);
  let results = (outs Blu_FloatTensor:$result, Blu_FloatTensor:$lse);
  let assemblyFormat = [{
    $q `,` $k `,` $v `scale` `=` $scale (`causal` $causal^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Blu_AttentionGradOp : Blu_InferredOp<"attention_grad"> {
  let summary = "cotangents of q, k and v of `blu.attention`";
  let description = [{
    With p = e^(scale·q·k - lse) and δ = Σ_d g·o: `dv = pᵀ·g`,
    `ds = p·(g·vᵀ - δ)`, `dq = scale·ds·k`, `dk = scale·dsᵀ·q`; p is recomputed.
    Constraints:
    - C1: q, k, v as for `blu.attention`; o and the cotangent have q's type,
      lse its type there.
    Gradient: not supported.
    Example: `%dq, %dk, %dv = blu.attention_grad %q, %k, %v, %o, %lse, %g scale = 0.125 causal : (tensor<2x32x4x64xf32>, tensor<2x32x4x64xf32>, tensor<2x32x4x64xf32>, tensor<2x32x4x64xf32>, tensor<2x4x32xf32>, tensor<2x32x4x64xf32>) -> (tensor<2x32x4x64xf32>, tensor<2x32x4x64xf32>, tensor<2x32x4x64xf32>)`
  }];
  let arguments = (ins Blu_FloatTensor:$q, Blu_FloatTensor:$k,
                       Blu_FloatTensor:$v, Blu_FloatTensor:$o,
                       Blu_FloatTensor:$lse, Blu_FloatTensor:$grad,
                       F64Attr:$scale, UnitAttr:$causal);
  let results = (outs Blu_FloatTensor:$d_q, Blu_FloatTensor:$d_k,
                      Blu_FloatTensor:$d_v);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $o `,` $lse `,` $grad `scale` `=` $scale
    (`causal` $causal^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Blu_CachedAttentionOp : Blu_InferredOp<"cached_attention"> {
  let summary = "attention of new queries over a key-value cache";
  let description = [{
    Writes k and v (B×T×Hk×D) into rows position … position+T-1 of the caches
    (B×S×Hk×D), then attends causally: query t sees cache rows s ≤ position + t.
    Results: o (q's type) and the new caches.
    Constraints:
    - C1: q, k, v as for `blu.attention`, with k's length that of q; caches have
      one type, whose extents but dim 1 are k's.
    - C2: S ≥ T.
    Gradient: none, generation is not differentiated.
    Example: `%o, %kc2, %vc2 = blu.cached_attention %q, %k, %v, %kc, %vc at %p scale = 0.125 : (tensor<1x1x4x64xf32>, tensor<1x1x4x64xf32>, tensor<1x1x4x64xf32>, tensor<1x128x4x64xf32>, tensor<1x128x4x64xf32>, tensor<i64>) -> (tensor<1x1x4x64xf32>, tensor<1x128x4x64xf32>, tensor<1x128x4x64xf32>)`
  }];
  let arguments = (ins Blu_FloatTensor:$q, Blu_FloatTensor:$k,
                       Blu_FloatTensor:$v, Blu_FloatTensor:$k_cache,
                       Blu_FloatTensor:$v_cache, Blu_I64Scalar:$position,
                       F64Attr:$scale);
  let results = (outs Blu_FloatTensor:$result, Blu_FloatTensor:$new_k_cache,
                      Blu_FloatTensor:$new_v_cache);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $k_cache `,` $v_cache `at` $position `scale` `=` $scale
    attr-dict `:` functional-type(operands, results)
  }];
}

#endif // BLU_ATTENTION_OPS_TD
