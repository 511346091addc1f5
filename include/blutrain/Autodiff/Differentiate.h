//===- Differentiate.h - reverse-mode differentiation -----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_AUTODIFF_DIFFERENTIATE_H
#define BLUTRAIN_AUTODIFF_DIFFERENTIATE_H

#include "Blu/Blu.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseSet.h"

namespace blutrain {

/// Which values of forward ops inside a stack the backward pass computes again
/// from saved ones instead of saving them.
enum class Recompute {
  Views, ///< moving elements only: reshape, split, transpose, …
  Cheap, ///< and what costs a pass over memory: norms, activations, elementwise
};

/// Says which values a cotangent has to reach: those that depend on one of the
/// inputs (`active`) and on which one of the outputs depends (`useful`). Walks
/// stacks to a fixed point, checkpoint regions, and stops at `stop_gradient`
/// and at integers.
class ActivityAnalysis {
public:
  ActivityAnalysis(mlir::Block &block, mlir::ValueRange inputs,
                   mlir::ValueRange outputs);

  bool isActive(mlir::Value value) const { return active.contains(value); }
  bool isUseful(mlir::Value value) const { return useful.contains(value); }
  bool isVaried(mlir::Value value) const {
    return isActive(value) && isUseful(value);
  }
  /// Gives `copy` the properties of `original`.
  void clone(mlir::Value original, mlir::Value copy);
  /// Before the op that defines `value` is erased.
  void forget(mlir::Value value);

  /// Emits an error for each op between inputs and outputs that has no gradient
  /// rule. All of them are listed before anything is built.
  llvm::LogicalResult verifyDifferentiable(mlir::Block &block) const;

private:
  void propagateForward(mlir::Block &block);
  void propagateBackward(mlir::Block &block);

  llvm::DenseSet<mlir::Value> active, useful;
};

/// Builds, before the terminator of `block`, the cotangents of `inputs` from
/// those of `outputs` (`seeds`, one each, of the output's type). `grads` gets
/// one value an input, zeros where no output depends on it. Ops of `block`
/// stay, but stacks are replaced by ones that also collect what the backward
/// pass needs.
///
/// Fails after diagnostics, with the block unchanged, if ops on the way have no
/// gradient rule; half built, if a rule fails.
llvm::LogicalResult differentiate(mlir::Block &block, mlir::ValueRange outputs,
                                  mlir::ValueRange seeds,
                                  mlir::ValueRange inputs, Recompute recompute,
                                  llvm::SmallVectorImpl<mlir::Value> &grads);

} // namespace blutrain

#endif // BLUTRAIN_AUTODIFF_DIFFERENTIATE_H
