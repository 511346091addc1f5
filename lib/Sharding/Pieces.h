//===- Pieces.h - state that is cut among devices ---------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_SHARDING_PIECES_H
#define BLUTRAIN_LIB_SHARDING_PIECES_H

#include "Blu/Blu.h"

namespace blutrain {

/// Whether `blu.tensor` says that dim 0 is the iteration of a stack.
bool isStacked(mlir::blu::StepOp step, mlir::BlockArgument argument);

/// Makes an argument that is state a device's piece of itself.
void cutState(mlir::blu::StepOp step, mlir::BlockArgument argument,
              int64_t size);

/// After types of arguments or results have changed.
void updateFunctionType(mlir::blu::StepOp step);

} // namespace blutrain

#endif // BLUTRAIN_LIB_SHARDING_PIECES_H
