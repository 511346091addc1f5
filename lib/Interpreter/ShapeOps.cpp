//===- ShapeOps.cpp - moving elements -------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

using namespace mlir;
using namespace blutrain;

static LogicalResult evaluateReshape(blu::ReshapeOp op, Evaluation &e) {
  Tensor y = e[op.getInput()];
  SmallVector<int64_t> shape;
  int64_t known = 1;
  for (auto [i, entry] : llvm::enumerate(op.getShape())) {
    shape.push_back(entry == 0 ? y.shape[i] : entry);
    if (entry != -1)
      known *= shape.back();
  }
  for (int64_t &extent : shape)
    if (extent == -1)
      extent = known == 0 ? 0 : y.size() / known;
  if (elementCount(shape) != y.size())
    return op.emitOpError() << "input of shape " << blu::shapeString(y.shape)
                            << " does not have as many elements as shape "
                            << blu::shapeString(shape);
  y.shape = shape;
  return e.set(op, std::move(y));
}

static LogicalResult evaluateTranspose(blu::TransposeOp op, Evaluation &e) {
  const Tensor &x = e[op.getInput()];
  ArrayRef<int64_t> permutation = op.getPermutation();
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(x.shape[dim]);
  Tensor y = zerosFor(op, shape);
  SmallVector<int64_t> source(x.rank());
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    for (auto [i, dim] : llvm::enumerate(permutation))
      source[dim] = index[i];
    y.copyElement(y.offset(index), x, x.offset(source));
  });
  return e.set(op, std::move(y));
}

static LogicalResult evaluateBroadcast(blu::BroadcastOp op, Evaluation &e) {
  const Tensor &x = e[op.getInput()];
  auto type = op.getType();
  Tensor y = zerosFor(op, type.getShape());
  forEachIndex(type.getShape(), [&](ArrayRef<int64_t> index) {
    y.copyElement(y.offset(index), x, x.broadcastOffset(index));
  });
  return e.set(op, std::move(y));
}

/// Elements `start` … `start + size - 1` of `x` along `dim`.
static Tensor rangeOf(const Tensor &x, int64_t dim, int64_t start,
                      int64_t size) {
  SmallVector<int64_t> shape = x.shape;
  shape[dim] = size;
  Tensor y(shape, x.elementType);
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> source(index);
    source[dim] += start;
    y.copyElement(y.offset(index), x, x.offset(source));
  });
  return y;
}

static LogicalResult evaluateSlice(blu::SliceOp op, Evaluation &e) {
  const Tensor &x = e[op.getInput()];
  int64_t dim = op.getDim(), start = op.getStart(), size = op.getSize();
  if (start + size > x.shape[dim])
    return op.emitOpError() << "range of " << size << " from " << start
                            << " does not lie within dim " << dim
                            << " of extent " << x.shape[dim];
  return e.set(op, rangeOf(x, dim, start, size));
}

static LogicalResult evaluateSplit(blu::SplitOp op, Evaluation &e) {
  const Tensor &x = e[op.getInput()];
  int64_t dim = op.getDim(), start = 0;
  for (int64_t size : op.getSizes())
    start += size;
  if (start != x.shape[dim])
    return op.emitOpError() << "parts add up to " << start << ", dim " << dim
                            << " is " << x.shape[dim];
  start = 0;
  for (auto [part, size] : llvm::zip(op.getParts(), op.getSizes())) {
    if (failed(e.set(part, rangeOf(x, dim, start, size))))
      return failure();
    start += size;
  }
  return success();
}

static LogicalResult evaluateConcat(blu::ConcatOp op, Evaluation &e) {
  int64_t dim = op.getDim();
  SmallVector<int64_t> shape = e[op.getParts().front()].shape;
  shape[dim] = 0;
  for (Value part : op.getParts()) {
    SmallVector<int64_t> expected = shape;
    expected[dim] = e[part].shape[dim];
    if (e[part].shape != expected)
      return op.emitOpError()
             << "part has shape " << blu::shapeString(e[part].shape)
             << ", expected " << blu::shapeString(expected);
    shape[dim] += e[part].shape[dim];
  }
  Tensor y = zerosFor(op, shape);
  int64_t start = 0;
  for (Value value : op.getParts()) {
    const Tensor &part = e[value];
    forEachIndex(part.shape, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> target(index);
      target[dim] += start;
      y.copyElement(y.offset(target), part, part.offset(index));
    });
    start += part.shape[dim];
  }
  return e.set(op, std::move(y));
}

static LogicalResult evaluatePositions(blu::PositionsOp op, Evaluation &e) {
  int64_t first = op.getPosition() ? e[op.getPosition()].ints[0] : 0;
  Tensor y = zerosFor(op, {e[op.getLike()].shape[op.getDim()]});
  for (int64_t t = 0; t < y.size(); ++t)
    y.ints[t] = first + t;
  return e.set(op, std::move(y));
}

static LogicalResult evaluateStopGradient(blu::StopGradientOp op,
                                          Evaluation &e) {
  return e.set(op, e[op.getInput()]);
}

void blutrain::registerShapeEvaluators(EvaluatorRegistry &registry) {
  registry.add<blu::ReshapeOp>(evaluateReshape);
  registry.add<blu::TransposeOp>(evaluateTranspose);
  registry.add<blu::BroadcastOp>(evaluateBroadcast);
  registry.add<blu::SliceOp>(evaluateSlice);
  registry.add<blu::SplitOp>(evaluateSplit);
  registry.add<blu::ConcatOp>(evaluateConcat);
  registry.add<blu::PositionsOp>(evaluatePositions);
  registry.add<blu::StopGradientOp>(evaluateStopGradient);
}
