//===- EmbeddingOps.cpp - rows by number ----------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

using namespace mlir;
using namespace blutrain;

static LogicalResult checkIds(Operation *op, const Tensor &ids, int64_t rows) {
  for (auto [i, id] : llvm::enumerate(ids.ints))
    if (id < 0 || id >= rows)
      return op->emitOpError()
             << "id " << i << " is " << id
             << ", expected at least 0 and less than " << rows;
  return success();
}

static LogicalResult evaluateEmbedding(blu::EmbeddingOp op, Evaluation &e) {
  const Tensor &table = e[op.getTable()], &ids = e[op.getIds()];
  int64_t width = table.shape[1];
  if (failed(checkIds(op, ids, table.shape[0])))
    return failure();
  SmallVector<int64_t> shape = ids.shape;
  shape.push_back(width);
  Tensor y = zerosFor(op, shape);
  for (int64_t n = 0; n < ids.size(); ++n)
    for (int64_t j = 0; j < width; ++j)
      y.floats[n * width + j] = table.floats[ids.ints[n] * width + j];
  return e.set(op, std::move(y));
}

static LogicalResult evaluateEmbeddingGrad(blu::EmbeddingGradOp op,
                                           Evaluation &e) {
  const Tensor &ids = e[op.getIds()], &g = e[op.getGrad()];
  int64_t width = g.shape.back();
  if (failed(checkIds(op, ids, op.getRows())))
    return failure();
  Tensor y = zerosFor(op, {int64_t(op.getRows()), width});
  for (int64_t n = 0; n < ids.size(); ++n)
    for (int64_t j = 0; j < width; ++j)
      y.floats[ids.ints[n] * width + j] += g.floats[n * width + j];
  return e.set(op, std::move(y));
}

void blutrain::registerEmbeddingEvaluators(EvaluatorRegistry &registry) {
  registry.add<blu::EmbeddingOp>(evaluateEmbedding);
  registry.add<blu::EmbeddingGradOp>(evaluateEmbeddingGrad);
}
