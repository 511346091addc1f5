//===- PlanWaits.cpp - where asynchronous collectives are waited for ------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// On plan-form IR: a wait comes before the first operation that touches bytes
// of a collective that may be under way, before the collective starts again,
// and before the return. Collectives wait for each other anyway, so that one
// may read what another gives.
//
//===----------------------------------------------------------------------===//

#include "PlanDetail.h"

#include "blutrain/Analysis/CollectiveWindow.h"

#include "Blurt/Collective.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace blutrain;
using namespace mlir;
using blurt::CollectiveOp;
using blurt::SlotOp;

namespace {

/// A collective that may be under way.
struct Flight {
  /// When it started: in the current iteration of the loop around it, in the
  /// one before, or at any other time.
  enum class Age { Current, Previous, Unknown };
  CollectiveOp op;
  Age age;
};

class WaitPlacer {
public:
  explicit WaitPlacer(func::FuncOp func) : func(func), builder(func) {}

  SmallVector<PlacedWait> run();

private:
  using Flights = SmallVector<Flight>;
  /// Without `insert` only finds out what is under way at the end.
  Flights walk(Block &block, Flights flights, bool insert);
  void visitLoop(scf::ForOp loop, Flights &flights, bool insert);
  /// Waits before `op` for the flights that `isWanted` holds for.
  void wait(Operation *op, Flights &flights,
            function_ref<bool(const Flight &)> isWanted, bool insert);

  func::FuncOp func;
  OpBuilder builder;
  SmallVector<PlacedWait> placed;
};

} // namespace

namespace {

/// An index of a slot: the iteration of `loop`, or of the one that comes
/// `ahead` iterations later, or its turn in a ring of so many slots.
struct Turn {
  scf::ForOp loop;
  int64_t ahead = 0, slots = 0;
  bool isReverse = false;

  explicit Turn(Value index) {
    if (auto turn = index.getDefiningOp<arith::RemUIOp>()) {
      slots = getConstantIntValue(turn.getRhs()).value();
      index = turn.getLhs();
    }
    int64_t offset = 0;
    while (Operation *def = index.getDefiningOp()) {
      if (auto number = getConstantIntValue(def->getOperand(1))) {
        offset += isa<arith::SubIOp>(def) ? -*number : *number;
        index = def->getOperand(0);
      } else {
        isReverse = true;
        index = def->getOperand(1);
      }
    }
    loop =
        cast<scf::ForOp>(cast<BlockArgument>(index).getOwner()->getParentOp());
    ahead = isReverse ? -offset : offset;
  }
  int64_t getCount() {
    return slots ? slots : getConstantIntValue(loop.getUpperBound()).value();
  }
};

} // namespace

/// Whether the bytes of both overlap if `b` is moved by `shift`.
static bool overlapShifted(SlotOp a, SlotOp b, int64_t shift) {
  int64_t aBytes = *blurt::getSpanBytes(cast<MemRefType>(a.getType()));
  int64_t bBytes = *blurt::getSpanBytes(cast<MemRefType>(b.getType()));
  int64_t aBegin = a.getOffset(), bBegin = int64_t(b.getOffset()) + shift;
  return aBegin < bBegin + bBytes && bBegin < aBegin + aBytes;
}

static bool overlapEver(SlotOp a, SlotOp b) {
  auto range = [](SlotOp slot) {
    int64_t begin = slot.getOffset();
    int64_t end =
        begin + *blurt::getSpanBytes(cast<MemRefType>(slot.getType()));
    for (auto [index, step] :
         llvm::zip_equal(slot.getIterations(), slot.getSteps()))
      end += step * (Turn(index).getCount() - 1);
    return std::make_pair(begin, end);
  };
  auto [aBegin, aEnd] = range(a);
  auto [bBegin, bEnd] = range(b);
  return aBegin < bEnd && bBegin < aEnd;
}

/// Whether `slot` shares bytes with `flown`, a slot of the flight.
static bool overlaps(const Flight &flight, SlotOp flown, SlotOp slot) {
  if (!overlapEver(flown, slot))
    return false;
  if (flight.age == Flight::Age::Unknown || flown.getSteps() != slot.getSteps())
    return true;
  CollectiveOp op = flight.op;
  auto around = op->getParentOfType<scf::ForOp>();
  SmallVector<int64_t, 2> shifts{0};
  for (auto [itsIndex, index, step] : llvm::zip_equal(
           flown.getIterations(), slot.getIterations(), slot.getSteps())) {
    Turn its(itsIndex), turn(index);
    if (its.loop != turn.loop || its.slots != turn.slots ||
        its.isReverse != turn.isReverse)
      return true;
    // How many iterations later the flight's slot comes.
    int64_t later = its.ahead - turn.ahead;
    if (its.loop == around && flight.age == Flight::Age::Previous)
      --later;
    if (its.slots == 0) {
      for (int64_t &shift : shifts)
        shift += step * (its.isReverse ? later : -later);
    } else if (later % its.slots != 0) {
      // From the first to the last slot or back.
      if (its.slots != kRingSlots)
        return true;
      SmallVector<int64_t, 2> both;
      for (int64_t shift : shifts)
        both.append({shift + step, shift - step});
      shifts = both;
    }
  }
  return llvm::any_of(shifts, [&](int64_t shift) {
    return overlapShifted(flown, slot, shift);
  });
}

/// Whether `op` writes, or reads, the operand; both if it does not say.
static std::pair<bool, bool> getAccess(Operation *op, Value operand) {
  bool writes = false, reads = false;
  if (auto interface = dyn_cast<MemoryEffectOpInterface>(op)) {
    SmallVector<MemoryEffects::EffectInstance> effects;
    interface.getEffectsOnValue(operand, effects);
    for (const MemoryEffects::EffectInstance &effect : effects) {
      writes |= isa<MemoryEffects::Write>(effect.getEffect());
      reads |= isa<MemoryEffects::Read>(effect.getEffect());
    }
  }
  if (!writes && !reads)
    return {true, true};
  return {writes, reads};
}

/// Whether the flight has to be over before `op`.
static bool conflicts(const Flight &flight, Operation *op) {
  CollectiveOp flown = flight.op;
  if (auto other = dyn_cast<CollectiveOp>(op);
      other && other.getKind() != "local_shard")
    return other.getTicket() == flown.getTicket();
  for (Value operand : op->getOperands()) {
    auto slot = operand.getDefiningOp<SlotOp>();
    if (!slot)
      continue;
    bool writes = getAccess(op, operand).first;
    for (Value out : flown.getOuts())
      if (overlaps(flight, out.getDefiningOp<SlotOp>(), slot))
        return true;
    for (Value input : flown.getInputs())
      if (writes && overlaps(flight, input.getDefiningOp<SlotOp>(), slot))
        return true;
  }
  return false;
}

static bool conflictsWithin(const Flight &flight, Operation *around) {
  return around
      ->walk([&](Operation *op) {
        return op != around && conflicts(flight, op) ? WalkResult::interrupt()
                                                     : WalkResult::advance();
      })
      .wasInterrupted();
}

void WaitPlacer::wait(Operation *op, Flights &flights,
                      function_ref<bool(const Flight &)> isWanted,
                      bool insert) {
  llvm::erase_if(flights, [&](const Flight &flight) {
    if (!isWanted(flight))
      return false;
    if (insert) {
      CollectiveOp flown = flight.op;
      builder.setInsertionPoint(op);
      blurt::WaitOp::create(builder, op->getLoc(), *flown.getTicket());
      placed.push_back({flown, op});
    }
    return true;
  });
}

void WaitPlacer::visitLoop(scf::ForOp loop, Flights &flights, bool insert) {
  // What comes from outside ends before the first iteration or goes on through
  // all of them.
  wait(
      loop, flights,
      [&](const Flight &flight) {
        return conflictsWithin({flight.op, Flight::Age::Unknown}, loop);
      },
      insert);
  Flights entry = walk(*loop.getBody(), {}, /*insert=*/false);
  for (Flight &flight : entry)
    flight.age = flight.op->getParentOfType<scf::ForOp>() == loop
                     ? Flight::Age::Previous
                     : Flight::Age::Unknown;
  for (Flight flight : walk(*loop.getBody(), entry, insert)) {
    flight.age = Flight::Age::Unknown;
    flights.push_back(flight);
  }
}

WaitPlacer::Flights WaitPlacer::walk(Block &block, Flights flights,
                                     bool insert) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      visitLoop(loop, flights, insert);
      continue;
    }
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      // Before it, since what is in it may not run.
      wait(
          branch, flights,
          [&](const Flight &flight) { return conflictsWithin(flight, branch); },
          insert);
      flights = walk(*branch.thenBlock(), std::move(flights), insert);
      continue;
    }
    bool isReturn = isa<func::ReturnOp>(op);
    wait(
        &op, flights,
        [&](const Flight &flight) {
          return isReturn || conflicts(flight, &op);
        },
        insert);
    if (auto collective = dyn_cast<CollectiveOp>(op);
        collective && collective.getAsync())
      flights.push_back({collective, Flight::Age::Current});
  }
  return flights;
}

SmallVector<PlacedWait> WaitPlacer::run() {
  // One that was started ahead in front of a loop has its ticket.
  int64_t next = 0;
  func.walk([&](CollectiveOp op) {
    if (op.getTicket())
      next = std::max(next, static_cast<int64_t>(*op.getTicket()) + 1);
  });
  func.walk([&](CollectiveOp op) {
    if (op.getAsync() && !op.getTicket())
      op.setTicket(next++);
  });
  if (next > 0)
    walk(func.getBody().front(), {}, /*insert=*/true);
  return std::move(placed);
}

SmallVector<PlacedWait> blutrain::placeWaits(func::FuncOp func) {
  return WaitPlacer(func).run();
}
