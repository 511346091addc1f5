//===- OptimizerOps.cpp - norms, clipping, updates ------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include <cmath>

using namespace mlir;
using namespace blutrain;

static LogicalResult evaluateGlobalNorm(blu::GlobalNormOp op, Evaluation &e) {
  double total = 0;
  for (Value input : op.getInputs()) {
    double sum = 0;
    for (double x : e[input].floats)
      sum += x * x;
    total += sum;
  }
  return e.set(op,
               Tensor::scalar(op.getType().getElementType(), std::sqrt(total)));
}

static LogicalResult evaluateClipScale(blu::ClipScaleOp op, Evaluation &e) {
  double norm = e[op.getNorm()].floats[0], clip = e[op.getClip()].floats[0];
  double scale = clip / (norm + 1e-6);
  // A NaN norm gives a NaN: it is not at least 1.
  return e.set(op, Tensor::scalar(op.getType().getElementType(),
                                  !(clip > 0) || scale >= 1 ? 1.0 : scale));
}

/// Whether an update takes effect.
template <typename OpTy> static bool applies(OpTy op, Evaluation &e) {
  return !op.getApply() || e[op.getApply()].ints[0] != 0;
}

static LogicalResult evaluateAdamW(blu::AdamWOp op, Evaluation &e) {
  Tensor p = e[op.getParam()], m = e[op.getM()], v = e[op.getV()];
  const Tensor &g = e[op.getGrad()];
  double t = e[op.getStep()].ints[0], lr = e[op.getLr()].floats[0];
  double beta1 = e[op.getBeta1()].floats[0], beta2 = e[op.getBeta2()].floats[0];
  double eps = e[op.getEps()].floats[0];
  double decay = op.getDecay() ? e[op.getWeightDecay()].floats[0] : 0;
  double correction1 = 1 - std::pow(beta1, t);
  double correction2 = 1 - std::pow(beta2, t);
  for (int64_t i = 0; applies(op, e) && i < p.size(); ++i) {
    double grad = g.floats[i];
    p.floats[i] *= 1 - lr * decay;
    m.floats[i] = beta1 * m.floats[i] + (1 - beta1) * grad;
    v.floats[i] = beta2 * v.floats[i] + (1 - beta2) * grad * grad;
    double denominator = std::sqrt(v.floats[i]) / std::sqrt(correction2) + eps;
    p.floats[i] -= lr / correction1 * m.floats[i] / denominator;
  }
  if (failed(e.set(op.getNewParam(), std::move(p))) ||
      failed(e.set(op.getNewM(), std::move(m))))
    return failure();
  return e.set(op.getNewV(), std::move(v));
}

static LogicalResult evaluateSgd(blu::SgdOp op, Evaluation &e) {
  Tensor p = e[op.getParam()], m = e[op.getM()];
  const Tensor &g = e[op.getGrad()];
  double lr = e[op.getLr()].floats[0];
  double momentum = e[op.getMomentum()].floats[0];
  double decay = op.getDecay() ? e[op.getWeightDecay()].floats[0] : 0;
  for (int64_t i = 0; applies(op, e) && i < p.size(); ++i) {
    double grad = g.floats[i] + decay * p.floats[i];
    m.floats[i] = momentum * m.floats[i] + grad;
    p.floats[i] -= lr * m.floats[i];
  }
  if (failed(e.set(op.getNewParam(), std::move(p))))
    return failure();
  return e.set(op.getNewM(), std::move(m));
}

void blutrain::registerOptimizerEvaluators(EvaluatorRegistry &registry) {
  registry.add<blu::GlobalNormOp>(evaluateGlobalNorm);
  registry.add<blu::ClipScaleOp>(evaluateClipScale);
  registry.add<blu::AdamWOp>(evaluateAdamW);
  registry.add<blu::SgdOp>(evaluateSgd);
}
