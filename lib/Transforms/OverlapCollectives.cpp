//===- OverlapCollectives.cpp - which collectives are asynchronous --------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Transforms/Passes.h"

#include "blutrain/Analysis/CollectiveWindow.h"
#include "blutrain/Analysis/Lifetimes.h"

namespace blutrain {
#define GEN_PASS_DEF_OVERLAPCOLLECTIVESPASS
#include "blutrain/Transforms/Passes.h.inc"
} // namespace blutrain

using namespace blutrain;
using namespace mlir;
using blurt::CollectiveOp;

/// Whether something else can be done between `collective` and `end`.
static bool hasWork(CollectiveOp collective, Operation *end) {
  for (Operation *op = collective->getNextNode(); op != end;
       op = op->getNextNode())
    if (!isView(op) && !isa<CollectiveOp>(op))
      return true;
  return false;
}

namespace {
struct OverlapCollectives
    : blutrain::impl::OverlapCollectivesPassBase<OverlapCollectives> {
  using OverlapCollectivesPassBase::OverlapCollectivesPassBase;

  void runOnOperation() override {
    // From the last to the first: how long one is under way depends on those
    // that take over from it.
    SmallVector<CollectiveOp> collectives;
    getOperation().walk([&](CollectiveOp op) {
      if (op.getKind() != "local_shard" && op.getOuts().empty())
        collectives.push_back(op);
    });
    for (CollectiveOp op : llvm::reverse(collectives)) {
      if (canStartAhead(op)) {
        op.setAsync(true);
        op->setAttr(kAheadAttr, UnitAttr::get(op.getContext()));
        ++numAsynchronous;
        ++numAhead;
        continue;
      }
      CollectiveWindow window = getWindow(op);
      if (!window.isCarried && !hasWork(op, window.end))
        continue;
      op.setAsync(true);
      ++numAsynchronous;
    }
  }
};
} // namespace
