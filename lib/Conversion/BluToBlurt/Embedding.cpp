//===- Embedding.cpp - rows by number -------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace blutrain;

static LoweringResult lowerEmbedding(blu::EmbeddingOp op, Lowering &l) {
  int64_t width = op.getTable().getType().getDimSize(1);
  int64_t count = op.getIds().getType().getNumElements();
  Value ids = l.reshape(op.getIds(), {count});
  GroupBuilder group(l, "embedding", {count, width});
  group.input(ids, {0});
  group.table(op.getTable());
  group.output(op.getType().getElementType(), {0, 1});
  blurt::GroupOp result =
      group.build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        Value id = b.cast(in[0], elementType(ids), l.builder.getI64Type());
        return {b.load(in[1], {id, b.index(1)})};
      });
  return SmallVector<Value>{
      l.reshape(result.getResult(0), op.getType().getShape())};
}

static LoweringResult lowerEmbeddingGrad(blu::EmbeddingGradOp op, Lowering &l) {
  int64_t count = op.getIds().getType().getNumElements();
  int64_t width = op.getGrad().getType().getShape().back();
  auto scatter = blurt::ScatterAddOp::create(
      l.builder, l.loc, TypeRange(op.getType()),
      l.reshape(op.getIds(), {count}), l.reshape(op.getGrad(), {count, width}),
      ValueRange());
  return SmallVector<Value>{scatter.getResult(0)};
}

void blutrain::addEmbeddingLowerings(LoweringTable &table) {
  table.add(lowerEmbedding);
  table.add(lowerEmbeddingGrad);
}
