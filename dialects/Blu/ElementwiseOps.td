//===- ElementwiseOps.td - one result element from one element -*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_ELEMENTWISE_OPS_TD
#define BLU_ELEMENTWISE_OPS_TD

include "BluAttrs.td"

//===----------------------------------------------------------------------===//
// Binary, with broadcasting
//===----------------------------------------------------------------------===//

class Blu_BinaryOp<string mnemonic, list<Trait> traits = []>
    : Blu_InferredOp<mnemonic, traits # [Blu_Differentiable]> {
  let arguments = (ins Blu_NumberTensor:$lhs, Blu_NumberTensor:$rhs);
  let results = (outs Blu_NumberTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs attr-dict `:` functional-type(operands, results)
  }];
  code constraints = [{
    Constraints:
    - C1: operands have the same element type.
    - C2: shapes broadcast: aligned at the last dim, extents are equal or 1, or
      missing.
  }];
}

def Blu_AddOp : Blu_BinaryOp<"add", [Commutative]> {
  let summary = "sum of two tensors";
  let description = "`y = a + b`." # constraints # [{
    Gradient: da = g, db = g, each summed over the dims it was broadcast along.
    Example: `%y = blu.add %a, %b : (tensor<3x1xf32>, tensor<4xf32>) -> tensor<3x4xf32>`
  }];
}

def Blu_SubOp : Blu_BinaryOp<"sub"> {
  let summary = "difference of two tensors";
  let description = "`y = a - b`." # constraints # [{
    Gradient: da = g, db = -g, each summed over the dims it was broadcast along.
    Example: `%y = blu.sub %a, %b : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>`
  }];
}

def Blu_MulOp : Blu_BinaryOp<"mul", [Commutative]> {
  let summary = "elementwise product";
  let description = "`y = a · b`." # constraints # [{
    Gradient: da = g·b, db = g·a, each summed over the dims it was broadcast along.
    Example: `%y = blu.mul %a, %b : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>`
  }];
}

def Blu_DivOp : Blu_BinaryOp<"div"> {
  let summary = "elementwise quotient";
  let description = "`y = a / b`; integers divide towards zero." # constraints # [{
    Gradient: da = g/b, db = -g·(a/b)/b, each summed over the dims it was
    broadcast along.
    Example: `%y = blu.div %a, %b : (tensor<3x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>`
  }];
}

def Blu_MaximumOp : Blu_BinaryOp<"maximum", [Commutative]> {
  let summary = "larger of two elements, NaN if either is";
  let description = "`y = max(a, b)`." # constraints # [{
    Gradient: g goes to the larger; where both are equal, half to each.
    Example: `%y = blu.maximum %a, %b : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>`
  }];
}

def Blu_MinimumOp : Blu_BinaryOp<"minimum", [Commutative]> {
  let summary = "smaller of two elements, NaN if either is";
  let description = "`y = min(a, b)`." # constraints # [{
    Gradient: g goes to the smaller; where both are equal, half to each.
    Example: `%y = blu.minimum %a, %b : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>`
  }];
}

def Blu_CompareOp : Blu_InferredOp<"compare"> {
  let summary = "elementwise comparison with broadcasting";
  let description = [{
    `y = a ⋈ b` with ⋈ one of eq, ne, lt, le, gt, ge; a NaN compares false, but
    for ne.
    Constraints:
    - C1: operands have the same element type.
    - C2: shapes broadcast as for `blu.add`.
    Gradient: none, the result is a truth value.
    Example: `%m = blu.compare gt %x, %z : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>`
  }];
  let arguments = (ins Blu_ComparePredicate:$predicate, Blu_NumberTensor:$lhs,
                       Blu_NumberTensor:$rhs);
  let results = (outs Blu_BoolTensor:$result);
  let assemblyFormat = [{
    $predicate $lhs `,` $rhs attr-dict `:` functional-type(operands, results)
  }];
}

def Blu_SelectOp : Blu_InferredOp<"select", [Blu_Differentiable]> {
  let summary = "one of two elements by a condition, with broadcasting";
  let description = [{
    `y = c ? a : b`.
    Constraints:
    - C1: both choices have the same element type.
    - C2: the three shapes broadcast as for `blu.add`.
    Gradient: da = c ? g : 0, db = c ? 0 : g, each summed over the dims it was
    broadcast along.
    Example: `%y = blu.select %c, %a, %b : (tensor<3x4xi1>, tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>`
  }];
  let arguments = (ins Blu_BoolTensor:$condition, Blu_NumberTensor:$on_true,
                       Blu_NumberTensor:$on_false);
  let results = (outs Blu_NumberTensor:$result);
  let assemblyFormat = [{
    $condition `,` $on_true `,` $on_false attr-dict `:`
    functional-type(operands, results)
  }];
}

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

class Blu_UnaryOp<string mnemonic, string formula, string gradient,
                  list<Trait> traits = []>
    : Blu_Op<mnemonic, traits # [Pure, SameOperandsAndResultType,
                                 Blu_Differentiable]> {
  let arguments = (ins Blu_FloatTensor:$input);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
  let description = "`y = " # formula # [{`.
    Constraints:
    - C1: the result has the operand's type.
    Gradient: dx = }] # gradient # [{.
    Example: `%y = blu.}] # mnemonic # [{ %x : tensor<8x64xf32>`
  }];
}

def Blu_NegOp : Blu_UnaryOp<"neg", "-x", "-g"> {
  let summary = "sign change";
}
def Blu_AbsOp : Blu_UnaryOp<"abs", "|x|", "g·sign(x), 0 at 0"> {
  let summary = "absolute value";
}
def Blu_ExpOp : Blu_UnaryOp<"exp", "e^x", "g·y"> {
  let summary = "natural exponential";
}
def Blu_LogOp : Blu_UnaryOp<"log", "ln x", "g/x"> {
  let summary = "natural logarithm";
}
def Blu_SqrtOp : Blu_UnaryOp<"sqrt", "√x", "g/(2y)"> {
  let summary = "square root";
}
def Blu_RsqrtOp : Blu_UnaryOp<"rsqrt", "1/√x", "-g·y/(2x)"> {
  let summary = "reciprocal square root";
}
def Blu_TanhOp : Blu_UnaryOp<"tanh", "tanh x", "g·(1 - y²)"> {
  let summary = "hyperbolic tangent";
}
def Blu_SigmoidOp : Blu_UnaryOp<"sigmoid", "1/(1 + e^-x)", "g·y·(1 - y)"> {
  let summary = "logistic function";
}
def Blu_SiluOp : Blu_UnaryOp<"silu", "x·s with s = 1/(1 + e^-x)",
                             "g·s·(1 + x·(1 - s))"> {
  let summary = "sigmoid-weighted linear unit";
}
def Blu_ReluOp : Blu_UnaryOp<"relu", "max(x, 0)", "x > 0 ? g : 0"> {
  let summary = "rectified linear unit";
}

def Blu_GeluOp : Blu_Op<"gelu", [Pure, Blu_Differentiable,
    AllTypesMatch<["input", "result"]>]> {
  let summary = "Gaussian error linear unit";
  let description = [{
    erf: `y = x·Φ(x)`, Φ(x) = (1 + erf(x/√2))/2; tanh: Φ(x) ≈
    (1 + tanh(√(2/π)·(x + 0.044715·x³)))/2 (Hendrycks & Gimpel, arXiv 1606.08415).
    Constraints:
    - C1: the result has the operand's type.
    Gradient: `blu.gelu_grad`. Saves the input.
    Example: `%y = blu.gelu %x approximate(tanh) : tensor<8x64xf32>`
  }];
  let arguments = (ins Blu_FloatTensor:$input, Blu_GeluKind:$kind);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = [{
    $input `approximate` `(` $kind `)` attr-dict `:` type($input)
  }];
}

def Blu_GeluGradOp : Blu_Op<"gelu_grad", [Pure,
    AllTypesMatch<["input", "grad", "result"]>]> {
  let summary = "cotangent of the input of `blu.gelu`";
  let description = [{
    `dx = g·(Φ(x) + x·Φ'(x))` with Φ' the derivative of the chosen Φ.
    Constraints:
    - C1: input, cotangent and result have one type.
    Gradient: not supported.
    Example: `%dx = blu.gelu_grad %x, %g approximate(tanh) : tensor<8x64xf32>`
  }];
  let arguments = (ins Blu_FloatTensor:$input, Blu_FloatTensor:$grad,
                       Blu_GeluKind:$kind);
  let results = (outs Blu_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $grad `approximate` `(` $kind `)` attr-dict `:` type($input)
  }];
}

def Blu_CastOp : Blu_Op<"cast", [Pure, Blu_Differentiable,
    SameOperandsAndResultShape]> {
  let summary = "the same values in another element type";
  let description = [{
    Floats round to nearest even, floats to integers truncate, i1 is 0 or 1;
    a number casts to i1 as `x ≠ 0`.
    Constraints:
    - C1: the result has the operand's shape.
    Gradient: dx = cast of g back; none where either type is an integer.
    Example: `%y = blu.cast %x : tensor<8x64xf32> to tensor<8x64xbf16>`
  }];
  let arguments = (ins Blu_Tensor:$input);
  let results = (outs Blu_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
  let hasFolder = 1;
}

def Blu_ConstantOp : Blu_Op<"constant", [Pure, ConstantLike,
    AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor known at compile time";
  let description = [{
    Constraints:
    - C1: the value has the result's type.
    Gradient: none, it has no operand.
    Example: `%c = blu.constant dense<0.5> : tensor<f32>`
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Blu_Tensor:$result);
  let assemblyFormat = "attr-dict $value";
  let hasFolder = 1;
}

#endif // BLU_ELEMENTWISE_OPS_TD
