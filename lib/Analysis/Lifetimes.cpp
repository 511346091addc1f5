//===- Lifetimes.cpp - what must be kept, and from when to when -----------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Analysis/Lifetimes.h"

#include "blutrain/Analysis/CollectiveWindow.h"

using namespace blutrain;
using namespace mlir;
using blurt::LoopOp;

//===----------------------------------------------------------------------===//
// Queries about the program
//===----------------------------------------------------------------------===//

bool blutrain::isView(Operation *op) {
  return isa<blurt::ReshapeOp, blurt::TransposeOp, blurt::SliceOp>(op);
}

std::optional<unsigned> blutrain::getDonatedArgument(func::FuncOp func,
                                                     unsigned i) {
  auto attr = func.getResultAttrOfType<IntegerAttr>(i, "blu.donates");
  if (!attr)
    return std::nullopt;
  return static_cast<unsigned>(attr.getInt());
}

bool blutrain::isDonated(func::FuncOp func, unsigned argument) {
  return llvm::any_of(llvm::seq(0u, func.getNumResults()), [&](unsigned i) {
    return getDonatedArgument(func, i) == argument;
  });
}

bool blutrain::isStateArgument(func::FuncOp func, unsigned argument) {
  auto tensor = func.getArgAttrOfType<DictionaryAttr>(argument, "blu.tensor");
  auto role = tensor ? tensor.getAs<StringAttr>("role") : StringAttr();
  return role && llvm::is_contained({"param", "moment1", "moment2", "cache"},
                                    role.getValue());
}

Value blutrain::getYieldedCarry(LoopOp loop, unsigned i) {
  return loop.getBodyBlock()->getTerminator()->getOperand(i);
}

Value blutrain::getYieldedCollected(LoopOp loop, unsigned i) {
  return getYieldedCarry(loop,
                         static_cast<unsigned>(loop.getCarries().size()) + i);
}

Value blutrain::getCollectedResult(LoopOp loop, unsigned i) {
  return loop.getResult(static_cast<unsigned>(loop.getCarries().size()) + i);
}

static bool isReturned(Value value) {
  return llvm::any_of(value.getUsers(),
                      [](Operation *op) { return isa<func::ReturnOp>(op); });
}

Value blutrain::skipReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<blurt::ReshapeOp>())
    value = reshape.getSource();
  return value;
}

SavedCollections blutrain::getSavedCollections(LoopOp loop, unsigned i) {
  SavedCollections saved;
  // What is returned has a place of its own.
  if (isReturned(loop.getResult(i)))
    return saved;
  Value argument = loop.getCarryArg(i);
  Value yielded = skipReshapes(getYieldedCarry(loop, i));
  // An argument passed on unchanged needs no second slot.
  if (argument == yielded)
    return saved;
  for (unsigned j = 0, e = loop.getNumCollected(); j < e; ++j) {
    if (isReturned(getCollectedResult(loop, j)))
      continue;
    Value collected = skipReshapes(getYieldedCollected(loop, j));
    if (collected == argument)
      saved.ofArgument.push_back(j);
    else if (collected == yielded && yielded.getDefiningOp() &&
             yielded.getDefiningOp()->getParentOp() == loop)
      saved.ofYielded.push_back(j);
  }
  return saved;
}

//===----------------------------------------------------------------------===//
// Timeline
//===----------------------------------------------------------------------===//

Timeline::Timeline(func::FuncOp func) {
  int64_t next = 1;
  number(func.getBody().front(), next);
  exit = next - 1;
}

void Timeline::number(Block &block, int64_t &next) {
  for (Operation &op : block) {
    positions[&op] = next;
    operations[next] = &op;
    ++next;
    if (auto loop = dyn_cast<LoopOp>(op)) {
      ++next; // the begin of the body
      number(*loop.getBodyBlock(), next);
      ++next; // the end of the loop
    }
  }
}

int64_t Timeline::getBodyEnd(LoopOp loop) const {
  return at(loop.getBodyBlock()->getTerminator());
}

//===----------------------------------------------------------------------===//
// Contents
//===----------------------------------------------------------------------===//

int64_t Content::getBegin() const {
  int64_t begin = lifetimes.front().begin;
  for (const Lifetime &lifetime : lifetimes)
    begin = std::min(begin, lifetime.begin);
  return begin;
}

int64_t Content::getEnd() const {
  int64_t end = lifetimes.front().end;
  for (const Lifetime &lifetime : lifetimes)
    end = std::max(end, lifetime.end);
  return end;
}

Lifetimes::Lifetimes(func::FuncOp func) : func(func), timeline(func) {
  for (BlockArgument argument : func.getArguments()) {
    Content content(Content::Kind::Argument);
    content.index = argument.getArgNumber();
    content.type = cast<RankedTensorType>(argument.getType());
    add(std::move(content), argument);
  }
  build(func.getBody().front());
  Operation *terminator = func.getBody().front().getTerminator();
  for (auto [i, value] : llvm::enumerate(terminator->getOperands())) {
    unsigned result = static_cast<unsigned>(i);
    if (getDonatedArgument(func, result))
      continue;
    Content content(Content::Kind::Output);
    content.index = result;
    content.type = cast<RankedTensorType>(value.getType());
    content.yielded = value;
    outputs[result] = add(std::move(content), {});
  }
  for (Content &content : contents)
    computeLifetimes(content);
}

ContentId Lifetimes::add(Content content, ValueRange members) {
  auto id = static_cast<ContentId>(contents.size());
  for (Value member : members) {
    contentOf[member] = id;
    content.values.push_back(member);
  }
  contents.push_back(std::move(content));
  return id;
}

std::optional<ContentId> Lifetimes::getIteration(LoopOp loop) const {
  auto found = contentOf.find(loop.getIteration());
  return found == contentOf.end() ? std::nullopt
                                  : std::optional<ContentId>(found->second);
}

std::optional<ContentId> Lifetimes::getOutput(unsigned i) const {
  auto found = outputs.find(i);
  return found == outputs.end() ? std::nullopt
                                : std::optional<ContentId>(found->second);
}

static RankedTensorType stacked(RankedTensorType type, int64_t slots) {
  SmallVector<int64_t> shape{slots};
  llvm::append_range(shape, type.getShape());
  return RankedTensorType::get(shape, type.getElementType());
}

void Lifetimes::build(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (auto loop = dyn_cast<LoopOp>(op)) {
      buildLoop(loop);
      continue;
    }
    if (isView(&op)) {
      ContentId source = contentOf.lookup(op.getOperand(0));
      contentOf[op.getResult(0)] = source;
      contents[source].values.push_back(op.getResult(0));
      continue;
    }
    for (OpResult result : op.getResults()) {
      Content content(isa<blurt::ConcatOp>(op) ? Content::Kind::Concat
                                               : Content::Kind::Result);
      content.def = &op;
      content.index = result.getResultNumber();
      content.type = cast<RankedTensorType>(result.getType());
      if (op.hasAttr(kAheadAttr) || getRingReader(result)) {
        content.ring = cast<LoopOp>(op.getParentOp());
        content.type = stacked(content.type, kRingSlots);
      }
      add(std::move(content), result);
    }
  }
}

void Lifetimes::buildLoop(LoopOp loop) {
  if (!loop.getIteration().use_empty()) {
    Content content(Content::Kind::Iteration);
    content.def = loop;
    content.type = cast<RankedTensorType>(loop.getIteration().getType());
    add(std::move(content), loop.getIteration());
  }
  auto count = static_cast<int64_t>(loop.getCount());
  llvm::SmallDenseSet<unsigned> savedCollections;
  for (unsigned i = 0, e = loop.getCarries().size(); i < e; ++i) {
    SavedCollections saved = getSavedCollections(loop, i);
    Content content(saved.empty() ? Content::Kind::Carry
                                  : Content::Kind::Saved);
    content.def = loop;
    content.index = i;
    auto type = cast<RankedTensorType>(loop.getResult(i).getType());
    content.type = saved.empty() ? type : stacked(type, count + 1);
    content.yielded = getYieldedCarry(loop, i);
    SmallVector<Value> members{loop.getCarryArg(i), loop.getResult(i)};
    for (const auto &list : {saved.ofArgument, saved.ofYielded})
      for (unsigned j : list) {
        // A value that two carries save belongs to the first.
        if (savedCollections.insert(j).second)
          members.push_back(getCollectedResult(loop, j));
      }
    add(std::move(content), members);
  }
  for (unsigned j = 0, e = loop.getNumCollected(); j < e; ++j) {
    if (savedCollections.contains(j))
      continue;
    Content content(Content::Kind::Collected);
    content.def = loop;
    content.index = j;
    content.type =
        cast<RankedTensorType>(getCollectedResult(loop, j).getType());
    content.yielded = getYieldedCollected(loop, j);
    add(std::move(content), getCollectedResult(loop, j));
  }
  for (auto [i, operand] : llvm::enumerate(loop.getSlices())) {
    ContentId source = contentOf.lookup(operand);
    BlockArgument slice = loop.getSliceArg(static_cast<unsigned>(i));
    contentOf[slice] = source;
    contents[source].values.push_back(slice);
  }
  build(*loop.getBodyBlock());
}

//===----------------------------------------------------------------------===//
// Lifetimes
//===----------------------------------------------------------------------===//

int64_t Lifetimes::getLastUse(Content &content, Value value, Block *home,
                              int64_t begin) {
  int64_t last = begin;
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    Operation *ancestor = home->findAncestorOpInBlock(*user);
    if (ancestor != user) {
      // Inside a loop: every iteration may read it.
      last = std::max(last, timeline.getEnd(cast<LoopOp>(ancestor)));
      continue;
    }
    if (isView(user)) {
      last =
          std::max(last, getLastUse(content, user->getResult(0), home, begin));
      continue;
    }
    last = std::max(last, timeline.at(user));
    if (auto collective = dyn_cast<blurt::CollectiveOp>(user))
      last = std::max(last, getCollectiveEnd(collective));
    auto loop = dyn_cast<LoopOp>(user);
    if (!loop || use.getOperandNumber() < loop.getCarries().size())
      continue;
    BlockArgument slice =
        loop.getSliceArg(use.getOperandNumber() -
                         static_cast<unsigned>(loop.getCarries().size()));
    content.lifetimes.push_back({timeline.at(loop), timeline.getBodyEnd(loop),
                                 Lifetime::Region::OfValue, value,
                                 Lifetime::Phase::Unvisited, slice});
    int64_t bodyBegin = timeline.getBodyBegin(loop);
    int64_t end = getLastUse(content, slice, loop.getBodyBlock(), bodyBegin);
    content.lifetimes.push_back(
        {bodyBegin, end, Lifetime::Region::OfValue, slice});
  }
  return last;
}

int64_t Lifetimes::getCollectiveEnd(blurt::CollectiveOp collective) const {
  if (!collective.getAsync() || collective->hasAttr(kAheadAttr))
    return timeline.at(collective);
  CollectiveWindow window = getWindow(collective);
  return timeline.at(window.isCarried ? collective->getBlock()->getTerminator()
                                      : window.end);
}

void Lifetimes::addRingLifetimes(Content &content) {
  Value front = content.values.front();
  LoopOp loop = content.ring;
  int64_t bodyEnd = timeline.getBodyEnd(loop);
  if (content.def->hasAttr(kAheadAttr)) {
    // From before the first iteration on, one slot or the other.
    content.lifetimes.push_back({timeline.at(loop), bodyEnd});
    return;
  }
  // This iteration's slot, then the last one's.
  content.lifetimes.push_back(
      {timeline.at(content.def), bodyEnd, Lifetime::Region::OfValue, front});
  content.lifetimes.push_back({timeline.getBodyBegin(loop),
                               bodyEnd,
                               Lifetime::Region::All,
                               {},
                               Lifetime::Phase::Visited,
                               front});
  int64_t end = timeline.getEnd(loop);
  forEachUser(front, [&](OpOperand &use) {
    auto collective = dyn_cast<blurt::CollectiveOp>(use.getOwner());
    if (!collective || !collective.getAsync())
      return;
    CollectiveWindow window = getWindow(collective);
    if (window.isCarried)
      end = std::max(end, timeline.at(window.end));
  });
  content.lifetimes.push_back(
      {timeline.getEnd(loop), end, Lifetime::Region::All});
}

void Lifetimes::computeLifetimes(Content &content) {
  using Region = Lifetime::Region;
  using Phase = Lifetime::Phase;
  // Appending slices' lifetimes comes first, so take the end before adding.
  auto live = [&](Value value, int64_t begin, Region region) {
    int64_t end = getLastUse(content, value, value.getParentBlock(), begin);
    content.lifetimes.push_back({begin, end, region, value});
  };
  if (content.kind == Content::Kind::Output) {
    content.lifetimes.push_back({timeline.getExit(),
                                 timeline.getExit(),
                                 Region::All,
                                 {},
                                 Phase::Whole,
                                 {},
                                 content.yielded});
    return;
  }
  Value front = content.values.front();
  if (content.kind == Content::Kind::Argument) {
    live(front, timeline.getEntry(), Region::All);
    if (isStateArgument(func, content.index) && !isDonated(func, content.index))
      content.lifetimes.push_back({timeline.getEntry(), timeline.getExit()});
    return;
  }
  if (content.ring) {
    // Slices of it in inner loops have lifetimes of their own.
    getLastUse(content, front, front.getParentBlock(),
               timeline.at(content.def));
    addRingLifetimes(content);
    return;
  }
  if (content.kind == Content::Kind::Result ||
      content.kind == Content::Kind::Concat) {
    live(front, timeline.at(content.def), Region::All);
    return;
  }
  LoopOp loop = content.getLoop();
  if (content.kind == Content::Kind::Iteration) {
    live(front, timeline.getBodyBegin(loop), Region::All);
    return;
  }
  int64_t begin = timeline.at(loop), bodyEnd = timeline.getBodyEnd(loop);
  // What the terminator writes.
  content.lifetimes.push_back({bodyEnd,
                               bodyEnd,
                               Region::WriteSlot,
                               {},
                               Phase::Whole,
                               {},
                               content.yielded});
  if (content.kind == Content::Kind::Collected)
    content.lifetimes.push_back({timeline.getBodyBegin(loop),
                                 bodyEnd,
                                 Region::All,
                                 {},
                                 Phase::Visited});
  if (content.kind == Content::Kind::Saved)
    content.lifetimes.push_back(
        {begin, bodyEnd, Region::All, {}, Phase::Visited});
  SmallVector<Value, 4> members(content.values);
  for (Value member : members) {
    if (isa<BlockArgument>(member)) {
      if (cast<BlockArgument>(member).getOwner() == loop.getBodyBlock() &&
          member == loop.getCarryArg(content.index))
        live(member, begin, Region::OfValue);
    } else if (member.getDefiningOp() == loop.getOperation()) {
      live(member, timeline.getEnd(loop), Region::OfValue);
    }
  }
}
