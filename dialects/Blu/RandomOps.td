//===- RandomOps.td - counter-based random numbers ---------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_RANDOM_OPS_TD
#define BLU_RANDOM_OPS_TD

include "BluAttrs.td"

def Blu_DropoutOp : Blu_Op<"dropout", [Pure, Blu_Differentiable,
    AllTypesMatch<["input", "result"]>]> {
  let summary = "zero elements at random, scale up the rest";
  let description = [{
    `y = u(key, i) ≥ rate ? x/(1 - rate) : 0` for the element of row-major index
    i. u is uniform in [0, 1): the low 24 bits of `mix(mix(key) + i)`, times 2^-24.
    mix is a step of SplitMix64 (Steele et al., OOPSLA 2014) from the state x,
    modulo 2^64: `z = x + 0x9E3779B97F4A7C15`; `z = (z ^ z>>30) ·
    0xBF58476D1CE4E5B9`; `z = (z ^ z>>27) · 0x94D049BB133111EB`; `mix(x) = z ^
    z>>31`, so that mix(0) = 0xE220A8397B1DCDAF. Without a key (in a model file)
    the op marks where dropout belongs and passes x on: the train program gives it
    a key, all others drop it. At rate 0 it folds to its input, so the rate of
    markers is set before anything is simplified.
    Constraints:
    - C1: the result has the operand's type.
    - C2: 0 ≤ rate < 1.
    Gradient: dx = `blu.dropout` of g with the same key and rate.
    Example: `%y = blu.dropout %x key %k rate = 0.1 : tensor<8x64xf32>`
  }];
  let arguments = (ins Blu_FloatTensor:$input, Optional<Blu_I64Scalar>:$key,
                       F64Attr:$rate);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = [{
    $input (`key` $key^)? `rate` `=` $rate attr-dict `:` type($input)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Blu_RandomKeyOp : Blu_Op<"random_key", [Pure]> {
  let summary = "the key of one use of random numbers";
  let description = [{
    `key = mix(mix(mix(mix(seed) + step) + site) + iteration)`, mix as for
    `blu.dropout`, iteration 0 where there is none: different for each seed, step,
    place in the model and iteration of the stack around it.
    Constraints:
    - C1: all operands are i64 scalars.
    Gradient: none, the result is an integer.
    Example: `%k = blu.random_key %seed, %step, %i site = 3`
  }];
  let arguments = (ins Blu_I64Scalar:$seed, Blu_I64Scalar:$step,
                       Optional<Blu_I64Scalar>:$iteration, I64Attr:$site);
  let results = (outs Blu_I64Scalar:$result);
  let assemblyFormat = [{
    $seed `,` $step (`,` $iteration^)? `site` `=` $site attr-dict `:`
    functional-type(operands, results)
  }];
}

#endif // BLU_RANDOM_OPS_TD
