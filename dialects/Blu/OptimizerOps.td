//===- OptimizerOps.td - norms, clipping, updates ----------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_OPTIMIZER_OPS_TD
#define BLU_OPTIMIZER_OPS_TD

include "BluAttrs.td"

def Blu_GlobalNormOp : Blu_InferredOp<"global_norm"> {
  let summary = "Euclidean norm of several tensors together";
  let description = [{
    `y = √(Σ_k Σ x_k²)`: the squares of each tensor are added in a fixed order, then
    the tensors' sums in the order of the operands.
    Constraints:
    - C1: at least one operand; all have one float element type.
    Gradient: not supported.
    Example: `%n = blu.global_norm %a, %b : (tensor<8x64xf32>, tensor<64xf32>) -> tensor<f32>`
  }];
  let arguments = (ins Variadic<Blu_FloatTensor>:$inputs);
  let results = (outs Blu_FloatScalar:$result);
  let assemblyFormat = "$inputs attr-dict `:` functional-type(operands, results)";
}

def Blu_ClipScaleOp : Blu_Op<"clip_scale", [Pure,
    AllTypesMatch<["norm", "result"]>]> {
  let summary = "factor that brings a norm under a limit";
  let description = [{
    `y = clip > 0 ? min(1, clip/(norm + 1e-6)) : 1`.
    Constraints:
    - C1: the norm is a float scalar, the limit an f64 scalar.
    Gradient: not supported.
    Example: `%s = blu.clip_scale %n, %clip : (tensor<f32>, tensor<f64>) -> tensor<f32>`
  }];
  let arguments = (ins Blu_FloatScalar:$norm, Blu_F64Scalar:$clip);
  let results = (outs Blu_FloatScalar:$result);
  let assemblyFormat = [{
    $norm `,` $clip attr-dict `:` functional-type(operands, results)
  }];
}

def Blu_AdamWOp : Blu_Op<"adamw", [Pure,
    AllTypesMatch<["param", "grad", "m", "v", "new_param", "new_m", "new_v"]>]> {
  let summary = "AdamW update";
  let description = [{
    With t the step, from 1 (Loshchilov & Hutter, arXiv 1711.05101, in the order
    PyTorch computes it):
    ```
    p' = p·(1 - lr·wd)          (where `decay`)
    m  = β1·m + (1 - β1)·g
    v  = β2·v + (1 - β2)·g²
    p  = p' - lr/(1 - β1^t) · m / (√v/√(1 - β2^t) + eps)
    ```
    The factors that depend on scalars alone are computed in f64 and rounded once.
    With `when`, where that is false, all three stay as they are, whatever the
    gradient holds.
    Constraints:
    - C1: parameter, gradient and moments have one type.
    - C2: hyperparameters are f64 scalars, the step an i64 scalar, the condition an
      i1 scalar.
    Gradient: not supported.
    Example: `%p1, %m1, %v1 = blu.adamw %p, %g, %m, %v step %t lr %lr betas %b1, %b2 eps %e weight_decay %wd decay : tensor<8x64xf32>`
  }];
  let arguments = (ins Blu_FloatTensor:$param, Blu_FloatTensor:$grad,
                       Blu_FloatTensor:$m, Blu_FloatTensor:$v,
                       Blu_I64Scalar:$step, Blu_F64Scalar:$lr,
                       Blu_F64Scalar:$beta1, Blu_F64Scalar:$beta2,
                       Blu_F64Scalar:$eps, Blu_F64Scalar:$weight_decay,
                       Optional<Blu_BoolScalar>:$apply, UnitAttr:$decay);
  let results = (outs Blu_FloatTensor:$new_param, Blu_FloatTensor:$new_m,
                      Blu_FloatTensor:$new_v);
  let assemblyFormat = [{
    $param `,` $grad `,` $m `,` $v `step` $step `lr` $lr `betas` $beta1 `,`
    $beta2 `eps` $eps `weight_decay` $weight_decay (`decay` $decay^)?
    (`when` $apply^)? attr-dict `:` type($param)
  }];
}

def Blu_SgdOp : Blu_Op<"sgd", [Pure,
    AllTypesMatch<["param", "grad", "m", "new_param", "new_m"]>]> {
  let summary = "stochastic gradient descent with momentum";
  let description = [{
    ```
    g' = g + wd·p               (where `decay`)
    m  = μ·m + g'
    p  = p - lr·m
    ```
    (Sutskever et al., ICML 2013, as PyTorch writes it, without dampening.) The
    momentum starts at 0. With `when`, where that is false, both stay as they are,
    whatever the gradient holds.
    Constraints:
    - C1: parameter, gradient and momentum have one type.
    - C2: hyperparameters are f64 scalars, the condition an i1 scalar.
    Gradient: not supported.
    Example: `%p1, %m1 = blu.sgd %p, %g, %m lr %lr momentum %mu weight_decay %wd : tensor<8x64xf32>`
  }];
  let arguments = (ins Blu_FloatTensor:$param, Blu_FloatTensor:$grad,
                       Blu_FloatTensor:$m, Blu_F64Scalar:$lr,
                       Blu_F64Scalar:$momentum,
                       Blu_F64Scalar:$weight_decay,
                       Optional<Blu_BoolScalar>:$apply, UnitAttr:$decay);
  let results = (outs Blu_FloatTensor:$new_param, Blu_FloatTensor:$new_m);
  let assemblyFormat = [{
    $param `,` $grad `,` $m `lr` $lr `momentum` $momentum
    `weight_decay` $weight_decay (`decay` $decay^)? (`when` $apply^)? attr-dict
    `:` type($param)
  }];
}

#endif // BLU_OPTIMIZER_OPS_TD
