//===- PlanInterpreter.h - runs blurt programs, naively ---------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Two interpreters of one dialect. In tensor form every value is an array of
// its own. In plan form every value is bytes of one arena, and operations write
// point by point as kernels do, so that an operand which the plan placed over a
// result is destroyed at the moment a kernel would destroy it.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_TEST_UNIT_COMPILER_PLANINTERPRETER_H
#define BLUTRAIN_TEST_UNIT_COMPILER_PLANINTERPRETER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <vector>

namespace blutrain::test {

/// Elements in row-major order. All element types are held as doubles; f32 is
/// rounded at each operation.
using Tensor = std::vector<double>;

/// Runs a function in tensor form.
std::vector<Tensor> interpretTensors(mlir::func::FuncOp func,
                                     const std::vector<Tensor> &arguments);

/// Runs a function in plan form on `arena`.
void interpretPlan(mlir::func::FuncOp func, std::vector<char> &arena);

/// Elements of `type` as bytes of an arena, and back.
void storeTensor(const Tensor &tensor, mlir::ShapedType type, char *bytes);
Tensor loadTensor(mlir::ShapedType type, const char *bytes);

} // namespace blutrain::test

#endif // BLUTRAIN_TEST_UNIT_COMPILER_PLANINTERPRETER_H
