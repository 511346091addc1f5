//===- Sharding.cpp - collectives -----------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "Blu/Sharding.h"
#include "Blurt/Collective.h"

using namespace mlir;
using namespace blutrain;

template <typename OpTy>
static LoweringResult lowerCollective(OpTy op, Lowering &l) {
  auto collective = blurt::CollectiveOp::create(
      l.builder, l.loc, op.getResultTypes(), op->getName().stripDialect(),
      op.getAxis(), op.getSize(), /*async=*/false, /*ticket=*/IntegerAttr(),
      op.getInputs(), ValueRange());
  return SmallVector<Value>(collective.getResults());
}

static LoweringResult lowerAllReduce(blu::AllReduceOp op, Lowering &) {
  return op.emitOpError("is not legal, blu-lower-all-reduce should have "
                        "removed it");
}

/// x with `y = x ^ x >> bits`.
static Value unshift(Body &b, Value y, int64_t bits) {
  Value x = y;
  for (int64_t known = bits; known < 64; known += bits)
    x = b.bitXor(y, b.shiftRight(x, bits));
  return x;
}

/// The inverse of mix; the factors are those of mix modulo 2^64.
static Value unmix(Body &b, Value y) {
  Type i64 = y.getType();
  Value z = unshift(b, y, 31);
  z = b.mul(z, b.integer(i64, int64_t(0x319642b2d24d8ec3)));
  z = unshift(b, z, 27);
  z = b.mul(z, b.integer(i64, int64_t(0x96de1b173f119089)));
  z = unshift(b, z, 30);
  return b.add(z, b.integer(i64, -int64_t(0x9e3779b97f4a7c15)));
}

static LoweringResult lowerShiftKey(blu::ShiftKeyOp op, Lowering &l) {
  GroupBuilder group(l, "shift_key", {});
  group.input(op.getKey(), {});
  group.input(op.getOffset(), {});
  group.output(l.builder.getI64Type(), {});
  return SmallVector<Value>{
      group
          .build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
            return {unmix(b, b.add(b.splitMix(in[0]), in[1]))};
          })
          .getResult(0)};
}

void blutrain::addShardingLowerings(LoweringTable &table) {
  table.add(lowerCollective<blu::ReduceScatterOp>);
  table.add(lowerCollective<blu::AllGatherOp>);
  table.add(lowerCollective<blu::LocalShardOp>);
  table.add(lowerAllReduce);
  table.add(lowerShiftKey);
}
