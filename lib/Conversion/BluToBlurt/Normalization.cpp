//===- Normalization.cpp - layer norm and softmax to groups ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace blutrain;

//===----------------------------------------------------------------------===//
// layer_norm
//===----------------------------------------------------------------------===//

namespace {
/// x - μ, μ and 1/√(σ² + eps) of a row; the variance is taken around the mean.
struct RowStatistics {
  Value centered, mean, rstd;

  RowStatistics(Body &b, Value x, int64_t width, double eps) {
    Type type = x.getType();
    Value count = b.constant(type, double(width));
    mean = b.div(b.reduceSum(x), count);
    centered = b.sub(x, mean);
    Value variance = b.div(b.reduceSum(b.mul(centered, centered)), count);
    rstd = b.rsqrt(b.add(variance, b.constant(type, eps)));
  }
};
} // namespace

static LoweringResult lowerLayerNorm(blu::LayerNormOp op, Lowering &l) {
  RankedTensorType type = op.getInput().getType();
  auto [rows, width] = rowsOf(type);
  double eps = op.getEps().convertToDouble();
  GroupBuilder group(l, "layer_norm", {rows, width}, {1});
  group.input(l.reshape(op.getInput(), {rows, width}), {0, 1});
  group.input(op.getWeight(), {1});
  group.input(op.getBias(), {1});
  group.output(type.getElementType(), {0, 1});
  blurt::GroupOp result =
      group.build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        RowStatistics row(b, in[0], width, eps);
        Value scaled = b.mul(b.mul(row.centered, row.rstd), in[1]);
        return {b.add(scaled, in[2])};
      });
  return SmallVector<Value>{l.reshape(result.getResult(0), type.getShape())};
}

/// A group over rows gives dx and the statistics, one over columns reads these
/// and gives dw and db.
static LoweringResult lowerLayerNormGrad(blu::LayerNormGradOp op, Lowering &l) {
  RankedTensorType type = op.getInput().getType();
  auto [rows, width] = rowsOf(type);
  double eps = op.getEps().convertToDouble();
  Value x = l.reshape(op.getInput(), {rows, width});
  Value g = l.reshape(op.getGrad(), {rows, width});
  Type compute = computeType(x);

  GroupBuilder rowGroup(l, "layer_norm_grad", {rows, width}, {1});
  rowGroup.input(x, {0, 1});
  rowGroup.input(op.getWeight(), {1});
  rowGroup.input(g, {0, 1});
  rowGroup.output(type.getElementType(), {0, 1});
  rowGroup.output(compute, {0});
  rowGroup.output(compute, {0});
  blurt::GroupOp row =
      rowGroup.build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        RowStatistics row(b, in[0], width, eps);
        Value count = b.constant(compute, double(width));
        Value normal = b.mul(row.centered, row.rstd);
        Value h = b.mul(in[1], in[2]);
        Value meanH = b.div(b.reduceSum(h), count);
        Value meanHX = b.div(b.reduceSum(b.mul(h, normal)), count);
        Value inner = b.sub(b.sub(h, meanH), b.mul(normal, meanHX));
        return {b.mul(row.rstd, inner), row.mean, row.rstd};
      });

  GroupBuilder columnGroup(l, "layer_norm_grad_params", {rows, width}, {0});
  columnGroup.input(x, {0, 1});
  columnGroup.input(g, {0, 1});
  columnGroup.input(row.getResult(1), {0});
  columnGroup.input(row.getResult(2), {0});
  columnGroup.output(type.getElementType(), {1});
  columnGroup.output(type.getElementType(), {1});
  blurt::GroupOp column =
      columnGroup.build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        Value normal = b.mul(b.sub(in[0], in[2]), in[3]);
        return {b.reduceSum(b.mul(in[1], normal)), b.reduceSum(in[1])};
      });
  return SmallVector<Value>{l.reshape(row.getResult(0), type.getShape()),
                            column.getResult(0), column.getResult(1)};
}

//===----------------------------------------------------------------------===//
// softmax, log_softmax
//===----------------------------------------------------------------------===//

/// Sees the tensor as outer × n × inner, without those that are 1.
template <typename OpTy>
static LoweringResult lowerAlongDim(OpTy op, Lowering &l, StringRef kernel,
                                    Value (*formula)(Body &, Value x,
                                                     Value max)) {
  RankedTensorType type = op.getType();
  ArrayRef<int64_t> shape = type.getShape();
  int64_t dim = op.getDim();
  int64_t outer = product(shape.take_front(dim));
  int64_t inner = product(shape.drop_front(dim + 1));
  SmallVector<int64_t> domain;
  if (outer > 1)
    domain.push_back(outer);
  int64_t reduced = domain.size();
  domain.push_back(shape[dim]);
  if (inner > 1)
    domain.push_back(inner);
  SmallVector<int64_t> all =
      llvm::to_vector(llvm::seq<int64_t>(0, domain.size()));
  GroupBuilder group(l, kernel, domain, reduced);
  group.input(l.reshape(op.getInput(), domain), all);
  group.output(type.getElementType(), all);
  blurt::GroupOp result =
      group.build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        return {formula(b, in[0], b.reduceMax(in[0]))};
      });
  return SmallVector<Value>{l.reshape(result.getResult(0), shape)};
}

static LoweringResult lowerSoftmax(blu::SoftmaxOp op, Lowering &l) {
  return lowerAlongDim(op, l, "softmax", [](Body &b, Value x, Value max) {
    Value e = b.exp(b.sub(x, max));
    return b.mul(e, b.div(b.constant(x.getType(), 1), b.reduceSum(e)));
  });
}

static LoweringResult lowerLogSoftmax(blu::LogSoftmaxOp op, Lowering &l) {
  return lowerAlongDim(op, l, "log_softmax", [](Body &b, Value x, Value max) {
    Value shifted = b.sub(x, max);
    return b.sub(shifted, b.log(b.reduceSum(b.exp(shifted))));
  });
}

void blutrain::addNormalizationLowerings(LoweringTable &table) {
  table.add(lowerLayerNorm);
  table.add(lowerLayerNormGrad);
  table.add(lowerSoftmax);
  table.add(lowerLogSoftmax);
}
