//===- NormalizationOps.cpp - rows scaled by their statistics -------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include <cmath>

using namespace mlir;
using namespace blutrain;

/// Mean and reciprocal standard deviation of a row.
static std::pair<double, double> statistics(const double *x, int64_t n,
                                            double eps) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += x[i];
  double mean = sum / n;
  double squares = 0;
  for (int64_t i = 0; i < n; ++i)
    squares += (x[i] - mean) * (x[i] - mean);
  return {mean, 1 / std::sqrt(squares / n + eps)};
}

static LogicalResult evaluateLayerNorm(blu::LayerNormOp op, Evaluation &e) {
  const Tensor &x = e[op.getInput()], &w = e[op.getWeight()];
  const Tensor &b = e[op.getBias()];
  auto [rows, n] = asRows(x.shape);
  Tensor y = zerosFor(op, x.shape);
  for (int64_t row = 0; row < rows; ++row) {
    const double *in = &x.floats[row * n];
    auto [mean, r] = statistics(in, n, op.getEps().convertToDouble());
    for (int64_t i = 0; i < n; ++i)
      y.floats[row * n + i] = w.floats[i] * (in[i] - mean) * r + b.floats[i];
  }
  return e.set(op, std::move(y));
}

static LogicalResult evaluateLayerNormGrad(blu::LayerNormGradOp op,
                                           Evaluation &e) {
  const Tensor &x = e[op.getInput()], &w = e[op.getWeight()];
  const Tensor &g = e[op.getGrad()];
  auto [rows, n] = asRows(x.shape);
  Tensor dx = zerosFor(op.getDInput(), x.shape);
  Tensor dw = zerosFor(op.getDWeight(), {n});
  Tensor db = zerosFor(op.getDBias(), {n});
  for (int64_t row = 0; row < rows; ++row) {
    const double *in = &x.floats[row * n], *grad = &g.floats[row * n];
    auto [mean, r] = statistics(in, n, op.getEps().convertToDouble());
    double meanH = 0, meanHX = 0;
    for (int64_t i = 0; i < n; ++i) {
      double normal = (in[i] - mean) * r, h = w.floats[i] * grad[i];
      meanH += h;
      meanHX += h * normal;
      dw.floats[i] += grad[i] * normal;
      db.floats[i] += grad[i];
    }
    meanH /= n;
    meanHX /= n;
    for (int64_t i = 0; i < n; ++i) {
      double normal = (in[i] - mean) * r, h = w.floats[i] * grad[i];
      dx.floats[row * n + i] = r * (h - meanH - normal * meanHX);
    }
  }
  if (failed(e.set(op.getDInput(), std::move(dx))) ||
      failed(e.set(op.getDWeight(), std::move(dw))))
    return failure();
  return e.set(op.getDBias(), std::move(db));
}

/// Calls `body` on each line of `x` along `dim`: its first position, the
/// distance between elements, their number.
static void forEachLine(
    const Tensor &x, int64_t dim,
    function_ref<void(int64_t first, int64_t stride, int64_t count)> body) {
  int64_t count = x.shape[dim];
  int64_t stride = elementCount(ArrayRef<int64_t>(x.shape).drop_front(dim + 1));
  int64_t outer = elementCount(ArrayRef<int64_t>(x.shape).take_front(dim));
  for (int64_t i = 0; i < outer; ++i)
    for (int64_t j = 0; j < stride; ++j)
      body(i * count * stride + j, stride, count);
}

template <typename Op>
static LogicalResult evaluateSoftmax(Op op, Evaluation &e) {
  const Tensor &x = e[op.getInput()];
  Tensor y = zerosFor(op, x.shape);
  forEachLine(x, op.getDim(),
              [&](int64_t first, int64_t stride, int64_t count) {
                double max = -INFINITY;
                for (int64_t i = 0; i < count; ++i)
                  max = std::fmax(max, x.floats[first + i * stride]);
                double sum = 0;
                for (int64_t i = 0; i < count; ++i)
                  sum += std::exp(x.floats[first + i * stride] - max);
                for (int64_t i = 0; i < count; ++i) {
                  double shifted = x.floats[first + i * stride] - max;
                  y.floats[first + i * stride] = isa<blu::SoftmaxOp>(op)
                                                     ? std::exp(shifted) / sum
                                                     : shifted - std::log(sum);
                }
              });
  return e.set(op, std::move(y));
}

void blutrain::registerNormalizationEvaluators(EvaluatorRegistry &registry) {
  registry.add<blu::LayerNormOp>(evaluateLayerNorm);
  registry.add<blu::LayerNormGradOp>(evaluateLayerNormGrad);
  registry.add<blu::SoftmaxOp>(evaluateSoftmax);
  registry.add<blu::LogSoftmaxOp>(evaluateSoftmax);
}
