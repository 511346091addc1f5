//===- Placement.cpp - which tensors share bytes --------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Analysis/Placement.h"
#include "PlacementTrial.h"

#include "mlir/IR/Diagnostics.h"

using namespace blutrain;
using namespace mlir;
using blurt::LoopOp;

//===----------------------------------------------------------------------===//
// Demands
//===----------------------------------------------------------------------===//

/// The place of the source of views `value`, such that `value` lies at `view`:
/// the value at the source and its view, or nothing if some view on the way
/// cannot be undone.
static std::optional<std::pair<Value, ArenaView>> undoViews(Value value,
                                                            ArenaView view) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isView(op))
      break;
    Value source = op->getOperand(0);
    ArrayRef<int64_t> shape =
        cast<RankedTensorType>(source.getType()).getShape();
    if (auto transpose = dyn_cast<blurt::TransposeOp>(op)) {
      view = view.untransposed(transpose.getPermutation());
    } else if (isa<blurt::ReshapeOp>(op)) {
      std::optional<ArenaView> before = view.reshaped(shape);
      if (!before)
        return std::nullopt;
      view = *before;
    } else if (source.getType() != value.getType()) {
      // A slice is a part only.
      return std::nullopt;
    }
    value = source;
  }
  return std::make_pair(value, view);
}

bool Placement::demand(Value value, const ArenaView &view) {
  ContentId content = lifetimes->getContent(value);
  obstacle.reset();
  if (places[content])
    return getView(value).samePlace(view);
  // A Saved carry has slots before and after, a ring has its own; they go
  // nowhere else.
  if ((*lifetimes)[content].kind == Content::Kind::Saved ||
      (*lifetimes)[content].ring)
    return false;
  auto source = undoViews(value, view);
  if (!source || isa<BlockArgument>(source->first))
    return false;
  return tryPlace(content, source->second);
}

bool Placement::tryPlace(ContentId content, const ArenaView &view) {
  Trial trial(*this, content, view);
  if (!trial.isReachable() || !trial.computeViews() ||
      !trial.isLayoutAccepted())
    return false;
  for (ContentId other : contentsIn[view.getStorage()])
    if (std::optional<int64_t> time = trial.collides(other)) {
      obstacle = {other, *time};
      return false;
    }
  commit(content, view, std::move(trial.views));
  return true;
}

/// Libraries read matrices 16 bytes at a time only if every row begins on such
/// a multiple; for a vocabulary of 50257 in bf16 the difference is a factor.
bool Placement::wantsPadding(const Content &content) const {
  if (content.kind != Content::Kind::Result || content.ring ||
      content.type.getRank() != 2)
    return false;
  int64_t row = content.type.getShape().back() *
                blurt::getElementBytes(content.type.getElementType());
  if (row % padding.alignment == 0 ||
      row * content.type.getDimSize(0) < padding.leastBytes)
    return false;
  return isa<blurt::GemmOp>(content.def) ||
         llvm::any_of(content.def->getUsers(),
                      [](Operation *user) { return isa<blurt::GemmOp>(user); });
}

void Placement::placeAlone(ContentId content) {
  if (places[content])
    return;
  auto storage = static_cast<unsigned>(storages.size());
  const Content &owner = (*lifetimes)[content];
  if (wantsPadding(owner)) {
    ArenaView view = ArenaView::padded(storage, owner.type, padding.alignment);
    storages.push_back({view.getBaseRange().second, content, /*isState=*/false,
                        owner.getBegin(), owner.getEnd()});
    contentsIn.emplace_back();
    Trial trial(*this, content, view);
    if (trial.computeViews() && trial.isLayoutAccepted()) {
      commit(content, view, std::move(trial.views));
      return;
    }
    storages.pop_back();
    contentsIn.pop_back();
  }
  ArenaView view = ArenaView::contiguous(storage, owner.type);
  auto [begin, end] = view.getBaseRange();
  bool isState = owner.kind == Content::Kind::Argument &&
                 isStateArgument(func, owner.index);
  storages.push_back(
      {end - begin, content, isState, owner.getBegin(), owner.getEnd()});
  contentsIn.emplace_back();
  Trial trial(*this, content, view);
  [[maybe_unused]] bool expressible =
      trial.computeViews() && trial.isLayoutAccepted();
  assert(expressible && "function was not normalized before placement");
  commit(content, view, std::move(trial.views));
}

void Placement::commit(ContentId content, const ArenaView &view,
                       Views &&contentViews) {
  places[content] = view;
  contentsIn[view.getStorage()].push_back(content);
  for (auto &[value, place] : contentViews)
    views[value] = place;
  Storage &storage = storages[view.getStorage()];
  storage.begin = std::min(storage.begin, (*lifetimes)[content].getBegin());
  storage.end = std::max(storage.end, (*lifetimes)[content].getEnd());
}

ArenaView Placement::getInitialView(LoopOp loop, unsigned i) const {
  ContentId id = lifetimes->getCarry(loop, i);
  return getSavedInitialView((*lifetimes)[id], *places[id]);
}

ArenaView Placement::getWriteView(ContentId content) const {
  return getWriteSlotView((*lifetimes)[content], *places[content]);
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

FailureOr<Placement> Placement::compute(func::FuncOp func,
                                        const Lifetimes &lifetimes,
                                        const RowPadding &padding) {
  Placement placement(func, lifetimes, padding);
  if (mlir::failed(placement.run()))
    return failure();
  return placement;
}

LogicalResult Placement::run() {
  for (BlockArgument argument : func.getArguments())
    placeAlone(lifetimes->getContent(argument));
  if (mlir::failed(placeResults()))
    return failure();
  visit(func.getBody().front());
  return failure(failed);
}

InFlightDiagnostic Placement::emitNotInPlace(Location loc, unsigned argument) {
  auto tensor = func.getArgAttrOfType<DictionaryAttr>(argument, "blu.tensor");
  auto name = tensor ? tensor.getAs<StringAttr>("name") : StringAttr();
  auto role = tensor ? tensor.getAs<StringAttr>("role") : StringAttr();
  InFlightDiagnostic diag = emitError(loc);
  diag << "cannot update state tensor '"
       << (name ? name.getValue() : StringRef("?")) << "'";
  if (role)
    diag << " (" << role.getValue() << ")";
  diag << " in place";
  if (obstacle) {
    const Content &other = (*lifetimes)[obstacle->first];
    Operation *reader = lifetimes->getTimeline().getOperation(obstacle->second);
    if (reader && other.kind == Content::Kind::Argument)
      diag.attachNote(reader->getLoc()) << "the old value is still read here";
    else if (other.def)
      diag.attachNote(other.def->getLoc())
          << "its place is taken by this value";
  }
  return diag;
}

LogicalResult Placement::placeResults() {
  Operation *terminator = func.getBody().front().getTerminator();
  bool ok = true;
  for (OpOperand &operand : terminator->getOpOperands()) {
    std::optional<unsigned> argument =
        getDonatedArgument(func, operand.getOperandNumber());
    if (!argument)
      continue;
    if (demand(operand.get(), getView(func.getArgument(*argument))))
      continue;
    Operation *def = operand.get().getDefiningOp();
    emitNotInPlace(def ? def->getLoc() : terminator->getLoc(), *argument);
    ok = false;
  }
  for (OpOperand &operand : terminator->getOpOperands()) {
    auto output = lifetimes->getOutput(operand.getOperandNumber());
    if (!output)
      continue;
    placeAlone(*output);
    demand(operand.get(), getContentView(*output));
  }
  return success(ok);
}

void Placement::visit(Block &block) {
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (isView(&op))
      continue;
    if (auto concat = dyn_cast<blurt::ConcatOp>(op))
      visitConcat(concat);
    else if (auto loop = dyn_cast<LoopOp>(op))
      failed |= mlir::failed(visitLoop(loop));
    else
      visitLeaf(&op);
  }
}

void Placement::visitConcat(blurt::ConcatOp concat) {
  placeAlone(lifetimes->getContent(concat.getResult()));
  for (unsigned i = 0, e = concat.getParts().size(); i < e; ++i) {
    Value part = concat.getParts()[i];
    // A producer outside the block would keep the whole result live for longer
    // than the part is worth.
    Operation *def = (*lifetimes)[lifetimes->getContent(part)].def;
    if (def && def->getBlock() == concat->getBlock())
      demand(part, getPartView(concat, i, getView(concat.getResult())));
  }
}

LogicalResult Placement::visitLoop(LoopOp loop) {
  SmallVector<ContentId> written;
  if (auto iteration = lifetimes->getIteration(loop))
    placeAlone(*iteration);
  for (unsigned j = 0, e = loop.getNumCollected(); j < e; ++j) {
    ContentId id = lifetimes->getContent(getCollectedResult(loop, j));
    if ((*lifetimes)[id].kind == Content::Kind::Collected)
      written.push_back(id);
  }
  for (unsigned i = 0, e = loop.getCarries().size(); i < e; ++i)
    written.push_back(lifetimes->getCarry(loop, i));
  bool ok = true;
  for (ContentId id : written) {
    placeAlone(id);
    Value yielded = (*lifetimes)[id].yielded;
    ArenaView slot = getWriteView(id);
    if (demand(yielded, slot) || !storages[slot.getStorage()].isState)
      continue;
    // The slot belongs to a state tensor and would have to be copied into.
    ContentId owner = storages[slot.getStorage()].owner;
    Operation *def = yielded.getDefiningOp();
    emitNotInPlace(def ? def->getLoc() : loop.getLoc(),
                   (*lifetimes)[owner].index);
    ok = false;
  }
  // What an earlier loop collected has no better place than its own; give it
  // now, so that the body may write over slices that it has read for the last
  // time.
  for (Value slice : loop.getSlices()) {
    ContentId id = lifetimes->getContent(slice);
    Content::Kind kind = (*lifetimes)[id].kind;
    if (kind == Content::Kind::Collected || kind == Content::Kind::Saved)
      placeAlone(id);
  }
  visit(*loop.getBodyBlock());
  for (unsigned i = 0, e = loop.getCarries().size(); i < e; ++i)
    demand(loop.getCarries()[i], getInitialView(loop, i));
  return success(ok);
}

void Placement::visitLeaf(Operation *op) {
  if (auto group = dyn_cast<blurt::GroupOp>(op)) {
    for (unsigned i = 0, e = group.getNumResults(); i < e; ++i)
      shareWithInputs(group, i);
    return;
  }
  for (Value result : op->getResults())
    placeAlone(lifetimes->getContent(result));
  if (auto gemm = dyn_cast<blurt::GemmOp>(op)) {
    if (gemm.getC())
      demand(gemm.getC(), getView(gemm.getResult(0)));
  } else if (auto update = dyn_cast<blurt::CacheUpdateOp>(op)) {
    demand(update.getCache(), getView(update.getResult(0)));
  }
}

/// The place of an operand of `fromMap`, seen through the domain of a group by
/// `toMap`: for each domain point both maps reach the same byte. Nothing if
/// `toMap` is not a permutation of `fromMap`.
static std::optional<ArenaView> throughMaps(const ArenaView &view,
                                            AffineMap fromMap, AffineMap toMap,
                                            ShapedType toType) {
  SmallVector<int64_t> permutation;
  // Drop dims of extent 1 in both, then permute what is left.
  SmallVector<int64_t> keptShape;
  SmallVector<unsigned> keptDims;
  for (auto [expr, extent] :
       llvm::zip_equal(fromMap.getResults(), view.getShape()))
    if (extent != 1) {
      keptShape.push_back(extent);
      keptDims.push_back(cast<AffineDimExpr>(expr).getPosition());
    }
  std::optional<ArenaView> kept = view.reshaped(keptShape);
  if (!kept)
    return std::nullopt;
  for (auto [expr, extent] :
       llvm::zip_equal(toMap.getResults(), toType.getShape())) {
    if (extent == 1)
      continue;
    auto *found = llvm::find(keptDims, cast<AffineDimExpr>(expr).getPosition());
    if (found == keptDims.end())
      return std::nullopt;
    permutation.push_back(found - keptDims.begin());
  }
  if (permutation.size() != keptDims.size())
    return std::nullopt;
  return kept->transposed(permutation).reshaped(toType.getShape());
}

void Placement::shareWithInputs(blurt::GroupOp group, unsigned i) {
  OpResult result = group->getResult(i);
  // A copy that is there for the order of its bytes has its own.
  if (group->hasAttr("blurt.relayout")) {
    placeAlone(lifetimes->getContent(result));
    return;
  }
  if ((*lifetimes)[lifetimes->getContent(result)].ring)
    placeAlone(lifetimes->getContent(result));
  auto resultType = cast<ShapedType>(result.getType());
  ContentId content = lifetimes->getContent(result);
  int64_t elementBytes = blurt::getElementBytes(resultType.getElementType());
  auto sameBytes = [&](Value input) {
    return blurt::getElementBytes(getElementTypeOrSelf(input.getType())) ==
           elementBytes;
  };
  // An input that has a place already and dies here leaves it to the result.
  for (auto [j, input] : llvm::enumerate(group.getInputs())) {
    if (places[content])
      break;
    ContentId source = lifetimes->getContent(input);
    if (!places[source] || !sameBytes(input))
      continue;
    const ArenaView &view = getView(input);
    const Storage &storage = storages[view.getStorage()];
    if (storage.isState ||
        ((*lifetimes)[content].getEnd() > storage.end &&
         storage.bytes > resultType.getNumElements() * elementBytes))
      continue;
    if (auto place =
            throughMaps(view, group.getInputMap(static_cast<unsigned>(j)),
                        group.getOutputMap(i), resultType))
      tryPlace(content, *place);
  }
  placeAlone(content);
  // One that has none yet may be produced where the result will be.
  const ArenaView &view = getView(result);
  for (auto [j, input] : llvm::enumerate(group.getInputs())) {
    ContentId source = lifetimes->getContent(input);
    const Storage &storage = storages[view.getStorage()];
    if (places[source] || !sameBytes(input))
      continue;
    // Do not keep a large storage for longer for the sake of a small part.
    if (!storage.isState && (*lifetimes)[source].getBegin() < storage.begin &&
        storage.bytes > resultType.getNumElements() * elementBytes)
      continue;
    auto place = throughMaps(view, group.getOutputMap(i),
                             group.getInputMap(static_cast<unsigned>(j)),
                             cast<ShapedType>(input.getType()));
    if (place && demand(input, *place))
      return;
  }
}
