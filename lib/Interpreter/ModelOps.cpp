//===- ModelOps.cpp - parameters, stacks, checkpoints, accumulation -------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

using namespace mlir;
using namespace blutrain;

static LogicalResult evaluateParam(blu::ParamOp op, Evaluation &e) {
  const Tensor *value = e.findParameter(op.getName());
  if (!value)
    return op.emitOpError() << "'" << e.fullName(op.getName())
                            << "' has no value, expected " << op.getType();
  return e.set(op.getResult(), *value);
}

/// Element i of a tensor along dim 0.
static Tensor sliceAt(const Tensor &tensor, int64_t i) {
  Tensor slice(ArrayRef<int64_t>(tensor.shape).drop_front(),
               tensor.elementType);
  for (int64_t j = 0; j < slice.size(); ++j)
    slice.copyElement(j, tensor, i * slice.size() + j);
  return slice;
}

static Tensor iterationScalar(Operation *op, int64_t i) {
  return Tensor::scalar(IntegerType::get(op->getContext(), 64), i);
}

static LogicalResult evaluateStack(blu::StackOp op, Evaluation &e) {
  int64_t count = op.getCount();
  SmallVector<Tensor> carries;
  for (Value carry : op.getCarries())
    carries.push_back(e[carry]);
  SmallVector<Tensor> collections(op.getNumCollected());
  for (int64_t step = 0; step < count; ++step) {
    int64_t i = op.getReverse() ? count - 1 - step : step;
    SmallVector<Tensor> arguments = {iterationScalar(op, i)};
    llvm::append_range(arguments, carries);
    for (Value slice : op.getSlices())
      arguments.push_back(sliceAt(e[slice], i));
    e.scopes.push_back(
        (op.getName() + "." + llvm::Twine(int64_t(op.getFirst()) + i) + ".")
            .str());
    auto yielded = e.run(*op.getBodyBlock(), arguments);
    e.scopes.pop_back();
    if (failed(yielded))
      return failure();
    for (unsigned c = 0; c < op.getNumCarries(); ++c)
      carries[c] = (*yielded)[c];
    for (unsigned c = 0; c < op.getNumCollected(); ++c) {
      const Tensor &value = (*yielded)[op.getNumCarries() + c];
      Tensor &all = collections[c];
      if (step == 0) {
        SmallVector<int64_t> shape = {count};
        llvm::append_range(shape, value.shape);
        all = Tensor(shape, value.elementType);
      }
      for (int64_t j = 0; j < value.size(); ++j)
        all.copyElement(i * value.size() + j, value, j);
    }
  }
  for (unsigned r = 0; r < op.getNumResults(); ++r)
    if (failed(
            e.set(op.getResult(r), r < op.getNumCarries()
                                       ? carries[r]
                                       : collections[r - op.getNumCarries()])))
      return failure();
  return success();
}

static LogicalResult evaluateCheckpoint(blu::CheckpointOp op, Evaluation &e) {
  auto yielded = e.run(*op.getBodyBlock(), {});
  if (failed(yielded))
    return failure();
  for (auto [result, value] : llvm::zip(op.getResults(), *yielded))
    if (failed(e.set(result, value)))
      return failure();
  return success();
}

static LogicalResult evaluateAccumulate(blu::AccumulateOp op, Evaluation &e) {
  SmallVector<Tensor> sums;
  for (int64_t k = 0, count = op.getCount(); k < count; ++k) {
    SmallVector<Tensor> arguments = {iterationScalar(op, k)};
    for (Value slice : op.getSlices())
      arguments.push_back(sliceAt(e[slice], k));
    auto yielded = e.run(*op.getBodyBlock(), arguments);
    if (failed(yielded))
      return failure();
    if (k == 0) {
      sums = *yielded;
      continue;
    }
    // Each partial sum is a result of its own: rounding happens at each.
    for (unsigned r = 0; r < op.getNumResults(); ++r) {
      for (auto [x, y] : llvm::zip(sums[r].floats, (*yielded)[r].floats))
        x += y;
      for (auto [x, y] : llvm::zip(sums[r].ints, (*yielded)[r].ints))
        x = int64_t(uint64_t(x) + uint64_t(y));
      if (failed(e.set(op.getResult(r), sums[r])))
        return failure();
      sums[r] = e[op.getResult(r)];
    }
  }
  for (unsigned r = 0; r < op.getNumResults(); ++r)
    if (failed(e.set(op.getResult(r), sums[r])))
      return failure();
  return success();
}

void blutrain::registerModelEvaluators(EvaluatorRegistry &registry) {
  registry.add<blu::ParamOp>(evaluateParam);
  registry.add<blu::StackOp>(evaluateStack);
  registry.add<blu::CheckpointOp>(evaluateCheckpoint);
  registry.add<blu::AccumulateOp>(evaluateAccumulate);
}
