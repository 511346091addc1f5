//===- BlurtEvaluator.h - blurt functions, one value at a time --*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Evaluates functions in tensor form with the rounding of their element types:
// every scalar operation rounds to its type, stored bf16 values are rounded,
// and a reduction adds in the row-major order of its group's domain. Two
// functions that say the same therefore give the same bits.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_TEST_UNIT_COMPILER_BLURTEVALUATOR_H
#define BLUTRAIN_TEST_UNIT_COMPILER_BLURTEVALUATOR_H

#include "blutrain/Interpreter/Tensor.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace blutrain::test {

std::vector<Tensor> evaluateBlurt(mlir::func::FuncOp func,
                                  const std::vector<Tensor> &arguments);

} // namespace blutrain::test

#endif // BLUTRAIN_TEST_UNIT_COMPILER_BLURTEVALUATOR_H
