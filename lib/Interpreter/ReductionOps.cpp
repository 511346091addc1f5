//===- ReductionOps.cpp - combining elements along dims -------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include <cmath>

using namespace mlir;
using namespace blutrain;

/// Combines the elements of `x` along `dims` in row-major order: `combine` gets
/// the position in the result, that of the element, and whether it is the
/// result's first.
static void
reduce(const Tensor &x, ArrayRef<int64_t> dims, Tensor &y,
       function_ref<void(int64_t to, int64_t from, bool isFirst)> combine) {
  SmallVector<int64_t> kept = x.shape;
  for (int64_t dim : dims)
    kept[dim] = 1;
  Tensor layout(kept, x.elementType); // y with its reduced dims
  forEachIndex(x.shape, [&](ArrayRef<int64_t> index) {
    bool isFirst =
        llvm::all_of(dims, [&](int64_t dim) { return index[dim] == 0; });
    combine(layout.broadcastOffset(index), x.offset(index), isFirst);
  });
}

template <typename Op> static Tensor resultOf(Op op, const Tensor &x) {
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (!llvm::is_contained(op.getDims(), i))
      shape.push_back(x.shape[i]);
    else if (op.getKeepDims())
      shape.push_back(1);
  }
  return zerosFor(op, shape);
}

template <typename Op> static Tensor sumOf(Op op, const Tensor &x) {
  Tensor y = resultOf(op, x);
  reduce(x, op.getDims(), y, [&](int64_t to, int64_t from, bool) {
    if (y.isFloat())
      y.floats[to] += x.floats[from];
    else
      y.ints[to] = int64_t(uint64_t(y.ints[to]) + uint64_t(x.ints[from]));
  });
  return y;
}

static LogicalResult evaluateSum(blu::ReduceSumOp op, Evaluation &e) {
  return e.set(op, sumOf(op, e[op.getInput()]));
}

static LogicalResult evaluateMean(blu::ReduceMeanOp op, Evaluation &e) {
  const Tensor &x = e[op.getInput()];
  Tensor y = sumOf(op, x);
  int64_t count = 1;
  for (int64_t dim : op.getDims())
    count *= x.shape[dim];
  if (!y.isFloat() && count == 0)
    return op.emitOpError("takes the mean of no integers");
  for (double &element : y.floats)
    element /= double(count);
  for (int64_t &element : y.ints)
    element /= count;
  return e.set(op, std::move(y));
}

static LogicalResult evaluateMax(blu::ReduceMaxOp op, Evaluation &e) {
  const Tensor &x = e[op.getInput()];
  Tensor y = resultOf(op, x);
  if (x.size() == 0 && y.size() != 0)
    return op.emitOpError("takes the maximum of no elements");
  reduce(x, op.getDims(), y, [&](int64_t to, int64_t from, bool isFirst) {
    if (!y.isFloat()) {
      if (isFirst || x.ints[from] > y.ints[to])
        y.ints[to] = x.ints[from];
      return;
    }
    double next = x.floats[from];
    // Once a NaN, always a NaN: it compares false.
    if (isFirst || std::isnan(next) || next > y.floats[to])
      y.floats[to] = next;
  });
  return e.set(op, std::move(y));
}

void blutrain::registerReductionEvaluators(EvaluatorRegistry &registry) {
  registry.add<blu::ReduceSumOp>(evaluateSum);
  registry.add<blu::ReduceMeanOp>(evaluateMean);
  registry.add<blu::ReduceMaxOp>(evaluateMax);
}
