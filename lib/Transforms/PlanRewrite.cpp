//===- PlanRewrite.cpp - from tensors to slots of the arena ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "PlanDetail.h"

#include "Blurt/Collective.h"
#include "blutrain/Analysis/CollectiveWindow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include <map>

using namespace blutrain;
using namespace mlir;
using blurt::LoopOp;

int64_t blutrain::getTensorBytes(ShapedType type) {
  return type.getNumElements() * blurt::getElementBytes(type.getElementType());
}

namespace {

class PlanRewriter {
public:
  PlanRewriter(PlannedFunction &planned, const PlanOptions &options)
      : planned(planned), lifetimes(*planned.lifetimes),
        placement(*planned.placement), builder(planned.func),
        debugMemory(options.debugMemory),
        debugNonfinite(options.debugNonfinite) {}

  int64_t run();

private:
  void visit(Block &block);
  void visitLeaf(Operation *op);
  void visitGroup(blurt::GroupOp group);
  void visitLoop(LoopOp loop);
  void startFirst(LoopOp loop);
  void startNext(blurt::CollectiveOp collective);
  void visitConcat(blurt::ConcatOp concat);
  void emitReturn(Operation *terminator);

  /// The memref at `view`; one slot per place and block.
  Value getSlot(Location loc, const ArenaView &view, Type elementType);
  Value getSlot(Location loc, Value value) {
    return getSlot(loc, placement.getView(value), getElementTypeOrSelf(value));
  }
  Value getIndex(int64_t value);
  /// The iteration of the term's loop, or its turn in a ring.
  Value getIteration(const ArenaView::Term &term);
  /// Copies `value` to `view` unless it lies there.
  void moveTo(Location loc, Value value, const ArenaView &view);

  /// `what` has written `memref`.
  void written(Location loc, Value memref, StringRef what,
               bool mayBeInfinite = false);
  void use(Operation *op, ValueRange memrefs);
  void define(Operation *op, ValueRange memrefs);
  void defineArguments(func::FuncOp source);
  /// Poisons the storages whose last use is at `time`.
  void retire(Location loc, int64_t time);

  PlannedFunction &planned;
  const Lifetimes &lifetimes;
  const Placement &placement;
  OpBuilder builder;
  bool debugMemory, debugNonfinite;
  std::optional<DebugEmitter> debug;
  int64_t copies = 0;

  Value arena;
  /// The iteration of each loop that is being emitted.
  DenseMap<Operation *, Value> iterations;
  DenseMap<Value, Value> turns; ///< of iterations, in rings
  /// Of collectives that are started an iteration ahead.
  DenseMap<Operation *, int64_t> tickets;
  using SlotKey =
      std::pair<int64_t, std::pair<const void *, std::vector<const void *>>>;
  /// Slots by place, one map per enclosing block.
  SmallVector<std::map<SlotKey, Value>> slots;
  std::map<int64_t, Value> constants;
  Operation *constantsEnd = nullptr;
  DenseMap<int64_t, SmallVector<unsigned>> retiring;
};

} // namespace

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

static MemRefType getMemRefType(const ArenaView &view, Type elementType) {
  if (view.isContiguous())
    return MemRefType::get(view.getShape(), elementType);
  SmallVector<int64_t> strides;
  for (int64_t stride : view.getStrides())
    strides.push_back(stride / view.getElementBytes());
  return MemRefType::get(
      view.getShape(), elementType,
      StridedLayoutAttr::get(elementType.getContext(), 0, strides));
}

Value PlanRewriter::getSlot(Location loc, const ArenaView &view,
                            Type elementType) {
  MemRefType type = getMemRefType(view, elementType);
  int64_t offset = planned.offsets[view.getStorage()] + view.getOffset();
  SmallVector<Value> indices;
  SmallVector<int64_t> steps;
  SlotKey key{offset, {type.getAsOpaquePointer(), {}}};
  for (const ArenaView::Term &term : view.getTerms()) {
    // What is started before a loop is of a certain iteration.
    if (auto certain = getConstantIntValue(iterations.lookup(term.loop))) {
      key.first = offset +=
          term.step * (term.isRing ? *certain % term.count : *certain);
      continue;
    }
    indices.push_back(getIteration(term));
    steps.push_back(term.step);
    key.second.second.push_back(indices.back().getAsOpaquePointer());
    key.second.second.push_back(reinterpret_cast<const void *>(term.step));
  }
  key.second.second.push_back(
      reinterpret_cast<const void *>(uintptr_t(view.getStorage())));
  for (auto &scope : slots)
    if (auto found = scope.find(key); found != scope.end())
      return found->second;
  auto slot =
      blurt::SlotOp::create(builder, loc, type, arena, indices, offset, steps);
  slot->setAttr("buffer", builder.getI64IntegerAttr(view.getStorage()));
  slots.back()[key] = slot;
  return slot;
}

Value PlanRewriter::getIteration(const ArenaView::Term &term) {
  Value iteration = iterations.lookup(term.loop);
  if (!term.isRing)
    return iteration;
  Value &turn = turns[iteration];
  if (!turn) {
    Value slots = getIndex(term.count);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(iteration);
    turn =
        arith::RemUIOp::create(builder, iteration.getLoc(), iteration, slots);
  }
  return turn;
}

Value PlanRewriter::getIndex(int64_t value) {
  Value &constant = constants[value];
  if (!constant) {
    OpBuilder::InsertionGuard guard(builder);
    Block &entry = planned.func.getBody().front();
    if (constantsEnd)
      builder.setInsertionPointAfter(constantsEnd);
    else
      builder.setInsertionPointToStart(&entry);
    constant =
        arith::ConstantIndexOp::create(builder, planned.func.getLoc(), value);
    constantsEnd = constant.getDefiningOp();
  }
  return constant;
}

void PlanRewriter::moveTo(Location loc, Value value, const ArenaView &view) {
  if (placement.getView(value).samePlace(view))
    return;
  Value source = getSlot(loc, value);
  Value target = getSlot(loc, view, getElementTypeOrSelf(value));
  Operation *copy = createCopy(builder, loc, source, target);
  use(copy, source);
  define(copy, target);
  ++copies;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

void PlanRewriter::visit(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (isView(&op))
      continue;
    if (auto loop = dyn_cast<LoopOp>(op)) {
      visitLoop(loop);
      continue;
    }
    if (auto concat = dyn_cast<blurt::ConcatOp>(op))
      visitConcat(concat);
    else if (op.hasAttr(kAheadAttr))
      startNext(cast<blurt::CollectiveOp>(op));
    else if (auto group = dyn_cast<blurt::GroupOp>(op))
      visitGroup(group);
    else
      visitLeaf(&op);
    retire(op.getLoc(), lifetimes.getTimeline().at(&op));
  }
}

void PlanRewriter::visitConcat(blurt::ConcatOp concat) {
  const ArenaView &view = placement.getView(concat.getResult());
  for (unsigned i = 0, e = concat.getParts().size(); i < e; ++i)
    moveTo(concat.getLoc(), concat.getParts()[i], getPartView(concat, i, view));
}

void PlanRewriter::visitGroup(blurt::GroupOp group) {
  Location loc = group.getLoc();
  SmallVector<Value> inputs, tables, outs;
  for (Value input : group.getInputs())
    inputs.push_back(getSlot(loc, input));
  for (Value table : group.getTables())
    tables.push_back(getSlot(loc, table));
  for (Value result : group.getResults())
    outs.push_back(getSlot(loc, result));
  SmallVector<AffineMap> inputMaps(
      group.getInputMaps().getAsValueRange<AffineMapAttr>());
  SmallVector<AffineMap> outputMaps(
      group.getOutputMaps().getAsValueRange<AffineMapAttr>());
  auto planForm = blurt::GroupOp::create(
      builder, loc, group.getKernel(), group.getDomain(), group.getReduce(),
      inputs, inputMaps, tables, outs, TypeRange(), outputMaps,
      [&](OpBuilder &body, Location, ValueRange arguments) {
        IRMapping mapping;
        mapping.map(group.getBodyBlock()->getArguments(), arguments);
        for (Operation &op : group.getBodyBlock()->without_terminator())
          body.clone(op, mapping);
        SmallVector<Value> yielded;
        for (Value value : group.getBodyBlock()->getTerminator()->getOperands())
          yielded.push_back(mapping.lookupOrDefault(value));
        return yielded;
      });
  planForm->setDiscardableAttrs(llvm::to_vector(group->getDiscardableAttrs()));
  use(planForm, inputs);
  use(planForm, tables);
  define(planForm, outs);
}

void PlanRewriter::visitLeaf(Operation *op) {
  Location loc = op->getLoc();
  SmallVector<Value> operands, outs;
  for (Value operand : op->getOperands())
    operands.push_back(getSlot(loc, operand));
  for (Value result : op->getResults())
    outs.push_back(getSlot(loc, result));
  // What is updated in place is put there first if it lies elsewhere.
  unsigned updated = ~0u;
  if (auto gemm = dyn_cast<blurt::GemmOp>(op)) {
    if (gemm.getC())
      updated = 2;
  } else if (isa<blurt::CacheUpdateOp>(op)) {
    updated = 0;
  }
  if (updated != ~0u) {
    moveTo(loc, op->getOperand(updated), placement.getView(op->getResult(0)));
    operands[updated] = outs[0];
  }
  OperationState state(loc, op->getName());
  state.addOperands(operands);
  state.addOperands(outs);
  state.addAttributes(llvm::to_vector(op->getDiscardableAttrs()));
  Operation *planForm;
  auto finish = [&](auto typed) {
    using OpTy = decltype(typed);
    using Properties = typename OpTy::Properties;
    if constexpr (!std::is_same_v<Properties, EmptyProperties>) {
      auto &properties = state.getOrAddProperties<Properties>();
      properties = typed.getProperties();
      // The outs are the last segment, where segments are not implied.
      if constexpr (requires { properties.operandSegmentSizes; })
        properties.operandSegmentSizes.back() =
            static_cast<int32_t>(outs.size());
    }
    planForm = builder.create(state);
  };
  if (auto typed = dyn_cast<blurt::GemmOp>(op))
    finish(typed);
  else if (auto typed = dyn_cast<blurt::AttentionOp>(op))
    finish(typed);
  else if (auto typed = dyn_cast<blurt::AttentionGradOp>(op))
    finish(typed);
  else if (auto typed = dyn_cast<blurt::ScatterAddOp>(op))
    finish(typed);
  else if (auto typed = dyn_cast<blurt::CollectiveOp>(op))
    finish(typed);
  else
    finish(cast<blurt::CacheUpdateOp>(op));
  if (auto found = tickets.find(op); found != tickets.end()) {
    planForm->removeAttr(kAheadAttr);
    cast<blurt::CollectiveOp>(planForm).setTicket(found->second);
  }
  use(planForm, operands);
  define(planForm, outs);
}

/// What the loop's first iteration gathers.
void PlanRewriter::startFirst(LoopOp loop) {
  auto last = static_cast<int64_t>(loop.getCount()) - 1;
  iterations[loop] = getIndex(loop.getReverse() ? last : 0);
  for (Operation &op : *loop.getBodyBlock())
    if (op.hasAttr(kAheadAttr)) {
      tickets.try_emplace(&op, static_cast<int64_t>(tickets.size()));
      visitLeaf(&op);
    }
  iterations.erase(loop);
}

/// What the next iteration gathers, unless this is the last one.
void PlanRewriter::startNext(blurt::CollectiveOp collective) {
  Location loc = collective.getLoc();
  auto loop = cast<LoopOp>(collective->getParentOp());
  Value iteration = iterations.lookup(loop), one = getIndex(1);
  auto forOp = cast<scf::ForOp>(builder.getBlock()->getParentOp());
  Value last = getIndex(static_cast<int64_t>(loop.getCount()) - 1);
  Value hasNext = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult,
                                        forOp.getInductionVar(), last);
  auto branch = scf::IfOp::create(builder, loc, hasNext);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  iterations[loop] =
      loop.getReverse()
          ? arith::SubIOp::create(builder, loc, iteration, one).getResult()
          : arith::AddIOp::create(builder, loc, iteration, one).getResult();
  slots.emplace_back();
  visitLeaf(collective);
  slots.pop_back();
  iterations[loop] = iteration;
}

void PlanRewriter::visitLoop(LoopOp loop) {
  Location loc = loop.getLoc();
  const Timeline &timeline = lifetimes.getTimeline();
  auto count = static_cast<int64_t>(loop.getCount());
  for (unsigned i = 0, e = loop.getCarries().size(); i < e; ++i)
    moveTo(loc, loop.getCarries()[i], placement.getInitialView(loop, i));
  startFirst(loop);
  retire(loc, timeline.at(loop));
  Value zero = getIndex(0), one = getIndex(1), bound = getIndex(count);
  Value last = loop.getReverse() ? getIndex(count - 1) : Value();
  auto forOp = scf::ForOp::create(builder, loc, zero, bound, one);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(forOp.getBody());
    Value iteration = forOp.getInductionVar();
    if (last)
      iteration = arith::SubIOp::create(builder, loc, last, iteration);
    iterations[loop] = iteration;
    slots.emplace_back();
    if (lifetimes.getIteration(loop)) {
      Value slot = getSlot(loc, loop.getIteration());
      Value number = arith::IndexCastOp::create(
          builder, loc, builder.getI64Type(), iteration);
      auto store = memref::StoreOp::create(builder, loc, number, slot);
      define(store, slot);
    }
    retire(loc, timeline.getBodyBegin(loop));
    visit(*loop.getBodyBlock());
    // Collections first: they may read carried values that are then replaced.
    SmallVector<ContentId> written;
    for (unsigned j = 0, e = loop.getNumCollected(); j < e; ++j) {
      ContentId id = lifetimes.getContent(getCollectedResult(loop, j));
      if (lifetimes[id].kind == Content::Kind::Collected)
        written.push_back(id);
    }
    for (unsigned i = 0, e = loop.getCarries().size(); i < e; ++i)
      written.push_back(lifetimes.getCarry(loop, i));
    for (ContentId id : written)
      moveTo(loc, lifetimes[id].yielded, placement.getWriteView(id));
    retire(loc, timeline.getBodyEnd(loop));
    slots.pop_back();
  }
  iterations.erase(loop);
  retire(loc, timeline.getEnd(loop));
}

void PlanRewriter::emitReturn(Operation *terminator) {
  for (OpOperand &operand : terminator->getOpOperands())
    if (auto output = lifetimes.getOutput(operand.getOperandNumber()))
      moveTo(terminator->getLoc(), operand.get(),
             placement.getContentView(*output));
  func::ReturnOp::create(builder, terminator->getLoc());
}

int64_t PlanRewriter::run() {
  func::FuncOp source = planned.func;
  MLIRContext *context = source.getContext();
  auto type = builder.getFunctionType(
      {LLVM::LLVMPointerType::get(context),
       MemRefType::get({planned.peakBytes}, builder.getI8Type())},
      {});
  auto target =
      func::FuncOp::create(builder, source.getLoc(), source.getName(), type);
  for (NamedAttribute attr : source->getDiscardableAttrs())
    target->setAttr(attr.getName(), attr.getValue());
  target.setVisibility(source.getVisibility());
  Block *entry = target.addEntryBlock();
  arena = entry->getArgument(1);
  planned.func = target;
  if (debugMemory || debugNonfinite)
    debug.emplace(source->getParentOfType<ModuleOp>(), entry->getArgument(0));
  if (debugMemory) {
    const Timeline &timeline = lifetimes.getTimeline();
    SmallVector<LoopOp> loops;
    source.walk([&](LoopOp loop) { loops.push_back(loop); });
    for (auto [i, storage] : llvm::enumerate(placement.getStorages())) {
      Content::Kind kind = lifetimes[storage.owner].kind;
      int64_t end = storage.end;
      // What comes into a loop from before it is dead after the last iteration,
      // not at the end of each. Inner loops are first in the list.
      for (LoopOp loop : loops)
        if (storage.begin < timeline.getBodyBegin(loop) &&
            end >= timeline.getBodyBegin(loop) &&
            end <= timeline.getBodyEnd(loop))
          end = timeline.getEnd(loop);
      if (!storage.isState && kind != Content::Kind::Output &&
          end < timeline.getExit())
        retiring[end].push_back(static_cast<unsigned>(i));
    }
  }
  builder.setInsertionPointToStart(entry);
  slots.emplace_back();
  defineArguments(source);
  retire(source.getLoc(), lifetimes.getTimeline().getEntry());
  Block &body = source.getBody().front();
  visit(body);
  emitReturn(body.getTerminator());
  source.erase();
  return copies;
}

//===----------------------------------------------------------------------===//
// Debugging
//===----------------------------------------------------------------------===//

std::string blutrain::describeOperation(Operation *op) {
  std::string what = op->getName().getStringRef().str();
  if (auto group = dyn_cast<blurt::GroupOp>(op))
    what = group.getKernel().str();
  std::string where = getLocationString(op->getLoc());
  return where.empty() ? what : what + " at " + where;
}

void PlanRewriter::written(Location loc, Value memref, StringRef what,
                           bool mayBeInfinite) {
  if (debugMemory)
    debug->emit(builder, loc, DebugEmitter::Action::Define, memref, what);
  if (debugNonfinite && !mayBeInfinite &&
      isa<FloatType>(getElementTypeOrSelf(memref)))
    debug->emit(builder, loc, DebugEmitter::Action::Check, memref, what);
}

void PlanRewriter::use(Operation *op, ValueRange memrefs) {
  if (!debugMemory)
    return;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(op);
  for (Value memref : memrefs)
    debug->emit(builder, op->getLoc(), DebugEmitter::Action::Use, memref,
                describeOperation(op));
}

void PlanRewriter::define(Operation *op, ValueRange memrefs) {
  if (!debug)
    return;
  for (Value memref : memrefs)
    written(op->getLoc(), memref, describeOperation(op));
}

void PlanRewriter::defineArguments(func::FuncOp source) {
  if (!debug)
    return;
  for (BlockArgument argument : source.getArguments()) {
    const Content &content = lifetimes[lifetimes.getContent(argument)];
    auto [name, category] = describeContent(source, content);
    // A scalar may be infinite on purpose: there are limits among them.
    written(source.getLoc(), getSlot(source.getLoc(), argument), name,
            /*mayBeInfinite=*/category == "scalar");
  }
}

void PlanRewriter::retire(Location loc, int64_t time) {
  if (!debugMemory)
    return;
  auto found = retiring.find(time);
  if (found == retiring.end())
    return;
  for (unsigned index : found->second) {
    const Content &owner = lifetimes[placement.getStorages()[index].owner];
    Value slot = getSlot(loc, ArenaView::contiguous(index, owner.type),
                         owner.type.getElementType());
    debug->emit(builder, loc, DebugEmitter::Action::Retire, slot,
                owner.def ? describeOperation(owner.def)
                          : "argument " + std::to_string(owner.index));
  }
}

int64_t blutrain::rewriteToPlan(PlannedFunction &planned,
                                const PlanOptions &options) {
  return PlanRewriter(planned, options).run();
}
