//===- LowerAllReduce.cpp - all-reduces as gathers and sums ------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Sharding/Passes.h"

#include "Blu/BluSupport.h"
#include "Blu/Sharding.h"

namespace blutrain {
#define GEN_PASS_DEF_LOWERALLREDUCEPASS
#include "blutrain/Sharding/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

/// Up to so many elements every device adds up those of all.
static constexpr int64_t kFewElements = 256;

namespace {
struct LowerAllReduce : blutrain::impl::LowerAllReducePassBase<LowerAllReduce> {
  using LowerAllReducePassBase::LowerAllReducePassBase;

  void runOnOperation() override {
    SmallVector<AllReduceOp> ops;
    getOperation().walk([&](AllReduceOp op) { ops.push_back(op); });
    for (AllReduceOp op : ops) {
      OpBuilder b(op);
      for (auto [input, result] :
           llvm::zip_equal(op.getInputs(), op.getResults()))
        result.replaceAllUsesWith(lower(b, op, input));
      op.erase();
    }
  }

  static Value lower(OpBuilder &b, AllReduceOp op, Value input) {
    Location loc = op.getLoc();
    GradBuilder gb(b, loc);
    RankedTensorType type = GradBuilder::type(input);
    int64_t count = type.getNumElements(), size = op.getSize();
    if (count > kFewElements) {
      auto pieces = ReduceScatterOp::create(
          b, loc, getPieceType(type, size, /*batched=*/false), input,
          op.getAxis(), size);
      return AllGatherOp::create(b, loc, type, pieces.getResults(),
                                 op.getAxis(), size)
          .getResult(0);
    }
    Value flat = gb.reshape(input, {count});
    auto all = AllGatherOp::create(
        b, loc, RankedTensorType::get({size, count}, type.getElementType()),
        flat, op.getAxis(), size);
    return gb.reshape(gb.reduceSum(all.getResult(0), {0}, /*keepDims=*/false),
                      type.getShape());
  }
};
} // namespace
