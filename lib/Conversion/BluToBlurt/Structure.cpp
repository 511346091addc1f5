//===- Structure.cpp - stacks, accumulation, checkpoints ------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace blutrain;

void blutrain::inlineCheckpoints(Operation *root) {
  root->walk([](blu::CheckpointOp op) {
    Block *body = op.getBodyBlock();
    blu::YieldOp yield = op.getYield();
    op->getBlock()->getOperations().splice(op->getIterator(),
                                           body->getOperations(), body->begin(),
                                           yield->getIterator());
    op.replaceAllUsesWith(yield.getValues());
    op.erase();
  });
}

/// Moves the operations of `from`, but the terminator, to the end of the block
/// that `b` builds in, with `arguments` for its arguments.
static SmallVector<Value> takeBody(OpBuilder &b, Block *from,
                                   ArrayRef<Value> arguments) {
  for (auto [old, value] : llvm::zip_equal(from->getArguments(), arguments))
    old.replaceAllUsesWith(value);
  Operation *terminator = from->getTerminator();
  b.getInsertionBlock()->getOperations().splice(
      b.getInsertionPoint(), from->getOperations(), from->begin(),
      terminator->getIterator());
  return SmallVector<Value>(terminator->getOperands());
}

static LoweringResult lowerStack(blu::StackOp op, Lowering &l) {
  auto loop = blurt::LoopOp::create(
      l.builder, l.loc, op.getName(), op.getCount(), op.getReverse(),
      op.getCarries(), op.getSlices(),
      [&](OpBuilder &b, Location, Value iteration, ValueRange carries,
          ValueRange slices) {
        SmallVector<Value> arguments{iteration};
        llvm::append_range(arguments, carries);
        llvm::append_range(arguments, slices);
        SmallVector<Value> yielded = takeBody(b, op.getBodyBlock(), arguments);
        ArrayRef<Value> values(yielded);
        return std::pair<SmallVector<Value>, SmallVector<Value>>(
            values.take_front(carries.size()),
            values.drop_front(carries.size()));
      });
  return llvm::to_vector_of<Value>(loop.getResults());
}

static LoweringResult lowerAccumulate(blu::AccumulateOp op, Lowering &l) {
  if (op.getCount() == 1) {
    SmallVector<Value> arguments{
        l.splat(cast<RankedTensorType>(op.getIteration().getType()), 0)};
    for (Value slice : op.getSlices())
      arguments.push_back(
          l.reshape(slice, tensorType(slice).getShape().drop_front()));
    return takeBody(l.builder, op.getBodyBlock(), arguments);
  }
  SmallVector<Value> zeros;
  for (Type type : op.getResultTypes())
    zeros.push_back(l.splat(cast<RankedTensorType>(type), 0));
  auto loop = blurt::LoopOp::create(
      l.builder, l.loc, "accumulate", op.getCount(), /*reverse=*/false, zeros,
      op.getSlices(),
      [&](OpBuilder &b, Location loc, Value iteration, ValueRange carries,
          ValueRange slices) {
        SmallVector<Value> arguments{iteration};
        llvm::append_range(arguments, slices);
        SmallVector<Value> terms = takeBody(b, op.getBodyBlock(), arguments);
        SmallVector<Value> sums;
        // The terms still have a use each in the old terminator.
        op.getBodyBlock()->getTerminator()->setOperands({});
        Lowering inner(b, loc);
        for (auto [carry, term] : llvm::zip_equal(carries, terms)) {
          Value sum;
          if (term.use_empty())
            sum = accumulateGemm(inner, term, carry, /*ownsAddend=*/true);
          if (!sum)
            sum = inner.elementwise("accumulate", tensorType(carry),
                                    {carry, term},
                                    [](Body &body, ArrayRef<Value> in) {
                                      return body.add(in[0], in[1]);
                                    });
          sums.push_back(sum);
        }
        return std::pair(sums, SmallVector<Value>());
      });
  return llvm::to_vector_of<Value>(loop.getResults());
}

void blutrain::addStructureLowerings(LoweringTable &table) {
  table.add(lowerStack);
  table.add(lowerAccumulate);
}
