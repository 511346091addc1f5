//===- PlacementTrial.cpp - may this content lie here? --------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "PlacementTrial.h"

#include "Blurt/Collective.h"

using namespace blutrain;
using namespace mlir;
using blurt::LoopOp;

//===----------------------------------------------------------------------===//
// Views of the values of a content
//===----------------------------------------------------------------------===//

// The slots of a Saved carry: a loop that counts up fills slots 1 … count and
// starts from slot 0, one that counts down fills count-1 … 0 and starts from
// slot count. Either way iteration i reads the slot that the iteration before
// it wrote.

static int64_t getCount(const Content &content) {
  return static_cast<int64_t>(content.getLoop().getCount());
}

static ArenaView getSavedSlots(const Content &content, const ArenaView &view,
                               bool written) {
  bool upper = written != content.getLoop().getReverse();
  return view.leading(upper ? 1 : 0, getCount(content));
}

ArenaView blutrain::getWriteSlotView(const Content &content,
                                     const ArenaView &view) {
  if (content.kind == Content::Kind::Saved)
    return getSavedSlots(content, view, /*written=*/true)
        .element(content.getLoop());
  if (content.kind == Content::Kind::Collected)
    return view.element(content.getLoop());
  return view;
}

ArenaView blutrain::getSavedInitialView(const Content &content,
                                        const ArenaView &view) {
  if (content.kind != Content::Kind::Saved)
    return view;
  return view.element(content.getLoop().getReverse() ? getCount(content) : 0);
}

/// Where `member`, one of the values that make up a content, lies.
static ArenaView getMemberView(const Content &content, const ArenaView &view,
                               Value member) {
  if (content.ring)
    return view.ringElement(content.ring);
  if (content.kind != Content::Kind::Saved)
    return view;
  LoopOp loop = content.getLoop();
  if (member == loop.getCarryArg(content.index))
    return getSavedSlots(content, view, /*written=*/false).element(loop);
  if (member == loop.getResult(content.index))
    return view.element(loop.getReverse() ? 0 : getCount(content));
  unsigned collected = cast<OpResult>(member).getResultNumber() -
                       static_cast<unsigned>(loop.getCarries().size());
  bool written = skipReshapes(getYieldedCollected(loop, collected)) !=
                 loop.getCarryArg(content.index);
  std::optional<ArenaView> slots =
      getSavedSlots(content, view, written)
          .reshaped(cast<ShapedType>(member.getType()).getShape());
  assert(slots && "slots are contiguous");
  return *slots;
}

ArenaView blutrain::getPartView(blurt::ConcatOp concat, unsigned i,
                                const ArenaView &view) {
  SmallVector<int64_t> offsets(view.getRank(), 0);
  auto dim = static_cast<size_t>(concat.getDim());
  for (unsigned j = 0; j < i; ++j)
    offsets[dim] +=
        cast<ShapedType>(concat.getParts()[j].getType()).getDimSize(dim);
  return view.sliced(
      offsets, cast<ShapedType>(concat.getParts()[i].getType()).getShape());
}

/// The operand that the slice argument `value` walks along, or null.
static Value getSliced(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto loop = argument ? dyn_cast<LoopOp>(argument.getOwner()->getParentOp())
                       : LoopOp();
  if (!loop)
    return {};
  unsigned first = 1 + static_cast<unsigned>(loop.getCarries().size());
  if (argument.getArgNumber() < first)
    return {};
  return loop.getSlices()[argument.getArgNumber() - first];
}

bool Placement::Trial::computeViews() {
  views.clear();
  for (Value value : content.values) {
    Operation *op = value.getDefiningOp();
    if (op && isView(op)) {
      const ArenaView &source = views.find(op->getOperand(0))->second;
      ArrayRef<int64_t> shape =
          cast<RankedTensorType>(value.getType()).getShape();
      if (auto transpose = dyn_cast<blurt::TransposeOp>(op)) {
        ArenaView place = source.transposed(transpose.getPermutation());
        views.insert({value, std::move(place)});
      } else if (auto slice = dyn_cast<blurt::SliceOp>(op)) {
        ArenaView place = source.sliced(slice.getOffsets(), shape);
        views.insert({value, std::move(place)});
      } else {
        std::optional<ArenaView> reshaped = source.reshaped(shape);
        if (!reshaped)
          return false;
        views.insert({value, std::move(*reshaped)});
      }
      continue;
    }
    if (Value sliced = getSliced(value)) {
      auto loop = cast<LoopOp>(value.getParentBlock()->getParentOp());
      ArenaView place = views.find(sliced)->second.element(loop);
      views.insert({value, std::move(place)});
      continue;
    }
    views.insert({value, getMemberView(content, view, value)});
  }
  return true;
}

const ArenaView &Placement::Trial::getView(Value value) const {
  auto found = views.find(value);
  return found != views.end() ? found->second : placement.getView(value);
}

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

static bool hasUnitMatrixStride(const ArenaView &view) {
  for (int64_t dim : {view.getRank() - 2, view.getRank() - 1})
    if (view.getShape()[dim] == 1 ||
        view.getStrides()[dim] == view.getElementBytes())
      return true;
  return false;
}

static bool hasUnitInnerStride(const ArenaView &view) {
  return view.getRank() == 0 || view.getShape().back() == 1 ||
         view.getStrides().back() == view.getElementBytes();
}

bool blutrain::acceptsOperandLayout(OpOperand &operand, const ArenaView &view) {
  Operation *op = operand.getOwner();
  // A GEMM's c is written like its result.
  if (isa<blurt::GemmOp>(op))
    return operand.getOperandNumber() > 1 || hasUnitMatrixStride(view);
  if (isa<blurt::AttentionOp, blurt::AttentionGradOp>(op))
    return hasUnitInnerStride(view);
  return !isa<blurt::CollectiveOp>(op) || view.isContiguous();
}

bool blutrain::acceptsResultLayout(OpResult result, const ArenaView &view) {
  Operation *op = result.getOwner();
  // A bias is added along rows.
  if (auto gemm = dyn_cast<blurt::GemmOp>(op); gemm && gemm.getBias())
    return hasUnitInnerStride(view);
  if (isa<blurt::GemmOp>(op))
    return hasUnitMatrixStride(view);
  if (isa<blurt::AttentionOp, blurt::AttentionGradOp>(op))
    return hasUnitInnerStride(view);
  return !isa<blurt::CollectiveOp>(op) || view.isContiguous();
}

bool Placement::Trial::isReachable() const {
  return llvm::all_of(view.getTerms(), [&](const ArenaView::Term &term) {
    return content.def && term.loop->isProperAncestor(content.def);
  });
}

bool Placement::Trial::isLayoutAccepted() const {
  for (Value value : content.values) {
    const ArenaView &place = views.find(value)->second;
    if (auto result = dyn_cast<OpResult>(value))
      if (!acceptsResultLayout(result, place))
        return false;
    for (OpOperand &use : value.getUses())
      if (!acceptsOperandLayout(use, place))
        return false;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Collisions
//===----------------------------------------------------------------------===//

ArenaView Placement::Trial::getRegion(const Side &side,
                                      const Lifetime &lifetime) const {
  switch (lifetime.region) {
  case Lifetime::Region::All:
    return side.place;
  case Lifetime::Region::WriteSlot:
    return getWriteSlotView(side.content, side.place);
  case Lifetime::Region::OfValue:
    return getView(lifetime.value);
  }
  llvm_unreachable("unknown region");
}

ArenaView Placement::Trial::getSlot(const Side &side,
                                    const Lifetime &lifetime) const {
  return lifetime.slot ? getView(lifetime.slot)
                       : getWriteSlotView(side.content, side.place);
}

/// Whether `value` shows all of `content`, not a part.
static bool covers(Value value, const Content &content) {
  return cast<ShapedType>(value.getType()).getNumElements() ==
         content.type.getNumElements();
}

bool Placement::Trial::holdsSame(const Side &side, const Lifetime &lifetime,
                                 const Side &other) const {
  if (!lifetime.sameAs || lifetimes.getContent(lifetime.sameAs) != other.id ||
      !covers(lifetime.sameAs, other.content))
    return false;
  return getView(lifetime.sameAs).samePlace(getRegion(side, lifetime));
}

bool Placement::Trial::isPart(const Side &concat, const Side &part) const {
  if (concat.content.kind != Content::Kind::Concat)
    return false;
  auto op = cast<blurt::ConcatOp>(concat.content.def);
  for (auto [i, value] : llvm::enumerate(op.getParts()))
    if (lifetimes.getContent(value) == part.id && covers(value, part.content) &&
        getView(value).samePlace(
            getPartView(op, static_cast<unsigned>(i), concat.place)))
      return true;
  return false;
}

bool Placement::Trial::isInitial(const Side &saved, const Side &initial) const {
  if (saved.content.kind != Content::Kind::Saved)
    return false;
  Value value = saved.content.getLoop().getCarries()[saved.content.index];
  return lifetimes.getContent(value) == initial.id &&
         covers(value, initial.content) &&
         getView(value).samePlace(
             getSavedInitialView(saved.content, saved.place));
}

bool Placement::Trial::mayGroupOverwrite(blurt::GroupOp group,
                                         const Side &reader,
                                         const Side &writer) const {
  OpResult result = group->getResult(writer.content.index);
  const ArenaView &out = getView(result);
  for (Value table : group.getTables())
    if (lifetimes.getContent(table) == reader.id &&
        !getView(table).disjoint(out))
      return false;
  // Bytes that a step along each dim of the domain advances by.
  auto domainStrides = [&](const ArenaView &place, AffineMap map) {
    SmallVector<int64_t> strides(group.getDomain().size(), 0);
    for (auto [i, expr] : llvm::enumerate(map.getResults()))
      if (place.getShape()[i] != 1)
        strides[cast<AffineDimExpr>(expr).getPosition()] =
            place.getStrides()[i];
    return strides;
  };
  SmallVector<int64_t> outStrides =
      domainStrides(out, group.getOutputMap(writer.content.index));
  for (auto [i, input] : llvm::enumerate(group.getInputs())) {
    if (lifetimes.getContent(input) != reader.id)
      continue;
    const ArenaView &in = getView(input);
    if (in.disjoint(out))
      continue;
    // Each point writes what it alone has read.
    if (in.getOffset() != out.getOffset() || in.getTerms() != out.getTerms() ||
        in.getElementBytes() != out.getElementBytes() ||
        domainStrides(in, group.getInputMap(static_cast<unsigned>(i))) !=
            outStrides)
      return false;
  }
  return true;
}

bool Placement::Trial::mayOverwrite(const Side &reader, const Side &writer,
                                    int64_t time) const {
  Operation *op = lifetimes.getTimeline().getOperation(time);
  // Two results of one operation are both written.
  if (!op || writer.content.def != op || reader.content.def == op)
    return false;
  if (auto group = dyn_cast<blurt::GroupOp>(op))
    return mayGroupOverwrite(group, reader, writer);
  auto updates = [&](Value updated, Value result) {
    return lifetimes.getContent(updated) == reader.id &&
           llvm::count_if(op->getOperands(),
                          [&](Value operand) {
                            return lifetimes.getContent(operand) == reader.id;
                          }) == 1 &&
           getView(updated).samePlace(getView(result));
  };
  if (auto gemm = dyn_cast<blurt::GemmOp>(op))
    return gemm.getC() && updates(gemm.getC(), gemm.getResult(0));
  if (auto update = dyn_cast<blurt::CacheUpdateOp>(op))
    return updates(update.getCache(), update.getResult(0));
  if (auto loop = dyn_cast<LoopOp>(op)) {
    // An initial value that lies in the carry's place needs no copy.
    if (writer.content.kind != Content::Kind::Carry)
      return false;
    Value initial = loop.getCarries()[writer.content.index];
    return lifetimes.getContent(initial) == reader.id &&
           covers(initial, reader.content) &&
           getView(initial).samePlace(writer.place);
  }
  return false;
}

bool Placement::Trial::collide(const Side &a, const Lifetime &lifeA,
                               const Side &b, const Lifetime &lifeB) const {
  if (lifeA.end < lifeB.begin || lifeB.end < lifeA.begin)
    return false;
  ArenaView regionA = getRegion(a, lifeA), regionB = getRegion(b, lifeB);
  if (regionA.disjoint(regionB))
    return false;
  // Slots that the current iteration leaves alone.
  bool partialA = lifeA.phase != Lifetime::Phase::Whole;
  bool partialB = lifeB.phase != Lifetime::Phase::Whole;
  if (partialA && partialB && lifeA.phase != lifeB.phase &&
      getSlot(a, lifeA).samePlace(getSlot(b, lifeB)))
    return false;
  if (partialA && regionB.within(getSlot(a, lifeA)))
    return false;
  if (partialB && regionA.within(getSlot(b, lifeB)))
    return false;
  if (holdsSame(a, lifeA, b) || holdsSame(b, lifeB, a))
    return false;
  if (lifeA.end == lifeB.begin && mayOverwrite(a, b, lifeA.end))
    return false;
  if (lifeB.end == lifeA.begin && mayOverwrite(b, a, lifeB.end))
    return false;
  return true;
}

std::optional<int64_t> Placement::Trial::collides(ContentId other) const {
  Side mine{id, content, view};
  Side theirs{other, lifetimes[other], *placement.places[other]};
  if (isPart(mine, theirs) || isPart(theirs, mine) || isInitial(mine, theirs) ||
      isInitial(theirs, mine))
    return std::nullopt;
  for (const Lifetime &a : mine.content.lifetimes)
    for (const Lifetime &b : theirs.content.lifetimes)
      if (collide(mine, a, theirs, b))
        return b.end;
  return std::nullopt;
}
