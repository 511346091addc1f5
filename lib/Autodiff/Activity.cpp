//===- Activity.cpp - which values a cotangent has to reach ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Differentiate.h"

#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

static bool isDifferentiableType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && isa<FloatType>(tensor.getElementType());
}

/// Operands, and what regions take from above.
static llvm::SetVector<Value> usedValues(Operation &op) {
  llvm::SetVector<Value> used(op.operand_begin(), op.operand_end());
  getUsedValuesDefinedAbove(op.getRegions(), used);
  return used;
}

ActivityAnalysis::ActivityAnalysis(Block &block, ValueRange inputs,
                                   ValueRange outputs) {
  for (Value input : inputs)
    if (isDifferentiableType(input.getType()))
      active.insert(input);
  for (Value output : outputs)
    useful.insert(output);
  propagateForward(block);
  propagateBackward(block);
}

void ActivityAnalysis::clone(Value original, Value copy) {
  if (active.contains(original))
    active.insert(copy);
  if (useful.contains(original))
    useful.insert(copy);
}

void ActivityAnalysis::forget(Value value) {
  active.erase(value);
  useful.erase(value);
}

void ActivityAnalysis::propagateForward(Block &block) {
  auto activate = [&](Value value) {
    return isDifferentiableType(value.getType()) && active.insert(value).second;
  };
  for (Operation &op : block) {
    if (auto stack = dyn_cast<StackOp>(op)) {
      for (auto [i, slice] : llvm::enumerate(stack.getSlices()))
        if (isActive(slice))
          activate(stack.getSliceArg(i));
      for (auto [i, carry] : llvm::enumerate(stack.getCarries()))
        if (isActive(carry))
          activate(stack.getCarryArg(i));
      // What one iteration makes active the next may pass on.
      bool changed = true;
      while (changed) {
        propagateForward(*stack.getBodyBlock());
        changed = false;
        for (unsigned i = 0; i < stack.getNumCarries(); ++i)
          if (isActive(stack.getYield().getValues()[i]))
            changed |= activate(stack.getCarryArg(i));
      }
      for (auto [value, result] :
           llvm::zip(stack.getYield().getValues(), stack.getResults()))
        if (isActive(value))
          activate(result);
      for (unsigned i = 0; i < stack.getNumCarries(); ++i)
        if (isActive(stack.getCarryArg(i)))
          activate(stack.getResult(i));
      continue;
    }
    if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
      propagateForward(*checkpoint.getBodyBlock());
      for (auto [value, result] : llvm::zip(checkpoint.getYield().getValues(),
                                            checkpoint.getResults()))
        if (isActive(value))
          activate(result);
      continue;
    }
    if (isa<StopGradientOp>(op))
      continue;
    if (llvm::any_of(usedValues(op), [&](Value v) { return isActive(v); }))
      for (Value result : op.getResults())
        activate(result);
  }
}

void ActivityAnalysis::propagateBackward(Block &block) {
  for (Operation &op : llvm::reverse(block)) {
    if (auto stack = dyn_cast<StackOp>(op)) {
      auto yielded = stack.getYield().getValues();
      for (auto [value, result] : llvm::zip(yielded, stack.getResults()))
        if (isUseful(result))
          useful.insert(value);
      bool changed = true;
      while (changed) {
        propagateBackward(*stack.getBodyBlock());
        changed = false;
        for (unsigned i = 0; i < stack.getNumCarries(); ++i)
          if (isUseful(stack.getCarryArg(i)))
            changed |= useful.insert(yielded[i]).second;
      }
      for (auto [i, carry] : llvm::enumerate(stack.getCarries()))
        if (isUseful(stack.getCarryArg(i)) || isUseful(stack.getResult(i)))
          useful.insert(carry);
      for (auto [i, slice] : llvm::enumerate(stack.getSlices()))
        if (isUseful(stack.getSliceArg(i)))
          useful.insert(slice);
      continue;
    }
    if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
      for (auto [value, result] : llvm::zip(checkpoint.getYield().getValues(),
                                            checkpoint.getResults()))
        if (isUseful(result))
          useful.insert(value);
      propagateBackward(*checkpoint.getBodyBlock());
      continue;
    }
    if (isa<StopGradientOp>(op))
      continue;
    if (llvm::any_of(op.getResults(), [&](Value v) { return isUseful(v); }))
      for (Value value : usedValues(op))
        useful.insert(value);
  }
}

LogicalResult ActivityAnalysis::verifyDifferentiable(Block &block) const {
  LogicalResult result = success();
  block.walk([&](Operation *op) {
    if (isa<StackOp, CheckpointOp, StopGradientOp, YieldOp, ReturnOp,
            DifferentiableOpInterface>(op))
      return;
    auto varied = [&](Value value) { return isVaried(value); };
    if (llvm::any_of(op->getResults(), varied) &&
        llvm::any_of(usedValues(*op), [&](Value v) { return isActive(v); })) {
      op->emitOpError("has no gradient, but the loss depends on its result and "
                      "its operands on a parameter");
      result = failure();
    }
  });
  return result;
}
