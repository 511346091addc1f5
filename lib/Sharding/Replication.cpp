//===- Replication.cpp - what the devices hold of each value --------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Replication.h"

#include "blutrain/Autodiff/StepUtils.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static uint32_t allDims(Value value) {
  return (uint32_t(1) << shapeOf(value).size()) - 1;
}

static bool hasDim(uint32_t dims, size_t dim) { return dims >> dim & 1; }

std::string Replication::describe(Holding holding) const {
  std::string along = " along '" + axis + "'";
  switch (holding.kind) {
  case Kind::Whole:
    return "a value that is the same on all devices" + along;
  case Kind::Part:
    return "a part of what is cut" + along;
  case Kind::Piece:
    return "a piece of what is cut in pieces" + along;
  case Kind::Partial:
    return "a term of a sum over the devices" + along;
  case Kind::Terms:
    return "the terms of a sum over the devices" + along;
  case Kind::Index:
    return "a number that depends on the device's place" + along;
  case Kind::Key:
    return "a random key that depends on the device's place" + along;
  case Kind::Broken:
    break;
  }
  return "a value that is not known";
}

void Replication::reject(Operation *op, unsigned i, const Twine &why) {
  if (unsettled)
    return;
  failed = true;
  InFlightDiagnostic diag = op->emitOpError("operand ")
                            << i << " is " << describe(get(op->getOperand(i)))
                            << ", " << why;
  Location made = op->getOperand(i).getLoc();
  if (made != op->getLoc())
    diag.attachNote(made) << "it comes from here";
}

void Replication::reject(Operation *op, const Twine &why) {
  if (unsettled)
    return;
  failed = true;
  op->emitOpError() << why;
}

void Replication::setAll(Operation *op, Holding holding) {
  for (Value result : op->getResults())
    set(result, holding);
}

void Replication::setBroken(Operation *op) { setAll(op, {Kind::Broken}); }

Holding Replication::getArgument(unsigned i) {
  if (Attribute attr = step.getArgAttr(i, "blu.part"))
    if (FailureOr<Sharding> sharding = Sharding::get(attr); succeeded(sharding))
      for (auto [d, axes] : llvm::enumerate(sharding->dims))
        if (llvm::is_contained(axes, StringAttr::get(step.getContext(), axis)))
          return {Kind::Part, uint32_t(1) << d};
  if (argumentRole(step, i) == "scalar" &&
      argumentName(step, i) == axis + "_index")
    return {Kind::Index};
  auto info = step.getArgAttrOfType<DictionaryAttr>(i, "blu.tensor");
  return getCut(info);
}

/// What is cut into pieces is so along `dp`.
Holding Replication::getCut(DictionaryAttr info) const {
  if (axis == "dp" && info && info.contains("shards"))
    return {Kind::Piece, 0, false, false, /*isPadded=*/true};
  return {};
}

//===----------------------------------------------------------------------===//
// By rule
//===----------------------------------------------------------------------===//

/// Zeros behind a short piece stay zeros.
bool Replication::keepsPadding(Operation *op) const {
  auto isPadded = [&](unsigned i) {
    Holding holding = get(op->getOperand(i));
    return (holding.kind == Kind::Piece && holding.isPadded) || holding.isZero;
  };
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](MulOp) { return isPadded(0) || isPadded(1); })
      .Case<AddOp, SubOp, MaximumOp, MinimumOp, AdamWOp, SgdOp>(
          [&](auto) { return isPadded(0) && isPadded(1); })
      .Case([&](SelectOp) { return isPadded(1) && isPadded(2); })
      .Case([&](DivOp) {
        return isPadded(0) && get(op->getOperand(1)).kind == Kind::Whole;
      })
      .Case<NegOp, CastOp, AbsOp, SqrtOp, TanhOp, ReluOp, GeluOp, SiluOp,
            StopGradientOp, ReduceSumOp, ReduceMeanOp>(
          [&](auto) { return isPadded(0); })
      .Default([](Operation *) { return false; });
}

void Replication::visitWhole(Operation *op, const ShardingRule &rule) {
  bool isConstant = !isa<DropoutOp, RandomKeyOp>(op) &&
                    llvm::all_of(op->getOperands(),
                                 [&](Value v) { return get(v).isConstant; });
  for (auto [result, factors] :
       llvm::zip_equal(op->getResults(), rule.results)) {
    Holding holding{Kind::Whole, 0, isConstant};
    for (auto [d, factor] : llvm::enumerate(factors)) {
      bool found = false, isUniform = !isa<DropoutOp>(op) && factor >= 0;
      for (auto [operand, its] :
           llvm::zip_equal(op->getOperands(), rule.operands))
        for (auto [e, other] : llvm::enumerate(its))
          if (isUniform && other == factor) {
            found = true;
            isUniform &= hasDim(get(operand).dims, e);
          }
      // What no operand has is repeated.
      if (shapeOf(result)[d] == 1 ||
          (isUniform && (found || isa<BroadcastOp>(op))))
        holding.dims |= uint32_t(1) << d;
    }
    set(result, holding);
  }
}

void Replication::visitSums(Operation *op, const ShardingRule &rule) {
  SmallVector<unsigned> sums;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (get(operand).kind == Kind::Partial)
      sums.push_back(i);
  bool passes = false;
  if (rule.linear == ShardingRule::Linear::Each)
    passes = sums.size() == 1 && rule.linearIn.test(sums[0]);
  else if (rule.linear == ShardingRule::Linear::Joint)
    passes = llvm::all_of(op->getOperands(), [&](Value v) {
      return get(v).kind == Kind::Partial || get(v).isZero;
    });
  if (passes)
    return setAll(op, {Kind::Partial});
  reject(op, sums[0], "expected the sum");
  setBroken(op);
}

void Replication::visitCut(Operation *op, const ShardingRule &rule) {
  // The factors that the cut can be along: those that all cut operands have.
  std::optional<unsigned> first;
  SmallVector<int> common;
  Kind kind = Kind::Part;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    Holding holding = get(operand);
    if (holding.kind != Kind::Part && holding.kind != Kind::Piece)
      continue;
    const ShardingRule::Factors &its = rule.operands[i];
    uint32_t dims = holding.dims;
    if (holding.kind == Kind::Piece)
      dims = its.empty() ? 0 : uint32_t(1) << (its.size() - 1);
    SmallVector<int> factors;
    bool isFree = false;
    for (auto [d, factor] : llvm::enumerate(its))
      if (hasDim(dims, d)) {
        isFree |= factor == ShardingRule::kAny;
        if (factor >= 0)
          factors.push_back(factor);
      }
    if (factors.empty() && isFree)
      continue;
    if (factors.empty()) {
      reject(op, i, "expected a dim whole that is cut");
      return setBroken(op);
    }
    if (first && holding.kind != kind) {
      reject(op, i, "where operand " + Twine(*first) + " is not");
      return setBroken(op);
    }
    if (!first)
      common = factors;
    else
      llvm::erase_if(common,
                     [&](int f) { return !llvm::is_contained(factors, f); });
    if (common.empty()) {
      reject(op, i, "cut along another dim than operand " + Twine(*first));
      return setBroken(op);
    }
    if (!first)
      first = i;
    kind = holding.kind;
  }
  if (!first)
    return visitWhole(op, rule);
  // What is whole beside a part has no element of its own along the cut.
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    Holding holding = get(operand);
    if (holding.kind == Kind::Partial) {
      reject(op, i, "beside what is cut, expected the sum");
      return setBroken(op);
    }
    if (holding.kind != Kind::Whole)
      continue;
    SmallVector<int> left = common;
    for (auto [d, factor] : llvm::enumerate(rule.operands[i]))
      if (factor >= 0 && !holding.isConstant && !hasDim(holding.dims, d) &&
          shapeOf(operand)[d] != 1)
        llvm::erase(left, factor);
    if (left.empty()) {
      reject(op, i, "expected a part like that of operand " + Twine(*first));
      return setBroken(op);
    }
    common = left;
  }
  bool isPadded = keepsPadding(op);
  for (auto [result, factors] :
       llvm::zip_equal(op->getResults(), rule.results)) {
    Holding holding{kind};
    for (auto [d, factor] : llvm::enumerate(factors))
      if (factor >= 0 && llvm::is_contained(common, factor))
        holding.dims |= uint32_t(1) << d;
    // The outermost dim decides where it is open which one is cut.
    if (!llvm::is_contained(factors, common.front())) {
      Holding piece = get(op->getOperand(*first));
      if (kind == Kind::Piece && !piece.isPadded) {
        reject(op, *first,
               "with other numbers than zeros behind a short one, "
               "which cannot be added up");
        return setBroken(op);
      }
      holding = {Kind::Partial};
    } else if (kind == Kind::Piece) {
      if (factors.back() != common.front()) {
        reject(op, *first, "expected the whole");
        return setBroken(op);
      }
      holding = {Kind::Piece, 0, false, false, isPadded};
    }
    set(result, holding);
  }
}

void Replication::visitByRule(Operation *op, const ShardingRule &rule) {
  bool isCut = false, isSum = false;
  for (Value operand : op->getOperands()) {
    Kind kind = get(operand).kind;
    isCut |= kind == Kind::Part || kind == Kind::Piece;
    isSum |= kind == Kind::Partial;
  }
  if (isCut)
    visitCut(op, rule);
  else if (isSum)
    visitSums(op, rule);
  else
    visitWhole(op, rule);
}

//===----------------------------------------------------------------------===//
// Single ops
//===----------------------------------------------------------------------===//

/// A part keeps the order of its elements: the dims after the cut and those
/// before it have as many elements on both sides.
bool Replication::visitReshape(ReshapeOp op) {
  Holding holding = get(op.getInput());
  ArrayRef<int64_t> in = shapeOf(op.getInput()), out = shapeOf(op.getResult());
  if (holding.kind == Kind::Partial || holding.kind == Kind::Key) {
    set(op, holding);
  } else if (holding.kind == Kind::Whole) {
    bool isUniform = holding.dims == allDims(op.getInput());
    holding.dims = isUniform ? allDims(op.getResult()) : 0;
    set(op, holding);
  } else if (holding.kind == Kind::Piece) {
    if (out.empty() || out.size() > 2 || in.back() != out.back()) {
      reject(op, 0, "expected the whole");
      setBroken(op);
      return true;
    }
    set(op, holding);
  } else if (holding.kind == Kind::Part) {
    Holding result{Kind::Part};
    int64_t before = 1;
    for (auto [d, extent] : llvm::enumerate(in)) {
      int64_t its = 1;
      for (auto [e, other] : llvm::enumerate(out)) {
        if (hasDim(holding.dims, d) && its == before)
          result.dims |= uint32_t(1) << e;
        its *= other;
      }
      before *= extent;
    }
    if (result.dims == 0) {
      reject(op, 0, "which has no dim of its own in the result");
      setBroken(op);
      return true;
    }
    set(op, result);
  } else {
    return false;
  }
  return true;
}

bool Replication::visitSpecial(Operation *op) {
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    if (visitReshape(reshape))
      return true;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    bool isSplat = isa<SplatElementsAttr>(constant.getValue());
    bool isZero = matchPattern(constant.getResult(), m_AnyZeroFloat()) ||
                  matchPattern(constant.getResult(), m_Zero());
    set(constant,
        {Kind::Whole, isSplat ? allDims(constant) : 0, isSplat, isZero});
    return true;
  }
  auto found = [&](Kind kind) -> std::optional<unsigned> {
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (get(operand).kind == kind)
        return i;
    return std::nullopt;
  };
  if (std::optional<unsigned> i = found(Kind::Terms)) {
    auto sum = dyn_cast<ReduceSumOp>(op);
    auto reshape = dyn_cast<ReshapeOp>(op);
    if (sum && llvm::is_contained(sum.getDims(), 0)) {
      set(sum, {});
    } else if (reshape && !shapeOf(reshape).empty() &&
               shapeOf(reshape)[0] == size) {
      set(reshape, {Kind::Terms});
    } else {
      reject(op, *i, "expected blu.reduce_sum along dim 0");
      setBroken(op);
    }
    return true;
  }
  if (auto shift = dyn_cast<ShiftKeyOp>(op)) {
    Kind key = get(shift.getKey()).kind, offset = get(shift.getOffset()).kind;
    if ((key == Kind::Whole || key == Kind::Key) &&
        (offset == Kind::Whole || offset == Kind::Index)) {
      bool isOwn = key == Kind::Key || offset == Kind::Index;
      set(shift, {isOwn ? Kind::Key : Kind::Whole});
    } else {
      reject(op, key == Kind::Whole || key == Kind::Key ? 1 : 0,
             "expected a key and an offset");
      setBroken(op);
    }
    return true;
  }
  if (std::optional<unsigned> i = found(Kind::Index)) {
    bool isOffset =
        isa<AddOp, SubOp, MulOp, CastOp>(op) &&
        llvm::all_of(op->getOperands(), [&](Value v) {
          return get(v).kind == Kind::Index || get(v).kind == Kind::Whole;
        });
    if (!isOffset)
      reject(op, *i, "which may only move a random key");
    setAll(op, {isOffset ? Kind::Index : Kind::Broken});
    return true;
  }
  auto dropout = dyn_cast<DropoutOp>(op);
  if (std::optional<unsigned> i = found(Kind::Key)) {
    if (!dropout || get(dropout.getInput()).kind != Kind::Part) {
      reject(op, *i, "expected it with a part that it draws for");
      setBroken(op);
    } else {
      set(dropout, get(dropout.getInput()));
    }
    return true;
  }
  if (dropout && dropout.getKey() &&
      get(dropout.getInput()).kind == Kind::Part) {
    reject(op, 0, "for which every device would draw the same numbers");
    setBroken(op);
    return true;
  }
  return false;
}

/// The holding of result `i` of a collective along the axis.
Holding Replication::collect(Operation *op, unsigned i) {
  Value input = op->getOperand(i), result = op->getResult(i);
  Holding holding = get(input);
  bool isSum = holding.kind == Kind::Partial || holding.isConstant;
  Holding piece{Kind::Piece, 0, false, false, /*isPadded=*/true};
  if (isa<AllReduceOp, ReduceScatterOp>(op)) {
    if (isSum)
      return isa<AllReduceOp>(op) ? Holding() : piece;
    reject(op, i, "expected a term of a sum");
  } else if (isa<LocalShardOp>(op)) {
    if (holding.kind == Kind::Whole)
      return piece;
    reject(op, i, "expected the whole");
  } else {
    if (holding.kind == Kind::Piece)
      return {};
    ArrayRef<int64_t> out = shapeOf(result);
    // Blocks of a value of rank 1 are its pieces.
    if (holding.kind == Kind::Part && out.size() == 1 &&
        shapeOf(input).size() == 1 && out[0] == size * shapeOf(input)[0])
      return {};
    if (isSum && !out.empty() && out[0] == size &&
        cast<RankedTensorType>(result.getType()).getNumElements() ==
            size * cast<RankedTensorType>(input.getType()).getNumElements())
      return {Kind::Terms};
    reject(op, i, "expected a piece, or terms to put side by side");
  }
  return {Kind::Broken};
}

void Replication::visitCollective(Operation *op) {
  bool isAlong = op->getAttrOfType<StringAttr>("axis") == axis;
  for (unsigned i = 0, e = op->getNumOperands(); i < e; ++i) {
    Holding holding = get(op->getOperand(i));
    if (holding.kind == Kind::Broken) {
      set(op->getResult(i), holding);
    } else if (isAlong) {
      set(op->getResult(i), collect(op, i));
    } else if (holding.kind == Kind::Whole || holding.kind == Kind::Partial) {
      // It does the same on all devices along this axis, and is linear.
      set(op->getResult(i), {holding.kind});
    } else {
      reject(op, i, "which moves along another axis");
      set(op->getResult(i), {Kind::Broken});
    }
  }
}

//===----------------------------------------------------------------------===//
// Structure
//===----------------------------------------------------------------------===//

/// `isLocal`: the iterations are over what a device has of its own, and each
/// works on a part of its own.
void Replication::setSlice(Operation *op, unsigned operand, BlockArgument slice,
                           bool isLocal) {
  Holding holding = get(op->getOperand(operand));
  if (holding.kind == Kind::Part) {
    if (isLocal && !hasDim(holding.dims, 0)) {
      reject(op, operand, "expected it cut along dim 0 like another one");
      holding = {Kind::Broken};
    } else {
      holding.dims = isLocal ? 1 : holding.dims >> 1;
    }
  } else if (holding.kind == Kind::Whole) {
    if (isLocal && !holding.isConstant && !hasDim(holding.dims, 0)) {
      reject(op, operand, "expected it cut along dim 0 like another one");
      holding = {Kind::Broken};
    }
    holding.dims >>= 1;
  } else if (holding.kind == Kind::Piece &&
             shapeOf(op->getOperand(operand)).size() != 2) {
    reject(op, operand, "expected pieces of each iteration");
    holding = {Kind::Broken};
  } else if (holding.kind == Kind::Terms) {
    reject(op, operand, "expected blu.reduce_sum along dim 0");
    holding = {Kind::Broken};
  }
  set(slice, holding);
}

Holding Replication::join(Holding before, Holding after) const {
  if (before.kind == after.kind) {
    Holding joined = before;
    joined.dims &= after.dims;
    joined.isConstant &= after.isConstant;
    joined.isZero &= after.isZero;
    joined.isPadded &= after.isPadded;
    if (joined.kind == Kind::Part && joined.dims == 0)
      joined = {Kind::Broken};
    return joined;
  }
  // Zeros are a part, a piece or a term of zeros.
  if (before.isZero && (after.kind == Kind::Partial ||
                        after.kind == Kind::Part || after.kind == Kind::Piece))
    return after;
  if (before.isConstant && after.kind == Kind::Part)
    return after;
  return {Kind::Broken};
}

void Replication::visitStack(StackOp op) {
  unsigned carries = op.getNumCarries();
  bool isLocal = false;
  for (Value value : op.getSlices())
    isLocal |= get(value).kind == Kind::Part && hasDim(get(value).dims, 0);
  for (auto [i, init] : llvm::enumerate(op.getCarries()))
    set(op.getCarryArg(i), get(init));
  ValueRange yielded = op.getYield().getValues();
  // A holding changes at most from zeros to what is added to them and then
  // loses what is known besides, so this ends.
  ++unsettled;
  for (bool changed = true; changed;) {
    changed = false;
    for (unsigned i = 0, e = op.getSlices().size(); i < e; ++i)
      setSlice(op, carries + i, op.getSliceArg(i), isLocal);
    visit(*op.getBodyBlock());
    for (unsigned i = 0; i < carries; ++i) {
      Holding before = get(op.getCarryArg(i));
      Holding after = join(before, get(yielded[i]));
      if (before.kind == Kind::Broken || before == after)
        continue;
      set(op.getCarryArg(i), after);
      changed = true;
    }
  }
  --unsettled;
  for (unsigned i = 0, e = op.getSlices().size(); i < e; ++i)
    setSlice(op, carries + i, op.getSliceArg(i), isLocal);
  bool wasFailed = failed;
  visit(*op.getBodyBlock());
  for (unsigned i = 0, e = yielded.size(); i < e; ++i) {
    Holding holding = get(yielded[i]);
    if (i < carries) {
      set(op.getResult(i), get(op.getCarryArg(i)));
      if (get(op.getCarryArg(i)).kind == Kind::Broken && failed == wasFailed)
        reject(op, i, "which an iteration leaves in another way");
      continue;
    }
    if (holding.kind == Kind::Part)
      holding.dims = isLocal ? 1 : holding.dims << 1;
    else if (holding.kind == Kind::Whole)
      holding.dims <<= 1;
    bool isKnown =
        holding.kind == Kind::Whole || holding.kind == Kind::Part ||
        holding.kind == Kind::Partial || holding.kind == Kind::Broken ||
        (holding.kind == Kind::Piece && shapeOf(yielded[i]).size() == 1);
    if (!isKnown)
      reject(op.getYield(), i, "which cannot be collected");
    set(op.getResult(i), isKnown ? holding : Holding{Kind::Broken});
  }
}

void Replication::visitAccumulate(AccumulateOp op) {
  for (unsigned i = 0, e = op.getSlices().size(); i < e; ++i)
    setSlice(op, i, op.getBodyBlock()->getArgument(1 + i), /*isLocal=*/false);
  visit(*op.getBodyBlock());
  for (auto [result, value] :
       llvm::zip_equal(op.getResults(), op.getYield().getValues())) {
    Holding holding = get(value);
    holding.isZero = false;
    set(result, holding);
  }
}

void Replication::visitOp(Operation *op) {
  for (Value operand : op->getOperands())
    if (get(operand).kind == Kind::Broken)
      return setBroken(op);
  if (isa<AllReduceOp, ReduceScatterOp, AllGatherOp, LocalShardOp>(op))
    return visitCollective(op);
  if (visitSpecial(op))
    return;
  if (std::optional<ShardingRule> rule = getShardingRule(op))
    return visitByRule(op, *rule);
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (get(operand).kind != Kind::Whole) {
      reject(op, i, "which an op without a sharding rule cannot take");
      return setBroken(op);
    }
  setAll(op, {});
}

void Replication::visit(Block &block) {
  for (Operation &op : block.without_terminator()) {
    if (auto stack = dyn_cast<StackOp>(op)) {
      visitStack(stack);
    } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      visitAccumulate(accumulate);
    } else if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
      visit(*checkpoint.getBodyBlock());
      for (auto [result, value] : llvm::zip_equal(
               checkpoint.getResults(), checkpoint.getYield().getValues()))
        set(result, get(value));
    } else {
      visitOp(&op);
    }
  }
}

/// State is kept as its argument says. Outputs are of all devices, but for
/// those that have a part of each.
void Replication::checkResult(unsigned i) {
  Operation *end = step.getTerminator();
  Holding holding = get(end->getOperand(i));
  if (holding.kind == Kind::Broken)
    return;
  auto info = step.getResultAttrOfType<DictionaryAttr>(i, "blu.tensor");
  Holding expected = getCut(info);
  if (auto donated =
          dyn_cast_or_null<IntegerAttr>(step.getResultAttr(i, "blu.donates"))) {
    expected = getArgument(unsigned(donated.getInt()));
  } else if (holding.kind == Kind::Part) {
    auto role = info ? info.getAs<StringAttr>("role") : StringAttr();
    if (role && role == "output")
      return;
  }
  if (holding.kind != expected.kind)
    reject(end, i, "expected " + Twine(describe(expected)));
}

LogicalResult Replication::run() {
  for (unsigned i = 0, e = step.getNumArguments(); i < e; ++i)
    set(step.getArgument(i), getArgument(i));
  visit(*step.getBodyBlock());
  for (unsigned i = 0, e = step.getTerminator()->getNumOperands(); i < e; ++i)
    checkResult(i);
  return failure(failed);
}
