//===- PlanVerify.cpp - check that no two live buffers overlap ------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Deliberately shares nothing with the planner's analyses: everything is read
// off the plan-form IR.
//
//===----------------------------------------------------------------------===//

#include "PlanDetail.h"

#include "Blurt/Collective.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include <map>

using namespace blutrain;
using namespace mlir;

namespace {

struct ByteRange {
  int64_t begin, end;
  bool overlaps(const ByteRange &other) const {
    return begin < other.end && other.begin < end;
  }
};

struct Access {
  int64_t time;
  Operation *op;
  bool reads, writes;
};

struct Buffer {
  int64_t id = 0;
  ByteRange bytes{std::numeric_limits<int64_t>::max(), 0};
  SmallVector<blurt::SlotOp> slots;
  SmallVector<Access> accesses; // by ascending time
  SmallPtrSet<Operation *, 4> movesWith;
  /// Closed interval of time in which it is live.
  int64_t begin = 0, end = 0;
};

class FunctionVerifier {
public:
  FunctionVerifier(func::FuncOp func, DictionaryAttr program)
      : func(func), program(program) {}

  LogicalResult run();

private:
  LogicalResult collect(Block &block);
  LogicalResult collectSlot(blurt::SlotOp slot);
  LogicalResult collectAccesses(Operation *op);
  LogicalResult computeLifetime(Buffer &buffer);
  void extendOutputs();
  LogicalResult checkOverlaps();
  /// The loop whose iteration `index` is: its induction variable, or that
  /// subtracted from a constant.
  FailureOr<scf::ForOp> getLoop(Value index);
  bool isInput(const ByteRange &range);
  DictionaryAttr getEntry();

  func::FuncOp func;
  DictionaryAttr program;
  int64_t arenaBytes = 0, stateBytes = 0;
  int64_t now = 1;
  DenseMap<Operation *, std::pair<int64_t, int64_t>> times; // of loops
  std::map<int64_t, Buffer> buffers;
};

} // namespace

static FailureOr<int64_t> getTripCount(scf::ForOp loop) {
  APInt lower, upper, step;
  if (!matchPattern(loop.getLowerBound(), m_ConstantInt(&lower)) ||
      !matchPattern(loop.getUpperBound(), m_ConstantInt(&upper)) ||
      !matchPattern(loop.getStep(), m_ConstantInt(&step)) || !lower.isZero() ||
      !step.isOne())
    return failure();
  return upper.getSExtValue();
}

/// The slots of a ring whose turns are `index`; nothing if it is no turn.
static std::optional<int64_t> getRingSlots(Value index) {
  APInt slots;
  auto turn = index.getDefiningOp<arith::RemUIOp>();
  if (!turn || !matchPattern(turn.getRhs(), m_ConstantInt(&slots)))
    return std::nullopt;
  return slots.getSExtValue();
}

FailureOr<scf::ForOp> FunctionVerifier::getLoop(Value index) {
  if (getRingSlots(index))
    index = index.getDefiningOp()->getOperand(0);
  // The next iteration, where there is one.
  APInt one;
  if (isa_and_nonnull<arith::AddIOp, arith::SubIOp>(index.getDefiningOp()) &&
      isa<scf::IfOp>(index.getDefiningOp()->getParentOp()) &&
      matchPattern(index.getDefiningOp()->getOperand(1), m_ConstantInt(&one)) &&
      one.isOne())
    index = index.getDefiningOp()->getOperand(0);
  if (auto sub = index.getDefiningOp<arith::SubIOp>()) {
    APInt last;
    if (!matchPattern(sub.getLhs(), m_ConstantInt(&last)))
      return failure();
    auto loop = getLoop(sub.getRhs());
    if (failed(loop))
      return failure();
    auto count = getTripCount(*loop);
    if (failed(count) || last.getSExtValue() != *count - 1)
      return failure();
    return loop;
  }
  auto argument = dyn_cast<BlockArgument>(index);
  auto loop = argument
                  ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp())
                  : scf::ForOp();
  if (!loop || loop.getInductionVar() != index)
    return failure();
  return loop;
}

LogicalResult FunctionVerifier::collectSlot(blurt::SlotOp slot) {
  auto id = slot->getAttrOfType<IntegerAttr>("buffer");
  if (!id)
    return slot.emitOpError("does not say which buffer it is part of");
  auto type = cast<MemRefType>(slot.getResult().getType());
  FailureOr<int64_t> span = blurt::getSpanBytes(type);
  if (failed(span))
    return slot.emitOpError("has a dynamic layout");
  auto offset = static_cast<int64_t>(slot.getOffset());
  ByteRange range{offset, offset + *span};
  Buffer &buffer = buffers[id.getInt()];
  buffer.id = id.getInt();
  for (auto [index, step] :
       llvm::zip_equal(slot.getIterations(), slot.getSteps())) {
    FailureOr<scf::ForOp> loop = getLoop(index);
    FailureOr<int64_t> count =
        failed(loop) ? FailureOr<int64_t>(failure()) : getTripCount(*loop);
    if (failed(count))
      return slot.emitOpError("moves with a value that is not the iteration of "
                              "a loop of constant length");
    std::optional<int64_t> turns = getRingSlots(index);
    range.end += step * ((turns ? std::min(*turns, *count) : *count) - 1);
    buffer.movesWith.insert(*loop);
  }
  if (range.begin < 0 || range.end > arenaBytes)
    return slot.emitOpError("reaches byte ")
           << range.end << " of an arena of " << arenaBytes;
  if (range.begin < stateBytes && range.end > stateBytes)
    return slot.emitOpError("lies partly in the state area, which ends at ")
           << stateBytes;
  buffer.bytes.begin = std::min(buffer.bytes.begin, range.begin);
  buffer.bytes.end = std::max(buffer.bytes.end, range.end);
  buffer.slots.push_back(slot);
  return success();
}

LogicalResult FunctionVerifier::collectAccesses(Operation *op) {
  unsigned numOuts = 0;
  bool updates = false;
  if (isa<memref::StoreOp>(op)) {
    // Of a rank-0 memref, which is the last operand.
    numOuts = 1;
  } else {
    if (auto group = dyn_cast<blurt::GroupOp>(op))
      numOuts = group.getOuts().size();
    else if (auto gemm = dyn_cast<blurt::GemmOp>(op))
      numOuts = gemm.getOuts().size(), updates = bool(gemm.getC());
    else if (auto attention = dyn_cast<blurt::AttentionOp>(op))
      numOuts = attention.getOuts().size();
    else if (auto grad = dyn_cast<blurt::AttentionGradOp>(op))
      numOuts = grad.getOuts().size();
    else if (auto scatter = dyn_cast<blurt::ScatterAddOp>(op))
      numOuts = scatter.getOuts().size();
    else if (auto collective = dyn_cast<blurt::CollectiveOp>(op))
      numOuts = collective.getOuts().size();
    else if (auto update = dyn_cast<blurt::CacheUpdateOp>(op))
      numOuts = update.getOuts().size(), updates = true;
  }
  if (op->getNumResults() != 0 || numOuts == 0)
    return op->emitOpError("is not in memref form");
  int64_t time = now++;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    auto slot = operand.get().getDefiningOp<blurt::SlotOp>();
    if (!slot)
      return op->emitOpError("has an operand that is not a slot");
    bool isOut = operand.getOperandNumber() >= op->getNumOperands() - numOuts;
    Buffer &buffer =
        buffers[slot->getAttrOfType<IntegerAttr>("buffer").getInt()];
    if (buffer.accesses.empty() || buffer.accesses.back().time != time)
      buffer.accesses.push_back({time, op, false, false});
    Access &access = buffer.accesses.back();
    access.writes |= isOut;
    access.reads |= !isOut || updates;
  }
  return success();
}

LogicalResult FunctionVerifier::collect(Block &block) {
  for (Operation &op : block) {
    if (auto slot = dyn_cast<blurt::SlotOp>(op)) {
      if (failed(collectSlot(slot)))
        return failure();
    } else if (auto loop = dyn_cast<scf::ForOp>(op)) {
      if (loop.getNumResults() != 0 || failed(getTripCount(loop)))
        return op.emitOpError("is not a counted loop from 0 without results");
      int64_t begin = now++;
      if (failed(collect(*loop.getBody())))
        return failure();
      times[loop] = {begin, now++};
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      if (branch.getNumResults() != 0 || branch.elseBlock())
        return op.emitOpError("has results or an else, expected neither");
      int64_t begin = now++;
      if (failed(collect(*branch.thenBlock())))
        return failure();
      times[branch] = {begin, now++};
    } else if (isa<blurt::GroupOp, blurt::GemmOp, blurt::AttentionOp,
                   blurt::AttentionGradOp, blurt::ScatterAddOp,
                   blurt::CacheUpdateOp, blurt::CollectiveOp, memref::StoreOp>(
                   op)) {
      if (failed(collectAccesses(&op)))
        return failure();
    } else if (!isa<arith::ConstantOp, arith::SubIOp, arith::RemUIOp,
                    arith::CmpIOp, arith::IndexCastOp, arith::AddIOp,
                    arith::MulIOp, scf::YieldOp, func::ReturnOp, func::CallOp,
                    blurt::WaitOp, LLVM::IntToPtrOp, LLVM::AddressOfOp,
                    memref::ExtractAlignedPointerAsIndexOp>(op)) {
      InFlightDiagnostic diag =
          op.emitOpError("is not allowed at the plan stage");
      diag.attachNote() << "blurt-plan rewrites all tensors";
      return diag;
    }
  }
  return success();
}

DictionaryAttr FunctionVerifier::getEntry() {
  auto entries = program ? program.getAs<ArrayAttr>("entries") : ArrayAttr();
  if (entries)
    for (auto entry : entries.getAsRange<DictionaryAttr>())
      if (auto symbol = entry.getAs<FlatSymbolRefAttr>("symbol"))
        if (symbol.getValue() == func.getName())
          return entry;
  return {};
}

/// Calls `visit(dict, role, bytes)` for the tensors of an entry.
static void
forEachTensor(DictionaryAttr entry,
              function_ref<void(DictionaryAttr, StringRef, ByteRange)> visit) {
  auto tensors = entry ? entry.getAs<ArrayAttr>("tensors") : ArrayAttr();
  if (!tensors)
    return;
  for (auto tensor : tensors.getAsRange<DictionaryAttr>()) {
    auto type = cast<ShapedType>(tensor.getAs<TypeAttr>("type").getValue());
    int64_t bytes =
        type.getNumElements() * blurt::getElementBytes(type.getElementType());
    if (auto count = tensor.getAs<IntegerAttr>("stack_count"))
      bytes *= std::max<int64_t>(1, count.getInt());
    int64_t offset = tensor.getAs<IntegerAttr>("offset").getInt();
    auto role = tensor.getAs<StringAttr>("role");
    visit(tensor, role ? role.getValue() : "", {offset, offset + bytes});
  }
}

bool FunctionVerifier::isInput(const ByteRange &range) {
  bool found = range.end <= stateBytes;
  forEachTensor(
      getEntry(), [&](DictionaryAttr, StringRef role, ByteRange bytes) {
        if (role != "output" && role != "gradient")
          found |= bytes.begin <= range.begin && range.end <= bytes.end;
      });
  return found;
}

LogicalResult FunctionVerifier::computeLifetime(Buffer &buffer) {
  if (buffer.bytes.end <= stateBytes && stateBytes > 0) {
    buffer.begin = 0;
    buffer.end = now;
    return success();
  }
  // The innermost block around all accesses.
  const Access &first = buffer.accesses.front();
  Block *common = first.op->getBlock();
  while (isa<scf::IfOp>(common->getParentOp()) ||
         llvm::any_of(buffer.accesses, [&](const Access &access) {
           return !common->findAncestorOpInBlock(*access.op);
         }))
    common = common->getParentOp()->getBlock();
  auto timesIn = [&](Block *block, const Access &access) {
    Operation *ancestor = block->findAncestorOpInBlock(*access.op);
    if (ancestor == access.op)
      return std::make_pair(access.time, access.time);
    return times.lookup(ancestor);
  };
  buffer.begin = std::numeric_limits<int64_t>::max();
  buffer.end = 0;
  for (const Access &access : buffer.accesses) {
    auto [begin, end] = timesIn(common, access);
    buffer.begin = std::min(buffer.begin, begin);
    buffer.end = std::max(buffer.end, end);
  }
  // What is read before it is written, or differs between iterations, lives
  // through the loops around it.
  for (auto loop = dyn_cast<scf::ForOp>(common->getParentOp()); loop;
       loop = dyn_cast<scf::ForOp>(loop->getParentOp())) {
    bool outerMoves = buffer.movesWith.contains(loop);
    for (auto outer = loop->getParentOfType<scf::ForOp>(); outer;
         outer = outer->getParentOfType<scf::ForOp>())
      outerMoves |= buffer.movesWith.contains(outer);
    if (!first.reads && !outerMoves)
      break;
    std::tie(buffer.begin, buffer.end) = times.lookup(loop);
  }
  if (first.reads) {
    if (!isInput(buffer.bytes))
      return first.op->emitOpError("reads buffer ")
             << buffer.id << " before anything is written to it";
    buffer.begin = 0;
  }
  return success();
}

void FunctionVerifier::extendOutputs() {
  forEachTensor(getEntry(), [&](DictionaryAttr, StringRef role,
                                ByteRange bytes) {
    if (role != "output" && role != "gradient")
      return;
    // Several buffers may hold these bytes, one after the other.
    Buffer *last = nullptr;
    for (auto &[id, buffer] : buffers) {
      bool isThere = llvm::any_of(buffer.slots, [&](blurt::SlotOp slot) {
        return static_cast<int64_t>(slot.getOffset()) == bytes.begin;
      });
      if (isThere && buffer.bytes.end >= bytes.end &&
          llvm::any_of(buffer.accesses,
                       [](const Access &access) { return access.writes; }) &&
          (!last || last->end < buffer.end))
        last = &buffer;
    }
    if (last)
      last->end = now;
  });
}

LogicalResult FunctionVerifier::checkOverlaps() {
  SmallVector<const Buffer *> order;
  for (auto &[id, buffer] : buffers)
    if (!buffer.accesses.empty())
      order.push_back(&buffer);
  llvm::sort(order, [](const Buffer *a, const Buffer *b) {
    return std::tie(a->begin, a->id) < std::tie(b->begin, b->id);
  });
  SmallVector<const Buffer *> live;
  for (const Buffer *buffer : order) {
    llvm::erase_if(
        live, [&](const Buffer *other) { return other->end < buffer->begin; });
    for (const Buffer *other : live) {
      if (!other->bytes.overlaps(buffer->bytes))
        continue;
      InFlightDiagnostic diag = buffer->accesses.front().op->emitOpError();
      diag << "uses buffer " << buffer->id << " at bytes ["
           << buffer->bytes.begin << ", " << buffer->bytes.end
           << ") while buffer " << other->id << " at bytes ["
           << other->bytes.begin << ", " << other->bytes.end << ") is live";
      diag.attachNote(other->accesses.back().op->getLoc())
          << "buffer " << other->id << " is last used here";
      return diag;
    }
    live.push_back(buffer);
  }
  return success();
}

LogicalResult FunctionVerifier::run() {
  if (func.getNumArguments() != 2 || func.getNumResults() != 0 ||
      !isa<LLVM::LLVMPointerType>(func.getArgumentTypes()[0]))
    return func.emitOpError("is not in plan form, expected (!llvm.ptr, "
                            "memref<Nxi8>) -> ()");
  auto arena = dyn_cast<MemRefType>(func.getArgumentTypes()[1]);
  if (!arena || arena.getRank() != 1 || !arena.hasStaticShape() ||
      !arena.getElementType().isInteger(8))
    return func.emitOpError("has an arena of type ")
           << func.getArgumentTypes()[1] << ", expected memref<Nxi8>";
  arenaBytes = arena.getDimSize(0);
  if (program)
    if (auto bytes = program.getAs<IntegerAttr>("state_bytes"))
      stateBytes = bytes.getInt();
  if (failed(collect(func.getBody().front())))
    return failure();
  for (auto &[id, buffer] : buffers)
    if (!buffer.accesses.empty() && failed(computeLifetime(buffer)))
      return failure();
  extendOutputs();
  if (failed(checkOverlaps()))
    return failure();
  return verifyWaits(func);
}

LogicalResult blutrain::verifyPlan(ModuleOp module) {
  auto program = module->getAttrOfType<DictionaryAttr>("blurt.program");
  LogicalResult result = success();
  for (func::FuncOp func : module.getOps<func::FuncOp>())
    if (!func.isDeclaration() && failed(FunctionVerifier(func, program).run()))
      result = failure();
  return result;
}
