//===- Shape.cpp - moving elements: views and index groups ----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "../FusionViews.h"
#include "Lowering.h"

using namespace mlir;
using namespace blutrain;

static LoweringResult lowerReshape(blu::ReshapeOp op, Lowering &l) {
  Value source = op.getInput();
  // What no strides express is copied here, where the copy can still join the
  // group before it.
  if (!isReshapeView(source, op.getType().getShape()))
    source = l.copy(source);
  return SmallVector<Value>{l.reshape(source, op.getType().getShape())};
}

static LoweringResult lowerTranspose(blu::TransposeOp op, Lowering &l) {
  return SmallVector<Value>{l.transpose(op.getInput(), op.getPermutation())};
}

static LoweringResult lowerBroadcast(blu::BroadcastOp op, Lowering &l) {
  return SmallVector<Value>{
      l.elementwise("broadcast", op.getType(), op.getInput(),
                    [](Body &, ArrayRef<Value> in) { return in[0]; })};
}

static LoweringResult lowerSlice(blu::SliceOp op, Lowering &l) {
  SmallVector<int64_t> offsets(op.getType().getRank(), 0);
  offsets[op.getDim()] = op.getStart();
  return SmallVector<Value>{
      l.slice(op.getInput(), offsets, op.getType().getShape())};
}

static LoweringResult lowerSplit(blu::SplitOp op, Lowering &l) {
  SmallVector<Value> parts;
  SmallVector<int64_t> offsets(op.getInput().getType().getRank(), 0);
  for (Value part : op.getParts()) {
    ArrayRef<int64_t> sizes = tensorType(part).getShape();
    parts.push_back(l.slice(op.getInput(), offsets, sizes));
    offsets[op.getDim()] += sizes[op.getDim()];
  }
  return parts;
}

static LoweringResult lowerConcat(blu::ConcatOp op, Lowering &l) {
  if (op.getParts().size() == 1)
    return SmallVector<Value>{op.getParts()[0]};
  return SmallVector<Value>{blurt::ConcatOp::create(
      l.builder, l.loc, op.getType(), op.getDim(), op.getParts())};
}

static LoweringResult lowerPositions(blu::PositionsOp op, Lowering &l) {
  GroupBuilder group(l, "positions", op.getType().getShape());
  if (op.getPosition())
    group.input(op.getPosition(), {});
  group.output(op.getType().getElementType(), {0});
  Type i64 = l.builder.getI64Type();
  return SmallVector<Value>{
      group
          .build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
            Value t = b.index(0);
            if (!in.empty())
              t = b.add(in[0], t);
            return {b.cast(t, i64, op.getType().getElementType())};
          })
          .getResult(0)};
}

static LoweringResult lowerStopGradient(blu::StopGradientOp op, Lowering &) {
  return SmallVector<Value>{op.getInput()};
}

void blutrain::addShapeLowerings(LoweringTable &table) {
  table.add(lowerReshape);
  table.add(lowerTranspose);
  table.add(lowerBroadcast);
  table.add(lowerSlice);
  table.add(lowerSplit);
  table.add(lowerConcat);
  table.add(lowerPositions);
  table.add(lowerStopGradient);
}
