//===- AttentionOps.cpp - scaled dot-product attention --------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include <cmath>

using namespace mlir;
using namespace blutrain;

namespace {

/// What one query of one head reads: its scores over the keys it sees.
struct Query {
  int64_t batch, t, head, kvHead;
  int64_t visible; ///< keys 0 … visible - 1
};

} // namespace

/// Calls `body` on every query; query t sees `offset + t + 1` keys with
/// `causal`, else all.
static void forEachQuery(const Tensor &q, const Tensor &k, bool causal,
                         int64_t offset,
                         function_ref<void(const Query &)> body) {
  int64_t heads = q.shape[2], kvHeads = k.shape[2];
  for (int64_t b = 0; b < q.shape[0]; ++b)
    for (int64_t t = 0; t < q.shape[1]; ++t)
      for (int64_t h = 0; h < heads; ++h)
        body({b, t, h, h * kvHeads / heads,
              causal ? offset + t + 1 : k.shape[1]});
}

/// scale · q·k for each key that the query sees.
static std::vector<double> scoresOf(const Query &query, const Tensor &q,
                                    const Tensor &k, double scale) {
  std::vector<double> scores(query.visible);
  for (int64_t s = 0; s < query.visible; ++s) {
    double dot = 0;
    for (int64_t d = 0; d < q.shape[3]; ++d)
      dot += q.at({query.batch, query.t, query.head, d}) *
             k.at({query.batch, s, query.kvHead, d});
    scores[s] = scale * dot;
  }
  return scores;
}

static double logSumExp(const std::vector<double> &x) {
  double max = -INFINITY, sum = 0;
  for (double element : x)
    max = std::fmax(max, element);
  for (double element : x)
    sum += std::exp(element - max);
  return max + std::log(sum);
}

/// o and lse of the query.
static void attend(const Query &query, const Tensor &q, const Tensor &k,
                   const Tensor &v, double scale, Tensor &o, Tensor *lse) {
  std::vector<double> scores = scoresOf(query, q, k, scale);
  double total = logSumExp(scores);
  if (lse)
    lse->at({query.batch, query.head, query.t}) = total;
  for (int64_t s = 0; s < query.visible; ++s) {
    double p = std::exp(scores[s] - total);
    for (int64_t d = 0; d < q.shape[3]; ++d)
      o.at({query.batch, query.t, query.head, d}) +=
          p * v.at({query.batch, s, query.kvHead, d});
  }
}

/// The constraints between shapes that types may leave open.
static LogicalResult checkShapes(Operation *op, const Tensor &q,
                                 const Tensor &k, const Tensor &v,
                                 bool causal) {
  if (k.shape != v.shape || q.shape[0] != k.shape[0] ||
      q.shape[3] != k.shape[3] || q.shape[2] % k.shape[2] != 0 ||
      (causal && k.shape[1] < q.shape[1]))
    return op->emitOpError()
           << "q, k and v have shapes " << blu::shapeString(q.shape) << ", "
           << blu::shapeString(k.shape) << " and " << blu::shapeString(v.shape)
           << ", which do not fit";
  return success();
}

static LogicalResult evaluateAttention(blu::AttentionOp op, Evaluation &e) {
  const Tensor &q = e[op.getQ()], &k = e[op.getK()], &v = e[op.getV()];
  if (failed(checkShapes(op, q, k, v, op.getCausal())))
    return failure();
  Tensor o = zerosFor(op.getResult(), q.shape);
  Tensor lse = zerosFor(op.getLse(), {q.shape[0], q.shape[2], q.shape[1]});
  forEachQuery(
      q, k, op.getCausal(), k.shape[1] - q.shape[1], [&](const Query &query) {
        attend(query, q, k, v, op.getScale().convertToDouble(), o, &lse);
      });
  if (failed(e.set(op.getResult(), std::move(o))))
    return failure();
  return e.set(op.getLse(), std::move(lse));
}

static LogicalResult evaluateAttentionGrad(blu::AttentionGradOp op,
                                           Evaluation &e) {
  const Tensor &q = e[op.getQ()], &k = e[op.getK()], &v = e[op.getV()];
  const Tensor &o = e[op.getO()], &lse = e[op.getLse()], &g = e[op.getGrad()];
  if (failed(checkShapes(op, q, k, v, op.getCausal())))
    return failure();
  double scale = op.getScale().convertToDouble();
  int64_t width = q.shape[3];
  Tensor dq = zerosFor(op.getDQ(), q.shape);
  Tensor dk = zerosFor(op.getDK(), k.shape);
  Tensor dv = zerosFor(op.getDV(), v.shape);
  auto accumulate = [&](const Query &query) {
    auto [b, t, h, kvHead, visible] = query;
    std::vector<double> scores = scoresOf(query, q, k, scale);
    double delta = 0;
    for (int64_t d = 0; d < width; ++d)
      delta += g.at({b, t, h, d}) * o.at({b, t, h, d});
    for (int64_t s = 0; s < visible; ++s) {
      double p = std::exp(scores[s] - lse.at({b, h, t}));
      double dp = 0;
      for (int64_t d = 0; d < width; ++d)
        dp += g.at({b, t, h, d}) * v.at({b, s, kvHead, d});
      double ds = p * (dp - delta);
      for (int64_t d = 0; d < width; ++d) {
        dv.at({b, s, kvHead, d}) += p * g.at({b, t, h, d});
        dq.at({b, t, h, d}) += scale * ds * k.at({b, s, kvHead, d});
        dk.at({b, s, kvHead, d}) += scale * ds * q.at({b, t, h, d});
      }
    }
  };
  forEachQuery(q, k, op.getCausal(), k.shape[1] - q.shape[1], accumulate);
  if (failed(e.set(op.getDQ(), std::move(dq))) ||
      failed(e.set(op.getDK(), std::move(dk))))
    return failure();
  return e.set(op.getDV(), std::move(dv));
}

static LogicalResult evaluateCachedAttention(blu::CachedAttentionOp op,
                                             Evaluation &e) {
  const Tensor &q = e[op.getQ()], &k = e[op.getK()], &v = e[op.getV()];
  Tensor keys = e[op.getKCache()], values = e[op.getVCache()];
  int64_t position = e[op.getPosition()].ints[0];
  if (failed(checkShapes(op, q, k, v, /*causal=*/true)))
    return failure();
  if (position < 0 || position + k.shape[1] > keys.shape[1])
    return op.emitOpError()
           << "position is " << position << ", " << k.shape[1]
           << " more rows do not fit a cache of " << keys.shape[1];
  forEachIndex(k.shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> row(index);
    row[1] += position;
    keys.at(row) = k.at(index);
    values.at(row) = v.at(index);
  });
  Tensor o = zerosFor(op.getResult(), q.shape);
  forEachQuery(q, keys, /*causal=*/true, position, [&](const Query &query) {
    attend(query, q, keys, values, op.getScale().convertToDouble(), o, nullptr);
  });
  if (failed(e.set(op.getResult(), std::move(o))) ||
      failed(e.set(op.getNewKCache(), std::move(keys))))
    return failure();
  return e.set(op.getNewVCache(), std::move(values));
}

void blutrain::registerAttentionEvaluators(EvaluatorRegistry &registry) {
  registry.add<blu::AttentionOp>(evaluateAttention);
  registry.add<blu::AttentionGradOp>(evaluateAttentionGrad);
  registry.add<blu::CachedAttentionOp>(evaluateCachedAttention);
}
