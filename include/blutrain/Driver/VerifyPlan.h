//===- VerifyPlan.h - a sharded program against the whole one ---*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_DRIVER_VERIFYPLAN_H
#define BLUTRAIN_DRIVER_VERIFYPLAN_H

#include "mlir/IR/BuiltinOps.h"

namespace blutrain {

/// Runs the train and eval steps of `sharded`, as the shard stage leaves it, on
/// all devices of its mesh, and those of `whole`, the module before it, on one,
/// in the interpreter, in f64 and on made-up numbers. Fails after a diagnostic
/// if a result differs by more than rounding in f64 can explain, or if the
/// devices do not meet in the same collectives.
mlir::LogicalResult verifyPlan(mlir::ModuleOp whole, mlir::ModuleOp sharded);
/// The same where the devices run a module each.
mlir::LogicalResult verifyPlan(mlir::ModuleOp whole,
                               llvm::ArrayRef<mlir::ModuleOp> sharded);

} // namespace blutrain

#endif // BLUTRAIN_DRIVER_VERIFYPLAN_H
