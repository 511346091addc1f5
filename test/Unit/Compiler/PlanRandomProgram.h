//===- PlanRandomProgram.h - random blurt programs --------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_TEST_UNIT_COMPILER_PLANRANDOMPROGRAM_H
#define BLUTRAIN_TEST_UNIT_COMPILER_PLANRANDOMPROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace blutrain::test {

/// A module with one function @train in tensor form, which has state that is
/// donated (and can be updated in place), state that is only read, inputs, and
/// outputs; its body has groups with and without reductions, products, views,
/// concatenations, scatters, cache updates and nested loops in both directions.
mlir::OwningOpRef<mlir::ModuleOp> makeRandomProgram(mlir::MLIRContext *context,
                                                    unsigned seed);

} // namespace blutrain::test

#endif // BLUTRAIN_TEST_UNIT_COMPILER_PLANRANDOMPROGRAM_H
