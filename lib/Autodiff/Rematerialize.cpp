//===- Rematerialize.cpp - checkpoints around stack bodies ----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"

#include "Blu/Blu.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace blutrain {
#define GEN_PASS_DEF_REMATERIALIZEPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;

/// Parameters and their copies in other element types are there anyway.
static bool staysOutside(Operation &op) {
  auto cast = dyn_cast<CastOp>(op);
  return isa<ParamOp>(op) || (cast && cast.getInput().getDefiningOp<ParamOp>());
}

/// Parameters stay outside the region.
static void wrapBody(StackOp stack) {
  Block *body = stack.getBodyBlock();
  YieldOp yield = stack.getYield();
  SmallVector<Operation *> moved;
  for (Operation &op : body->without_terminator())
    if (!staysOutside(op))
      moved.push_back(&op);
  OpBuilder b(yield);
  auto checkpoint =
      CheckpointOp::create(b, stack.getLoc(), yield.getOperandTypes());
  Block *inner = &checkpoint.getBody().emplaceBlock();
  for (Operation *op : moved)
    op->moveBefore(inner, inner->end());
  b.setInsertionPointToEnd(inner);
  YieldOp::create(b, stack.getLoc(), yield.getOperands());
  yield->setOperands(checkpoint.getResults());
}

namespace {
struct Rematerialize : blutrain::impl::RematerializePassBase<Rematerialize> {
  void runOnOperation() override {
    for (ModelOp model : getOperation().getOps<ModelOp>()) {
      auto program = model->getAttrOfType<ProgramAttr>("blu.program");
      if (program && program.getValue() != Program::Train)
        continue;
      SmallVector<StackOp> stacks;
      model.getBody().walk<WalkOrder::PreOrder>([&](StackOp stack) {
        stacks.push_back(stack);
        return WalkResult::skip();
      });
      for (StackOp stack : stacks)
        wrapBody(stack);
    }
  }
};
} // namespace
