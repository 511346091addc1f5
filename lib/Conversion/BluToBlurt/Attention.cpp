//===- Attention.cpp - attention to library calls -------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace blutrain;

static LoweringResult lowerAttention(blu::AttentionOp op, Lowering &l) {
  auto call = blurt::AttentionOp::create(l.builder, l.loc, op->getResultTypes(),
                                         op.getQ(), op.getK(), op.getV(),
                                         /*position=*/Value(), ValueRange(),
                                         op.getScaleAttr(), op.getCausalAttr());
  return llvm::to_vector_of<Value>(call.getResults());
}

static LoweringResult lowerAttentionGrad(blu::AttentionGradOp op, Lowering &l) {
  auto call = blurt::AttentionGradOp::create(
      l.builder, l.loc, op->getResultTypes(), op.getQ(), op.getK(), op.getV(),
      op.getO(), op.getLse(), op.getGrad(), ValueRange(), op.getScaleAttr(),
      op.getCausalAttr());
  return llvm::to_vector_of<Value>(call.getResults());
}

static LoweringResult lowerCachedAttention(blu::CachedAttentionOp op,
                                           Lowering &l) {
  auto update = [&](Value cache, Value rows) {
    return blurt::CacheUpdateOp::create(l.builder, l.loc,
                                        TypeRange(cache.getType()), cache, rows,
                                        op.getPosition(), ValueRange())
        .getResult(0);
  };
  Value k = update(op.getKCache(), op.getK());
  Value v = update(op.getVCache(), op.getV());
  RankedTensorType q = tensorType(op.getQ());
  auto lse =
      RankedTensorType::get({q.getDimSize(0), q.getDimSize(2), q.getDimSize(1)},
                            computeType(op.getQ()));
  auto call = blurt::AttentionOp::create(
      l.builder, l.loc, TypeRange{q, lse}, op.getQ(), k, v, op.getPosition(),
      ValueRange(), op.getScaleAttr(), l.builder.getUnitAttr());
  return SmallVector<Value>{call.getResult(0), k, v};
}

void blutrain::addAttentionLowerings(LoweringTable &table) {
  table.add(lowerAttention);
  table.add(lowerAttentionGrad);
  table.add(lowerCachedAttention);
}
