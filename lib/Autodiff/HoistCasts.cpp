//===- HoistCasts.cpp - one cast for all iterations of a stack ------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Autodiff/StepUtils.h"

#include "mlir/IR/Builders.h"

namespace blutrain {
#define GEN_PASS_DEF_HOISTCASTSPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

/// The number of the stack's slice that `value` is.
static std::optional<unsigned> sliceNumber(StackOp stack, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  unsigned first = 1 + stack.getNumCarries();
  if (!argument || argument.getOwner() != stack.getBodyBlock() ||
      argument.getArgNumber() < first)
    return std::nullopt;
  return argument.getArgNumber() - first;
}

static void hoistCasts(StackOp stack) {
  SmallVector<CastOp> casts;
  stack.getBody().walk([&](CastOp cast) {
    if (sliceNumber(stack, cast.getInput()))
      casts.push_back(cast);
  });
  if (casts.empty())
    return;
  OpBuilder b(stack);
  SmallVector<Value> operands;
  for (CastOp cast : casts) {
    Value whole = stack.getSlices()[*sliceNumber(stack, cast.getInput())];
    auto type = llvm::cast<RankedTensorType>(whole.getType());
    operands.push_back(CastOp::create(
        b, cast.getLoc(), type.clone(cast.getType().getElementType()), whole));
  }
  unsigned before = stack.getSlices().size();
  StackOp wider = addSlices(stack, operands);
  for (auto [i, cast] : llvm::enumerate(casts)) {
    cast.replaceAllUsesWith(Value(wider.getSliceArg(before + i)));
    cast.erase();
  }
}

namespace {
struct HoistCasts : blutrain::impl::HoistCastsPassBase<HoistCasts> {
  void runOnOperation() override {
    SmallVector<StackOp> stacks;
    getOperation().walk([&](StackOp stack) { stacks.push_back(stack); });
    for (StackOp stack : stacks)
      hoistCasts(stack);
  }
};
} // namespace
