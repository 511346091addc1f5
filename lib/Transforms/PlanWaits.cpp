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

static int64_t getCount(Value index) {
  if (auto ring = index.getDefiningOp<arith::RemUIOp>())
    return getConstantIntValue(ring.getRhs()).value();
  if (auto reversed = index.getDefiningOp<arith::SubIOp>())
    index = reversed.getRhs();
  auto loop =
      cast<scf::ForOp>(cast<BlockArgument>(index).getOwner()->getParentOp());
  return getConstantIntValue(loop.getUpperBound()).value();
}

/// The loop whose iteration `index` is computed from.
static Operation *getLoop(Value index) {
  while (Operation *def = index.getDefiningOp())
    index = def->getOperand(isa<arith::SubIOp>(def) ? 1 : 0);
  return cast<BlockArgument>(index).getOwner()->getParentOp();
}

/// Whether [begin, end) of both overlap if `b` is moved by `shift`.
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
      end += step * (getCount(index) - 1);
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
  if (flight.age == Flight::Age::Unknown ||
      flown.getIterations() != slot.getIterations() ||
      flown.getSteps() != slot.getSteps())
    return true;
  if (flight.age == Flight::Age::Current)
    return overlapShifted(flown, slot, 0);
  // Loops count up or down, and rings have two slots.
  Operation *loop = flight.op->getParentOp();
  for (auto [index, step] :
       llvm::zip_equal(slot.getIterations(), slot.getSteps()))
    if (getLoop(index) == loop)
      return overlapShifted(flown, slot, step) ||
             overlapShifted(flown, slot, -step);
  return overlapShifted(flown, slot, 0);
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
    return other == flown;
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
        Flight any{flight.op, Flight::Age::Unknown};
        return loop
            ->walk([&](Operation *op) {
              return conflicts(any, op) ? WalkResult::interrupt()
                                        : WalkResult::advance();
            })
            .wasInterrupted();
      },
      insert);
  Flights entry = walk(*loop.getBody(), {}, /*insert=*/false);
  for (Flight &flight : entry)
    flight.age = flight.op->getParentOp() == loop ? Flight::Age::Previous
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
  int64_t next = 0;
  func.walk([&](CollectiveOp op) {
    if (op.getAsync())
      op.setTicket(next++);
  });
  if (next > 0)
    walk(func.getBody().front(), {}, /*insert=*/true);
  return std::move(placed);
}

SmallVector<PlacedWait> blutrain::placeWaits(func::FuncOp func) {
  return WaitPlacer(func).run();
}
