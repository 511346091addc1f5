//===- MathExpansion.h - f32 functions as polynomials ---------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_CODEGEN_MATHEXPANSION_H
#define BLUTRAIN_CODEGEN_MATHEXPANSION_H

#include "mlir/IR/Builders.h"

namespace mlir::blurt {

/// Each builds the function of `x`, an f32 or a vector of f32, out of arith
/// and `math.fma`. The same bits for scalars and for vectors. Largest errors
/// over all f32, in units of the last place, from
/// test/Unit/Compiler/MathTest.cpp: exp 1.0, log 0.8, tanh 1.3, erf 1.1, powf
/// 0.5. Infinities, NaN, zeros and subnormal results are those of libm.
/// With `device` exp, tanh and erf are shorter and use an NVIDIA GPU's own 2^x
/// and 1/x; subnormal results of exp are 0, and errors a unit or two larger.
/// With `device` and `approximate` exp is 2^(x log2(e)) with the exponent
/// rounded to f32: within (1 + |x|)·2^-22 of the result.
Value expandExp(OpBuilder &builder, Location loc, Value x, bool device = false,
                bool approximate = false);
Value expandLog(OpBuilder &builder, Location loc, Value x);
Value expandTanh(OpBuilder &builder, Location loc, Value x,
                 bool device = false);
Value expandErf(OpBuilder &builder, Location loc, Value x, bool device = false);
Value expandPow(OpBuilder &builder, Location loc, Value x, Value y);

} // namespace mlir::blurt

#endif // BLUTRAIN_CODEGEN_MATHEXPANSION_H
