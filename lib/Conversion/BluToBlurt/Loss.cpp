//===- Loss.cpp - cross entropy to groups ---------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace blutrain;
using blu::ComparePredicate;

/// Whether the label is `ignore`.
static Value isIgnored(Body &b, Value label, int64_t ignore) {
  return b.compare(ComparePredicate::EQ, label,
                   b.integer(label.getType(), ignore));
}

/// An element of a row, -∞ in the padding behind `classes`.
template <typename OpTy>
static Value maskPadding(Body &b, OpTy op, Value logit) {
  if (!op.getClasses())
    return logit;
  Type i64 = IntegerType::get(op.getContext(), 64);
  Value isClass = b.compare(ComparePredicate::LT, b.index(1),
                            b.integer(i64, *op.getClasses()));
  return b.select(
      isClass, logit,
      b.constant(logit.getType(), -std::numeric_limits<double>::infinity()));
}

/// A group over rows gives one loss a row; all are then reduced.
static LoweringResult lowerCrossEntropy(blu::CrossEntropyOp op, Lowering &l) {
  auto [rows, width] = rowsOf(op.getLogits().getType());
  int64_t ignore = op.getIgnoreIndex();
  bool perRow = op.getReduction() == blu::LossReduction::None;
  Value logits = l.reshape(op.getLogits(), {rows, width});
  Value targets = l.reshape(op.getTargets(), {rows});
  Type compute = computeType(logits), i64 = l.builder.getI64Type();
  Type element = op.getType().getElementType();

  GroupBuilder group(l, "cross_entropy", {rows, width}, {1});
  group.input(logits, {0, 1});
  group.input(targets, {0});
  group.table(logits);
  group.output(perRow ? element : compute, {0});
  blurt::GroupOp losses =
      group.build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        Value logit = maskPadding(b, op, in[0]);
        Value max = b.reduceMax(logit);
        Value sum = b.reduceSum(b.exp(b.sub(logit, max)));
        Value ignored = isIgnored(b, in[1], ignore);
        // An ignored label may be no position of the row.
        Value label = b.select(ignored, b.integer(i64, 0),
                               b.cast(in[1], elementType(targets), i64));
        Value at = b.load(in[2], {b.index(0), label});
        Value loss = b.add(b.sub(max, at), b.log(sum));
        return {b.select(ignored, b.constant(compute, 0), loss)};
      });
  Value each = losses.getResult(0);
  if (perRow)
    return SmallVector<Value>{l.reshape(each, op.getType().getShape())};
  if (op.getReduction() == blu::LossReduction::Sum)
    return l.reduceAll(
        "sum_losses", blurt::ReduceKind::Sum, each,
        [](Body &, ArrayRef<Value> in) { return SmallVector<Value>(in); },
        element,
        [](Body &, ArrayRef<Value> in) { return SmallVector<Value>(in); });
  return l.reduceAll(
      "mean_loss", blurt::ReduceKind::Sum, {each, targets},
      [&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        Value counted =
            b.select(isIgnored(b, in[1], ignore), b.constant(compute, 0),
                     b.constant(compute, 1));
        return {in[0], counted};
      },
      element,
      [](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        return {b.div(in[0], in[1])};
      });
}

static LoweringResult lowerCrossEntropyGrad(blu::CrossEntropyGradOp op,
                                            Lowering &l) {
  RankedTensorType type = op.getLogits().getType();
  auto [rows, width] = rowsOf(type);
  int64_t ignore = op.getIgnoreIndex();
  Value targets = l.reshape(op.getTargets(), {rows});
  Type i64 = l.builder.getI64Type();

  GroupBuilder group(l, "cross_entropy_grad", {rows, width}, {1});
  group.input(l.reshape(op.getLogits(), {rows, width}), {0, 1});
  group.input(targets, {0});
  if (tensorType(op.getGrad()).getRank() == 0)
    group.input(op.getGrad(), {});
  else
    group.input(l.reshape(op.getGrad(), {rows}), {0});
  group.output(type.getElementType(), {0, 1});
  blurt::GroupOp result =
      group.build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        Type compute = in[0].getType();
        Value logit = maskPadding(b, op, in[0]);
        Value max = b.reduceMax(logit);
        Value e = b.exp(b.sub(logit, max));
        Value scale = b.div(b.constant(compute, 1), b.reduceSum(e));
        Value ignored = isIgnored(b, in[1], ignore);
        Value isLabel = b.compare(ComparePredicate::EQ, b.index(1),
                                  b.cast(in[1], elementType(targets), i64));
        Value zero = b.constant(compute, 0);
        Value hot = b.select(isLabel, b.constant(compute, 1), zero);
        Value d = b.mul(b.sub(b.mul(e, scale), hot), in[2]);
        return {b.select(ignored, zero, d)};
      });
  return SmallVector<Value>{l.reshape(result.getResult(0), type.getShape())};
}

void blutrain::addLossLowerings(LoweringTable &table) {
  table.add(lowerCrossEntropy);
  table.add(lowerCrossEntropyGrad);
}
