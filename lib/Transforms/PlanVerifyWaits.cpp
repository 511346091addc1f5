//===- PlanVerifyWaits.cpp - no op touches what is on its way -------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Goes through the function as it runs, every iteration of every loop, with the
// bytes of the collectives that are under way. Shares nothing with the placing
// of waits.
//
//===----------------------------------------------------------------------===//

#include "PlanDetail.h"

#include "Blurt/Collective.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include <map>

using namespace blutrain;
using namespace mlir;

namespace {

struct Bytes {
  int64_t begin, end;
  bool isWritten;
};

struct UnderWay {
  blurt::CollectiveOp op;
  SmallVector<Bytes> bytes;
};

/// Bytes that an operation touches, with the iterations left open.
struct OperandBytes {
  int64_t offset, span;
  bool isWritten;
  SmallVector<std::pair<Value, int64_t>, 2> moves;
};

class WaitVerifier {
public:
  LogicalResult run(func::FuncOp func);

private:
  LogicalResult run(Block &block);
  LogicalResult step(Operation *op);
  SmallVector<Bytes> getBytes(Operation *op);
  int64_t evaluate(Value index);

  DenseMap<Value, int64_t> iterations;
  DenseMap<Operation *, SmallVector<OperandBytes>> known;
  std::map<int64_t, UnderWay> underWay; // by ticket
};

} // namespace

int64_t WaitVerifier::evaluate(Value index) {
  APInt constant;
  if (matchPattern(index, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  if (auto sub = index.getDefiningOp<arith::SubIOp>())
    return evaluate(sub.getLhs()) - evaluate(sub.getRhs());
  if (auto sum = index.getDefiningOp<arith::AddIOp>())
    return evaluate(sum.getLhs()) + evaluate(sum.getRhs());
  if (auto turn = index.getDefiningOp<arith::RemUIOp>())
    return evaluate(turn.getLhs()) % evaluate(turn.getRhs());
  return iterations.lookup(index);
}

SmallVector<Bytes> WaitVerifier::getBytes(Operation *op) {
  auto [found, isNew] = known.try_emplace(op);
  SmallVector<OperandBytes> &operands = found->second;
  if (isNew) {
    auto effects = dyn_cast<MemoryEffectOpInterface>(op);
    for (Value operand : op->getOperands()) {
      auto slot = operand.getDefiningOp<blurt::SlotOp>();
      if (!slot)
        continue;
      OperandBytes &bytes = operands.emplace_back();
      bytes.offset = static_cast<int64_t>(slot.getOffset());
      bytes.span = *blurt::getSpanBytes(cast<MemRefType>(slot.getType()));
      bytes.isWritten =
          !effects || effects.getEffectOnValue<MemoryEffects::Write>(operand);
      for (auto [index, step] :
           llvm::zip_equal(slot.getIterations(), slot.getSteps()))
        bytes.moves.push_back({index, step});
    }
  }
  SmallVector<Bytes> bytes;
  for (const OperandBytes &operand : operands) {
    int64_t begin = operand.offset;
    for (auto [index, step] : operand.moves)
      begin += step * evaluate(index);
    bytes.push_back({begin, begin + operand.span, operand.isWritten});
  }
  return bytes;
}

LogicalResult WaitVerifier::step(Operation *op) {
  if (auto wait = dyn_cast<blurt::WaitOp>(op)) {
    underWay.erase(static_cast<int64_t>(wait.getTicket()));
    return success();
  }
  auto collective = dyn_cast<blurt::CollectiveOp>(op);
  // Collectives are in an order among themselves.
  bool takesTurns = collective && collective.getKind() != "local_shard";
  if (takesTurns && !collective.getAsync())
    return success();
  if (!takesTurns && underWay.empty())
    return success();
  SmallVector<Bytes> bytes = getBytes(op);
  if (takesTurns) {
    std::optional<int64_t> ticket = collective.getTicket();
    if (!ticket)
      return op->emitOpError("is asynchronous without a ticket");
    if (!underWay.try_emplace(*ticket, UnderWay{collective, bytes}).second)
      return op->emitOpError("starts while ")
             << "the one with ticket " << *ticket << " is under way";
    return success();
  }
  for (auto &[ticket, other] : underWay)
    for (const Bytes &mine : bytes)
      for (const Bytes &its : other.bytes) {
        if ((!mine.isWritten && !its.isWritten) || mine.end <= its.begin ||
            its.end <= mine.begin)
          continue;
        InFlightDiagnostic diag = op->emitOpError();
        diag << (mine.isWritten ? "writes" : "reads") << " bytes ["
             << mine.begin << ", " << mine.end << ") that a collective "
             << (its.isWritten ? "writes" : "reads") << " meanwhile";
        diag.attachNote(other.op->getLoc())
            << "expected a wait for ticket " << ticket << " before";
        return diag;
      }
  return success();
}

LogicalResult WaitVerifier::run(Block &block) {
  for (Operation &op : block) {
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      auto compare = branch.getCondition().getDefiningOp<arith::CmpIOp>();
      if (!compare || compare.getPredicate() != arith::CmpIPredicate::ult)
        return op.emitOpError("depends on something other than whether an "
                              "iteration is below a number");
      if (evaluate(compare.getLhs()) < evaluate(compare.getRhs()) &&
          failed(run(*branch.thenBlock())))
        return failure();
      continue;
    }
    auto loop = dyn_cast<scf::ForOp>(op);
    if (!loop) {
      if (op.getNumOperands() + isa<blurt::WaitOp>(op) != 0 &&
          failed(step(&op)))
        return failure();
      continue;
    }
    int64_t count = evaluate(loop.getUpperBound());
    for (int64_t i = 0; i < count; ++i) {
      iterations[loop.getInductionVar()] = i;
      if (failed(run(*loop.getBody())))
        return failure();
    }
  }
  return success();
}

LogicalResult WaitVerifier::run(func::FuncOp func) {
  bool isAsync = false;
  func.walk([&](blurt::CollectiveOp op) { isAsync |= op.getAsync(); });
  if (!isAsync)
    return success();
  if (failed(run(func.getBody().front())))
    return failure();
  if (underWay.empty())
    return success();
  auto &[ticket, other] = *underWay.begin();
  return other.op->emitOpError("is not waited for before the return, expected "
                               "a wait for ticket ")
         << ticket;
}

LogicalResult blutrain::verifyWaits(func::FuncOp func) {
  return WaitVerifier().run(func);
}
