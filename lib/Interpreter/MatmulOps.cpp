//===- MatmulOps.cpp - matrix products ------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

using namespace mlir;
using namespace blutrain;

static LogicalResult evaluateMatmul(blu::MatmulOp op, Evaluation &e) {
  Tensor a = e[op.getLhs()], b = e[op.getRhs()];
  bool isRow = a.rank() == 1, isColumn = b.rank() == 1;
  if (isRow)
    a.shape.insert(a.shape.begin(), 1);
  if (isColumn)
    b.shape.push_back(1);
  bool transA = op.getTransA(), transB = op.getTransB();
  int64_t rowsA = a.shape.end()[-2], columnsA = a.shape.end()[-1];
  int64_t rowsB = b.shape.end()[-2], columnsB = b.shape.end()[-1];
  int64_t m = transA ? columnsA : rowsA, k = transA ? rowsA : columnsA;
  int64_t n = transB ? rowsB : columnsB;
  if (k != (transB ? columnsB : rowsB))
    return op.emitOpError() << "contracting dims differ: " << k << " and "
                            << (transB ? columnsB : rowsB);
  // Leading dims alone, to find the matrices that one of the result reads.
  Tensor batchA, batchB;
  batchA.shape.assign(a.shape.begin(), a.shape.end() - 2);
  batchB.shape.assign(b.shape.begin(), b.shape.end() - 2);
  auto batch = blu::inferBroadcast(op.getLoc(), {batchA.shape, batchB.shape});
  if (failed(batch))
    return failure();
  SmallVector<int64_t> shape = *batch;
  if (!isRow)
    shape.push_back(m);
  if (!isColumn)
    shape.push_back(n);
  Tensor y = zerosFor(op, shape);
  int64_t out = 0;
  forEachIndex(*batch, [&](ArrayRef<int64_t> index) {
    const double *x = &a.floats[batchA.broadcastOffset(index) * m * k];
    const double *z = &b.floats[batchB.broadcastOffset(index) * k * n];
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += x[transA ? l * m + i : i * k + l] *
                 z[transB ? j * k + l : l * n + j];
        y.floats[out++] = sum;
      }
  });
  return e.set(op, std::move(y));
}

static LogicalResult evaluateLinear(blu::LinearOp op, Evaluation &e) {
  const Tensor &x = e[op.getInput()], &w = e[op.getWeight()];
  auto [rows, k] = asRows(x.shape);
  int64_t n = w.shape[0];
  if (k != w.shape[1])
    return op.emitOpError() << "contracting dims differ: input has " << k
                            << ", weight " << w.shape[1];
  SmallVector<int64_t> shape = x.shape;
  shape.back() = n;
  Tensor y = zerosFor(op, shape);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += x.floats[i * k + l] * w.floats[j * k + l];
      y.floats[i * n + j] =
          op.getBias() ? sum + e[op.getBias()].floats[j] : sum;
    }
  return e.set(op, std::move(y));
}

void blutrain::registerMatmulEvaluators(EvaluatorRegistry &registry) {
  registry.add<blu::MatmulOp>(evaluateMatmul);
  registry.add<blu::LinearOp>(evaluateLinear);
}
