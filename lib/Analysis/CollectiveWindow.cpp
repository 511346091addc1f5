//===- CollectiveWindow.cpp - while a collective is under way -------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Analysis/CollectiveWindow.h"

#include "blutrain/Analysis/Lifetimes.h"

using namespace blutrain;
using namespace mlir;
using blurt::CollectiveOp;
using blurt::LoopOp;

void blutrain::forEachUser(Value value, function_ref<void(OpOperand &)> visit) {
  for (OpOperand &use : value.getUses()) {
    if (isView(use.getOwner()))
      forEachUser(use.getOwner()->getResult(0), visit);
    else
      visit(use);
  }
}

static Operation *earlier(Operation *a, Operation *b) {
  return !a || b->isBeforeInBlock(a) ? b : a;
}

/// The first operation of `block` in which `value` is used, or null.
static Operation *getFirstUser(Value value, Block *block) {
  Operation *first = nullptr;
  forEachUser(value, [&](OpOperand &use) {
    first = earlier(first, block->findAncestorOpInBlock(*use.getOwner()));
  });
  return first;
}

CollectiveWindow blutrain::getWindow(CollectiveOp collective) {
  Block *block = collective->getBlock();
  auto loop = dyn_cast<LoopOp>(block->getParentOp());
  Operation *terminator = block->getTerminator();
  // The first use within the block, and behind the loop of what it collects.
  Operation *here = nullptr, *behind = nullptr;
  bool isCarried = loop && loop.getCount() > 1;
  for (Value result : collective.getResults())
    forEachUser(result, [&](OpOperand &use) {
      Operation *user = block->findAncestorOpInBlock(*use.getOwner());
      if (auto next = dyn_cast<CollectiveOp>(user); next && next.getAsync()) {
        // It takes its turn, and what it gives is what is waited for.
        CollectiveWindow window = getWindow(next);
        isCarried &= window.isCarried;
        if (!window.isCarried)
          here = earlier(here, window.end);
        else
          behind = earlier(behind, window.end);
        return;
      }
      here = earlier(here, user);
      bool isCollected = loop && user == terminator &&
                         use.getOperandNumber() >= loop.getCarries().size();
      isCarried &= isCollected;
      if (!isCollected)
        return;
      Value whole = loop.getResult(use.getOperandNumber());
      if (Operation *reader = getFirstUser(whole, loop->getBlock()))
        behind = earlier(behind, reader);
    });
  if (!isCarried)
    return {false, here ? here : terminator};
  return {true, behind ? behind : loop->getBlock()->getTerminator()};
}

CollectiveOp blutrain::getRingReader(Value value) {
  Operation *def = value.getDefiningOp();
  if (!def || !isa<LoopOp>(def->getParentOp()) ||
      isa<LoopOp, blurt::ConcatOp>(def) || isView(def))
    return {};
  CollectiveOp reader;
  bool isCollected = false;
  forEachUser(value, [&](OpOperand &use) {
    auto collective = dyn_cast<CollectiveOp>(use.getOwner());
    isCollected |= isa<blurt::LoopYieldOp>(use.getOwner());
    if (!reader && collective && collective.getAsync() &&
        collective->getBlock() == def->getBlock() &&
        getWindow(collective).isCarried)
      reader = collective;
  });
  return isCollected ? CollectiveOp() : reader;
}

bool blutrain::canStartAhead(CollectiveOp collective) {
  auto loop = dyn_cast<LoopOp>(collective->getParentOp());
  if (!loop || loop.getCount() < 2 || collective.getKind() != "all_gather")
    return false;
  for (Value input : collective.getInputs()) {
    while (Operation *def = input.getDefiningOp()) {
      if (!isView(def))
        return false;
      input = def->getOperand(0);
    }
    auto argument = dyn_cast<BlockArgument>(input);
    if (!argument || argument.getOwner() != loop.getBodyBlock() ||
        argument.getArgNumber() <= loop.getCarries().size())
      return false;
  }
  bool staysWithin = true;
  for (Value result : collective.getResults())
    forEachUser(result, [&](OpOperand &use) {
      staysWithin &= !isa<blurt::LoopYieldOp>(use.getOwner());
    });
  return staysWithin;
}
