//===- Random.cpp - counter-based random numbers --------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include <cmath>

using namespace mlir;
using namespace blutrain;

static LoweringResult lowerDropout(blu::DropoutOp op, Lowering &l) {
  double rate = op.getRate().convertToDouble();
  if (rate == 0)
    return SmallVector<Value>{op.getInput()};
  if (!op.getKey())
    return op.emitOpError("has no key: expected one in the train program, and "
                          "no dropout in the others");
  // Over row-major indices, so that the group's dim is the index.
  int64_t count = op.getType().getNumElements();
  GroupBuilder group(l, "dropout", {count});
  group.input(l.reshape(op.getInput(), {count}), {0});
  group.input(op.getKey(), {});
  group.output(op.getType().getElementType(), {0});
  blurt::GroupOp result =
      group.build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        Type i64 = l.builder.getI64Type(), compute = in[0].getType();
        Value bits = b.bitAnd(b.splitMix(b.add(b.splitMix(in[1]), b.index(0))),
                              b.integer(i64, 0xffffff));
        // bits·2^-24 ≥ rate, in integers.
        Value threshold = b.integer(i64, int64_t(std::ceil(rate * 0x1p24)));
        Value kept = b.compare(blu::ComparePredicate::GE, bits, threshold);
        Value scaled = b.div(in[0], b.constant(compute, 1 - rate));
        return {b.select(kept, scaled, b.constant(compute, 0))};
      });
  return SmallVector<Value>{
      l.reshape(result.getResult(0), op.getType().getShape())};
}

static LoweringResult lowerRandomKey(blu::RandomKeyOp op, Lowering &l) {
  GroupBuilder group(l, "random_key", {});
  group.input(op.getSeed(), {});
  group.input(op.getStep(), {});
  if (op.getIteration())
    group.input(op.getIteration(), {});
  Type i64 = l.builder.getI64Type();
  group.output(i64, {});
  return SmallVector<Value>{
      group
          .build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
            Value iteration = in.size() > 2 ? in[2] : b.integer(i64, 0);
            Value key = b.splitMix(b.add(b.splitMix(in[0]), in[1]));
            key = b.splitMix(b.add(key, b.integer(i64, op.getSite())));
            return {b.splitMix(b.add(key, iteration))};
          })
          .getResult(0)};
}

void blutrain::addRandomLowerings(LoweringTable &table) {
  table.add(lowerDropout);
  table.add(lowerRandomKey);
}
