//===- LossOps.cpp - what training minimises ------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include <cmath>

using namespace mlir;
using namespace blutrain;

static LogicalResult checkTargets(Operation *op, const Tensor &targets,
                                  int64_t classes, int64_t ignored) {
  for (auto [i, target] : llvm::enumerate(targets.ints))
    if (target != ignored && (target < 0 || target >= classes))
      return op->emitOpError() << "target " << i << " is " << target
                               << ", expected at least 0 and less than "
                               << classes << ", or " << ignored;
  return success();
}

/// m and Σ e^(x-m) of a row.
static std::pair<double, double> exponentials(const double *x, int64_t n) {
  double max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i)
    max = std::fmax(max, x[i]);
  for (int64_t i = 0; i < n; ++i)
    sum += std::exp(x[i] - max);
  return {max, sum};
}

static LogicalResult evaluateCrossEntropy(blu::CrossEntropyOp op,
                                          Evaluation &e) {
  const Tensor &x = e[op.getLogits()], &targets = e[op.getTargets()];
  auto [rows, width] = asRows(x.shape);
  int64_t classes = op.getClasses().value_or(width);
  int64_t ignored = op.getIgnoreIndex();
  if (failed(checkTargets(op, targets, classes, ignored)))
    return failure();
  Tensor losses = zerosFor(op, targets.shape);
  double sum = 0, counted = 0;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t target = targets.ints[row];
    if (target == ignored)
      continue;
    const double *logits = &x.floats[row * width];
    auto [max, total] = exponentials(logits, classes);
    losses.floats[row] = max + std::log(total) - logits[target];
    sum += losses.floats[row];
    ++counted;
  }
  if (op.getReduction() == blu::LossReduction::None)
    return e.set(op, std::move(losses));
  bool isMean = op.getReduction() == blu::LossReduction::Mean;
  return e.set(
      op, Tensor::scalar(losses.elementType, isMean ? sum / counted : sum));
}

static LogicalResult evaluateCrossEntropyGrad(blu::CrossEntropyGradOp op,
                                              Evaluation &e) {
  const Tensor &x = e[op.getLogits()], &targets = e[op.getTargets()];
  const Tensor &g = e[op.getGrad()];
  auto [rows, width] = asRows(x.shape);
  int64_t classes = op.getClasses().value_or(width);
  int64_t ignored = op.getIgnoreIndex();
  if (failed(checkTargets(op, targets, classes, ignored)))
    return failure();
  Tensor dx = zerosFor(op, x.shape);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t target = targets.ints[row];
    if (target == ignored)
      continue;
    const double *logits = &x.floats[row * width];
    double grad = g.floats[g.rank() == 0 ? 0 : row];
    auto [max, total] = exponentials(logits, classes);
    for (int64_t i = 0; i < classes; ++i)
      dx.floats[row * width + i] =
          (std::exp(logits[i] - max) / total - (i == target)) * grad;
  }
  return e.set(op, std::move(dx));
}

void blutrain::registerLossEvaluators(EvaluatorRegistry &registry) {
  registry.add<blu::CrossEntropyOp>(evaluateCrossEntropy);
  registry.add<blu::CrossEntropyGradOp>(evaluateCrossEntropyGrad);
}
