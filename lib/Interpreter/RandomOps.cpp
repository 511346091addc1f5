//===- RandomOps.cpp - counter-based random numbers -----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include <cmath>

using namespace mlir;
using namespace blutrain;

/// A step of SplitMix64 from the state x.
static uint64_t mix(uint64_t x) {
  uint64_t z = x + 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

static LogicalResult evaluateDropout(blu::DropoutOp op, Evaluation &e) {
  Tensor y = e[op.getInput()];
  // Without a key it is a mark.
  if (!op.getKey())
    return e.set(op, std::move(y));
  uint64_t key = e[op.getKey()].ints[0];
  double rate = op.getRate().convertToDouble();
  for (int64_t i = 0; i < y.size(); ++i) {
    double u = std::ldexp(double(mix(mix(key) + i) & 0xFFFFFF), -24);
    y.floats[i] = u >= rate ? y.floats[i] / (1 - rate) : 0;
  }
  return e.set(op, std::move(y));
}

static LogicalResult evaluateRandomKey(blu::RandomKeyOp op, Evaluation &e) {
  uint64_t seed = e[op.getSeed()].ints[0], step = e[op.getStep()].ints[0];
  uint64_t iteration = op.getIteration() ? e[op.getIteration()].ints[0] : 0;
  uint64_t key = mix(mix(mix(mix(seed) + step) + op.getSite()) + iteration);
  return e.set(op, Tensor::scalar(op.getType().getElementType(), int64_t(key)));
}

void blutrain::registerRandomEvaluators(EvaluatorRegistry &registry) {
  registry.add<blu::DropoutOp>(evaluateDropout);
  registry.add<blu::RandomKeyOp>(evaluateRandomKey);
}
