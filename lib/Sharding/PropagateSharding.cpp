//===- PropagateSharding.cpp - how every value is cut ---------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "ShardingRule.h"
#include "blutrain/Autodiff/StepUtils.h"
#include "blutrain/Sharding/Passes.h"

#include "Blu/BluSupport.h"
#include "Blu/Sharding.h"

#include "mlir/IR/Matchers.h"

namespace blutrain {
#define GEN_PASS_DEF_PROPAGATESHARDINGPASS
#include "blutrain/Sharding/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

namespace {

/// Goes through a step as often as it takes: a later use may ask for a sum, or
/// for a cut, of a value that was seen before.
class Propagation {
public:
  Propagation(StepOp step, const Mesh &mesh) : step(step), mesh(mesh) {}

  LogicalResult run();
  /// Puts in the all-reduces and the attributes. Returns how many of the
  /// former.
  FailureOr<unsigned> apply();

private:
  Sharding get(Value value) const;
  void set(Value value, Sharding sharding);
  /// The sum of `value` is needed itself.
  void reduce(Value value);
  /// `value` is needed cut like this along `dim`, though it was found whole.
  bool demand(Value value, unsigned dim, const Sharding::Axes &axes);

  LogicalResult visit(Block &block);
  LogicalResult visitOp(Operation *op);
  LogicalResult visitStack(StackOp op);
  LogicalResult visitAccumulate(AccumulateOp op);
  LogicalResult setSlice(Operation *op, Value stacked, BlockArgument slice);
  LogicalResult bindFactors(Operation *op, const ShardingRule &rule,
                            SmallVectorImpl<Sharding::Axes> &factors);
  /// The axes of sums that pass through `op`; asks for the other sums.
  Sharding::Axes passSums(Operation *op, const ShardingRule &rule,
                          ArrayRef<Sharding::Axes> factors);

  StepOp step;
  const Mesh &mesh;
  DenseMap<Value, Sharding> known, forced, carried;
  llvm::SetVector<Value> reduced;
  /// What stacks carry that begins with zeros, until its sum has been met.
  DenseSet<Value> unsettled;
  bool changed = false;
};

bool isZero(Value value) {
  return matchPattern(value, m_AnyZeroFloat()) || matchPattern(value, m_Zero());
}

} // namespace

Sharding Propagation::get(Value value) const {
  auto it = known.find(value);
  Sharding sharding =
      it == known.end() ? Sharding::whole(value.getType()) : it->second;
  if (reduced.contains(value))
    sharding.partial.clear();
  return sharding;
}

void Propagation::set(Value value, Sharding sharding) {
  if (auto it = forced.find(value); it != forced.end())
    for (auto [dim, axes] : llvm::zip_equal(sharding.dims, it->second.dims))
      if (dim.empty())
        dim = axes;
  known[value] = std::move(sharding);
}

void Propagation::reduce(Value value) { changed |= reduced.insert(value); }

bool Propagation::demand(Value value, unsigned dim,
                         const Sharding::Axes &axes) {
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return false;
  Operation *op = result.getOwner();
  std::optional<ShardingRule> rule = getShardingRule(op);
  if (!rule)
    return false;
  int factor = rule->results[result.getResultNumber()][dim];
  bool isFree = false;
  if (auto constant = dyn_cast<ConstantOp>(op))
    isFree = isa<SplatElementsAttr>(constant.getValue());
  else if (isa<BroadcastOp>(op))
    isFree = !llvm::is_contained(rule->operands[0], factor);
  if (isFree) {
    auto [it, isNew] =
        forced.try_emplace(value, Sharding::whole(value.getType()));
    Sharding::Axes &at = it->second.dims[dim];
    if (!at.empty())
      return false;
    at = axes;
    changed = true;
    return true;
  }
  if (factor < 0)
    return false;
  bool found = false;
  for (auto [operand, factors] :
       llvm::zip_equal(op->getOperands(), rule->operands))
    for (auto [d, its] : llvm::enumerate(factors)) {
      if (its != factor)
        continue;
      found = true;
      if (get(operand).dims[d].empty() && !demand(operand, d, axes))
        return false;
    }
  return found;
}

LogicalResult
Propagation::bindFactors(Operation *op, const ShardingRule &rule,
                         SmallVectorImpl<Sharding::Axes> &factors) {
  int count = 0;
  for (const auto *list : {&rule.operands, &rule.results})
    for (const ShardingRule::Factors &its : *list)
      for (int factor : its)
        count = std::max(count, factor + 1);
  factors.assign(count, {});
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    for (auto [d, axes] : llvm::enumerate(get(operand).dims)) {
      int factor = rule.operands[i][d];
      if (axes.empty() || factor == ShardingRule::kAny)
        continue;
      if (factor == ShardingRule::kWhole)
        return op->emitOpError("needs dim ")
               << d << " of operand " << i << " whole, but it is cut along '"
               << axes.front().getValue() << "'";
      if (factors[factor].empty())
        factors[factor] = axes;
      else if (factors[factor] != axes)
        return op->emitOpError("has dim ")
               << d << " of operand " << i << " cut along '"
               << axes.front().getValue() << "', where another operand is cut "
               << "along '" << factors[factor].front().getValue() << "'";
    }
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    for (auto [d, factor] : llvm::enumerate(rule.operands[i]))
      if (factor >= 0 && !factors[factor].empty() &&
          get(operand).dims[d].empty() &&
          !demand(operand, d, factors[factor]) && !changed)
        return op->emitOpError("has dim ")
               << d << " of operand " << i
               << " whole, where another operand is "
               << "cut along '" << factors[factor].front().getValue() << "'";
  return success();
}

Sharding::Axes Propagation::passSums(Operation *op, const ShardingRule &rule,
                                     ArrayRef<Sharding::Axes> factors) {
  SmallVector<unsigned> sums;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (!get(operand).partial.empty())
      sums.push_back(i);
  if (sums.empty())
    return {};
  Sharding::Axes axes = get(op->getOperand(sums[0])).partial;
  bool passes = rule.linear != ShardingRule::Linear::None;
  if (rule.linear == ShardingRule::Linear::Each)
    passes = sums.size() == 1 && rule.linearIn.test(sums[0]);
  else if (rule.linear == ShardingRule::Linear::Joint)
    for (Value operand : op->getOperands())
      passes &= get(operand).partial == axes || isZero(operand) ||
                unsettled.contains(operand);
  // Parts of a sum cannot be cut along its own axis.
  for (const Sharding::Axes &its : factors)
    for (StringAttr axis : its)
      passes &= !llvm::is_contained(axes, axis);
  if (passes)
    return axes;
  for (unsigned i : sums)
    reduce(op->getOperand(i));
  return {};
}

LogicalResult Propagation::visitOp(Operation *op) {
  std::optional<ShardingRule> rule = getShardingRule(op);
  if (!rule) {
    for (auto [i, operand] : llvm::enumerate(op->getOperands()))
      if (!get(operand).isWhole())
        return op->emitOpError("has no sharding rule, expected operand ")
               << i << " to be whole on every device";
    return success();
  }
  SmallVector<Sharding::Axes> factors;
  if (failed(bindFactors(op, *rule, factors)))
    return failure();
  Sharding::Axes sums = passSums(op, *rule, factors);
  for (OpResult result : op->getResults()) {
    Sharding sharding = Sharding::whole(result.getType());
    const auto &its = rule->results[result.getResultNumber()];
    for (auto [d, factor] : llvm::enumerate(its))
      if (factor >= 0)
        sharding.dims[d] = factors[factor];
    sharding.partial = sums;
    for (auto [factor, axes] : llvm::enumerate(factors))
      if (!llvm::is_contained(its, int(factor)))
        for (StringAttr axis : axes)
          if (!llvm::is_contained(sharding.partial, axis))
            sharding.partial.push_back(axis);
    set(result, std::move(sharding));
  }
  return success();
}

LogicalResult Propagation::setSlice(Operation *op, Value stacked,
                                    BlockArgument slice) {
  Sharding sharding = get(stacked);
  if (!sharding.dims.front().empty())
    return op->emitOpError("needs dim 0 of a stacked operand whole, but it is "
                           "cut along '")
           << sharding.dims.front().front().getValue() << "'";
  sharding.dims.erase(sharding.dims.begin());
  set(slice, std::move(sharding));
  return success();
}

static Sharding stacked(Sharding sharding) {
  sharding.dims.insert(sharding.dims.begin(), Sharding::Axes());
  return sharding;
}

LogicalResult Propagation::visitStack(StackOp op) {
  for (auto [i, value] : llvm::enumerate(op.getSlices()))
    if (failed(setSlice(op, value, op.getSliceArg(i))))
      return failure();
  for (auto [i, init] : llvm::enumerate(op.getCarries())) {
    BlockArgument argument = op.getCarryArg(i);
    auto it = carried.find(argument);
    if (it == carried.end() && isZero(init))
      unsettled.insert(argument);
    else
      unsettled.erase(argument);
    set(argument, it == carried.end() ? get(init) : it->second);
  }
  if (failed(visit(*op.getBodyBlock())))
    return failure();
  ValueRange yielded = op.getYield().getValues();
  for (unsigned i = 0, e = yielded.size(); i < e; ++i) {
    if (i >= op.getNumCarries()) {
      set(op.getResult(i), stacked(get(yielded[i])));
      continue;
    }
    BlockArgument argument = op.getCarryArg(i);
    Sharding before = get(argument), after = get(yielded[i]);
    set(op.getResult(i), before);
    if (before == after || changed)
      continue;
    // What is added up over iterations begins with zeros, which are a part of
    // anything.
    if (before.isWhole() && isZero(op.getCarries()[i]) &&
        !carried.contains(argument)) {
      for (auto [d, axes] : llvm::enumerate(after.dims))
        if (!axes.empty() && !demand(op.getCarries()[i], d, axes))
          return op.emitOpError("carries a value that is cut only after the "
                                "first iteration");
      carried[argument] = after;
      changed = true;
    } else if (before.dims == after.dims && before.partial.empty()) {
      reduce(yielded[i]);
    } else {
      return op.emitOpError("carries value ")
             << i << ", which is cut in one way before an iteration and in "
             << "another after it";
    }
  }
  return success();
}

LogicalResult Propagation::visitAccumulate(AccumulateOp op) {
  for (auto [i, value] : llvm::enumerate(op.getSlices()))
    if (failed(setSlice(op, value, op.getBodyBlock()->getArgument(1 + i))))
      return failure();
  if (failed(visit(*op.getBodyBlock())))
    return failure();
  for (auto [result, value] :
       llvm::zip_equal(op.getResults(), op.getYield().getValues()))
    set(result, get(value));
  return success();
}

LogicalResult Propagation::visit(Block &block) {
  for (Operation &op : block.without_terminator()) {
    LogicalResult done = success();
    if (auto stack = dyn_cast<StackOp>(op))
      done = visitStack(stack);
    else if (auto accumulate = dyn_cast<AccumulateOp>(op))
      done = visitAccumulate(accumulate);
    else if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
      done = visit(*checkpoint.getBodyBlock());
      for (auto [result, value] : llvm::zip_equal(
               checkpoint.getResults(), checkpoint.getYield().getValues()))
        set(result, get(value));
    } else {
      done = visitOp(&op);
    }
    if (failed(done))
      return failure();
  }
  return success();
}

LogicalResult Propagation::run() {
  do {
    changed = false;
    known.clear();
    for (BlockArgument argument : step.getArguments())
      if (Attribute attr =
              step.getArgAttr(argument.getArgNumber(), "blu.sharding"))
        if (FailureOr<Sharding> sharding = Sharding::get(attr);
            succeeded(sharding))
          set(argument, *sharding);
    if (failed(visit(*step.getBodyBlock())))
      return failure();
    for (auto [i, value] :
         llvm::enumerate(step.getTerminator()->getOperands())) {
      Sharding sharding = get(value);
      if (!sharding.partial.empty())
        reduce(value);
      if (step.getResultAttr(i, "blu.donates") && sharding.isCut())
        return step.emitOpError("result ")
               << i << " is new state that is cut, expected it whole";
    }
  } while (changed);
  return success();
}

FailureOr<unsigned> Propagation::apply() {
  MLIRContext *context = step.getContext();
  step.walk([&](Operation *op) {
    bool isCut = false;
    SmallVector<Attribute> list;
    for (Value result : op->getResults()) {
      auto it = known.find(result);
      Sharding sharding =
          it == known.end() ? Sharding::whole(result.getType()) : it->second;
      isCut |= !sharding.isWhole();
      list.push_back(sharding.getAttr(context));
    }
    if (isCut)
      op->setAttr("blu.sharding", ArrayAttr::get(context, list));
  });
  unsigned count = 0;
  for (Value value : reduced) {
    auto it = known.find(value);
    if (it == known.end() || it->second.partial.empty())
      continue;
    auto type = cast<RankedTensorType>(value.getType());
    Operation *def = value.getDefiningOp();
    if (!isa<FloatType>(type.getElementType()))
      return mlir::emitError(value.getLoc())
             << "a sum of " << type.getElementType()
             << " over devices is not supported, expected a float type";
    OpBuilder b(context);
    if (def)
      b.setInsertionPointAfter(def);
    else
      b.setInsertionPointToStart(value.getParentBlock());
    Value sum = value;
    llvm::SmallPtrSet<Operation *, 2> own;
    for (StringAttr axis : it->second.partial) {
      auto op = AllReduceOp::create(b, value.getLoc(), TypeRange(type),
                                    ValueRange(sum), axis, mesh.getSize(axis));
      if (it->second.isCut()) {
        Sharding cut = it->second;
        cut.partial.clear();
        op->setAttr("blu.sharding",
                    ArrayAttr::get(context, {cut.getAttr(context)}));
      }
      own.insert(op);
      sum = op.getResult(0);
    }
    value.replaceAllUsesExcept(sum, own);
    ++count;
  }
  return count;
}

namespace {
struct PropagateSharding
    : blutrain::impl::PropagateShardingPassBase<PropagateSharding> {
  using PropagateShardingPassBase::PropagateShardingPassBase;

  void runOnOperation() override {
    Mesh mesh = Mesh::get(getOperation());
    if (mesh.axes.empty())
      return;
    for (StepOp step : getOperation().getOps<StepOp>()) {
      Propagation propagation(step, mesh);
      if (failed(propagation.run()))
        return signalPassFailure();
      FailureOr<unsigned> count = propagation.apply();
      if (failed(count))
        return signalPassFailure();
      numReduced += *count;
    }
  }
};
} // namespace
