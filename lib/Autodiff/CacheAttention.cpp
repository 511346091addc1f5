//===- CacheAttention.cpp - generation over a key-value cache -------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Autodiff/StepUtils.h"

#include "mlir/IR/Builders.h"

namespace blutrain {
#define GEN_PASS_DEF_CACHEATTENTIONPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

/// A new stack with `caches` as further slices, and one more collected value
/// for each: the new cache, which the body yields. The body's new arguments are
/// at the end.
static StackOp addCaches(StackOp stack, ArrayRef<Value> caches) {
  OpBuilder b(stack);
  SmallVector<Value> slices(stack.getSlices());
  llvm::append_range(slices, caches);
  SmallVector<Type> collected;
  for (Type type :
       TypeRange(stack.getResultTypes()).drop_front(stack.getNumCarries()))
    collected.push_back(StackOp::slicedType(type));
  for (Value cache : caches)
    collected.push_back(StackOp::slicedType(cache.getType()));
  auto wider = StackOp::create(
      b, stack.getLoc(), stack.getName(), stack.getFirst(), stack.getLast(),
      stack.getReverse(), stack.getCarries(), slices, collected);
  wider->setDiscardableAttrs(stack->getDiscardableAttrDictionary());
  wider.getBody().takeBody(stack.getBody());
  SmallVector<Value> arguments;
  for (Value cache : caches)
    arguments.push_back(wider.getBodyBlock()->addArgument(
        StackOp::slicedType(cache.getType()), cache.getLoc()));
  wider.getYield()->insertOperands(wider.getYield()->getNumOperands(),
                                   arguments);
  for (auto [before, after] : llvm::zip(stack.getResults(), wider.getResults()))
    before.replaceAllUsesWith(after);
  stack.erase();
  return wider;
}

static LogicalResult cacheAttention(StepOp step, AttentionOp attention,
                                    unsigned number, int64_t context) {
  auto stack = dyn_cast<StackOp>(attention->getParentOp());
  if (!stack && attention->getParentOp() != step)
    return attention.emitOpError("is in a nested region other than a stack, "
                                 "over which generation cannot cache");
  if (stack && stack->getParentOp() != step)
    return attention.emitOpError("is in a stack within a stack, over which "
                                 "generation cannot cache");
  auto k = cast<RankedTensorType>(attention.getK().getType());
  SmallVector<int64_t> shape(k.getShape());
  shape[1] = context;
  auto cacheType = RankedTensorType::get(shape, k.getElementType());
  if (!attention.getLse().use_empty())
    return attention.emitOpError("has its lse used, which generation over a "
                                 "cache does not have");

  Builder attrs(step.getContext());
  SmallVector<Value> caches;
  SmallVector<unsigned> arguments;
  for (StringRef kind : {"k", "v"}) {
    NamedAttrList info(tensorInfo(
        step.getContext(), (Twine("cache.") + Twine(number) + "." + kind).str(),
        "cache"));
    Type type = cacheType;
    if (stack) {
      type = StackOp::stackedType(type, stack.getCount());
      info.set("stack_count", attrs.getI64IntegerAttr(stack.getCount()));
      info.set("stack_first", attrs.getI64IntegerAttr(stack.getFirst()));
    }
    arguments.push_back(step.getNumArguments());
    caches.push_back(
        addArgument(step, type, info.getDictionary(step.getContext())));
  }
  SmallVector<Value> results;
  unsigned firstYield = 0;
  if (stack) {
    firstYield = stack.getNumResults();
    unsigned firstArgument = stack.getBodyBlock()->getNumArguments();
    stack = addCaches(stack, caches);
    for (unsigned i = 0; i < caches.size(); ++i) {
      caches[i] = stack.getBodyBlock()->getArgument(firstArgument + i);
      results.push_back(stack.getResult(firstYield + i));
    }
  }
  OpBuilder b(attention);
  Value position = getScalar(step, "position", b.getI64Type());
  auto cached =
      CachedAttentionOp::create(b, attention.getLoc(), attention.getQ(),
                                attention.getK(), attention.getV(), caches[0],
                                caches[1], position, attention.getScaleAttr());
  attention.getResult().replaceAllUsesWith(cached.getResult());
  attention.erase();
  if (stack) {
    stack.getYield()->setOperand(firstYield, cached.getNewKCache());
    stack.getYield()->setOperand(firstYield + 1, cached.getNewVCache());
  } else {
    results = {cached.getNewKCache(), cached.getNewVCache()};
  }
  for (auto [result, argument] : llvm::zip(results, arguments))
    addDonation(step, result, argument);
  return success();
}

namespace {
struct CacheAttention : blutrain::impl::CacheAttentionPassBase<CacheAttention> {
  void runOnOperation() override {
    for (StepOp step : getOperation().getOps<StepOp>()) {
      if (step.getProgram() != Program::Prefill &&
          step.getProgram() != Program::Decode)
        continue;
      auto context = step->getAttrOfType<IntegerAttr>("blu.context");
      if (!context) {
        step.emitOpError("has no attribute 'blu.context', the length of the "
                         "key-value cache");
        return signalPassFailure();
      }
      SmallVector<AttentionOp> attentions;
      SmallVector<PositionsOp> positions;
      step.walk([&](AttentionOp op) { attentions.push_back(op); });
      step.walk([&](PositionsOp op) { positions.push_back(op); });
      for (auto [i, op] : llvm::enumerate(attentions))
        if (failed(cacheAttention(step, op, i, context.getInt())))
          return signalPassFailure();
      for (PositionsOp op : positions) {
        OpBuilder b(op);
        Value start = getScalar(step, "position", b.getI64Type());
        if (Value offset = op.getPosition())
          start = AddOp::create(b, op.getLoc(), offset, start);
        op.getPositionMutable().assign(start);
      }
    }
  }
};
} // namespace
