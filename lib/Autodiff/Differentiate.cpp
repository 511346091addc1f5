//===- Differentiate.cpp - the adjoint of a block of blu ops --------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Differentiate.h"

#include "Blu/BluSupport.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

namespace {

/// Sums of cotangents by the value they belong to, within one block of the
/// adjoint.
using Cotangents = llvm::DenseMap<Value, Value>;

class AdjointBuilder {
public:
  AdjointBuilder(ActivityAnalysis &activity, Recompute recompute)
      : activity(activity), recompute(recompute) {}

  /// Adds `grad` to the cotangent of `value`.
  void accumulate(OpBuilder &b, Cotangents &cotangents, Value value,
                  Value grad);

  /// Builds the adjoint of `ops`, last first.
  LogicalResult buildBlock(OpBuilder &b, ArrayRef<Operation *> ops,
                           Cotangents &cotangents);

private:
  LogicalResult buildOp(OpBuilder &b, Operation *op, Cotangents &cotangents);
  LogicalResult buildStack(OpBuilder &b, StackOp stack, Cotangents &cotangents);
  LogicalResult buildCheckpoint(OpBuilder &b, CheckpointOp checkpoint,
                                Cotangents &cotangents);

  ActivityAnalysis &activity;
  Recompute recompute;
};

/// Gives the adjoint body of a stack access to values of the forward body: as
/// slices of what the forward stack collects, or computed again from those.
class SavedValues {
public:
  SavedValues(StackOp forward, Block &adjoint, Recompute recompute)
      : forward(forward), adjoint(adjoint), recompute(recompute) {}

  /// Replaces every use of a forward value in the adjoint body.
  void resolve();

  /// Stacked operands that the adjoint reads, in the order of its slice
  /// arguments: operands of the forward stack, or null for a value to collect.
  ArrayRef<Value> getSliceOperands() const { return sliceOperands; }
  /// Values of the forward body to collect, for the null operands in order.
  ArrayRef<Value> getCollected() const { return collected; }

private:
  bool isForwardValue(Value value) {
    return forward.getBody().isAncestor(value.getParentRegion());
  }
  /// True if the adjoint has the value without saving anything more.
  bool isAvailable(Value value);
  /// The values to save if `value` is recomputed: itself if it cannot be.
  llvm::SmallSetVector<Value, 4> findLeaves(Value value);
  SmallVector<Value> mergeViews(ArrayRef<Value> needed);
  void decide(ArrayRef<Value> needed);
  Value materialize(Value value, Operation *user);
  Value addSlice(Value operand, Type type, Location loc);

  StackOp forward;
  Block &adjoint;
  Recompute recompute;
  llvm::DenseSet<Value> saved;
  llvm::DenseMap<Value, Value> resolved;
  SmallVector<Value> sliceOperands, collected;
};

} // namespace

//===----------------------------------------------------------------------===//
// SavedValues
//===----------------------------------------------------------------------===//

static uint64_t byteSize(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return uint64_t(type.getNumElements()) *
         llvm::divideCeil(type.getElementTypeBitWidth(), 8);
}

/// A cast to as many or more bits: what it gives is not worth saving.
static bool isWidening(Operation *op) {
  auto cast = dyn_cast_or_null<CastOp>(op);
  return cast && cast.getInput().getType().getElementTypeBitWidth() <=
                     cast.getType().getElementTypeBitWidth();
}

/// Ops that move elements or make them from nothing.
static bool isView(Operation *op) {
  return isWidening(op) ||
         isa<ConstantOp, ReshapeOp, TransposeOp, SplitOp, SliceOp, BroadcastOp,
             PositionsOp, RandomKeyOp>(op);
}

/// Ops whose result costs no more than a pass over their operands.
static bool isCheap(Operation *op) {
  return isView(op) ||
         isa<LayerNormOp, GeluOp, ReluOp, SiluOp, SigmoidOp, TanhOp, AddOp,
             SubOp, MulOp, CompareOp, SelectOp, CastOp, DropoutOp>(op);
}

bool SavedValues::isAvailable(Value value) {
  if (!isForwardValue(value) || saved.contains(value))
    return true;
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && (argument.getArgNumber() == 0 ||
                      argument.getArgNumber() > forward.getNumCarries());
}

llvm::SmallSetVector<Value, 4> SavedValues::findLeaves(Value value) {
  llvm::SmallSetVector<Value, 4> leaves;
  llvm::SmallDenseSet<Value> seen;
  SmallVector<Value> open = {value};
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (isAvailable(next) || !seen.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (op && (recompute == Recompute::Cheap ? isCheap(op) : isView(op)))
      llvm::append_range(open, op->getOperands());
    else
      leaves.insert(next);
  }
  return leaves;
}

/// The value that `value` is a view of, or a cast to more bits.
static Value findRoot(Value value) {
  for (Operation *op = value.getDefiningOp();
       op && isView(op) && op->getNumOperands() == 1;
       op = value.getDefiningOp())
    value = op->getOperand(0);
  return value;
}

/// `needed`, with one value in place of views that make up all of it, in the
/// order of the forward body.
SmallVector<Value> SavedValues::mergeViews(ArrayRef<Value> needed) {
  llvm::SetVector<Value> unwidened;
  for (Value value : needed) {
    while (isForwardValue(value) && isWidening(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    unwidened.insert(value);
  }
  llvm::DenseMap<Value, uint64_t> bytesByRoot;
  for (Value value : unwidened)
    bytesByRoot[findRoot(value)] += byteSize(value);
  llvm::SetVector<Value> merged;
  for (Value value : unwidened) {
    Value root = findRoot(value);
    bool isWhole = isForwardValue(root) && bytesByRoot[root] >= byteSize(root);
    merged.insert(isWhole ? root : value);
  }

  llvm::DenseMap<Operation *, unsigned> numbers;
  for (Operation &op : *forward.getBodyBlock())
    numbers.insert({&op, numbers.size() + 1});
  SmallVector<std::tuple<unsigned, unsigned, Value>> sorted;
  for (auto [i, value] : llvm::enumerate(merged)) {
    Operation *op = value.getDefiningOp();
    if (op)
      op = forward.getBodyBlock()->findAncestorOpInBlock(*op);
    sorted.push_back({numbers.lookup(op), i, value});
  }
  llvm::sort(sorted, [](const auto &x, const auto &y) {
    return std::pair(std::get<0>(x), std::get<1>(x)) <
           std::pair(std::get<0>(y), std::get<1>(y));
  });
  SmallVector<Value> values;
  for (const auto &entry : sorted)
    values.push_back(std::get<2>(entry));
  return values;
}

void SavedValues::decide(ArrayRef<Value> needed) {
  // What cannot be recomputed is saved in any case.
  SmallVector<Value> open;
  for (Value value : mergeViews(needed)) {
    llvm::SmallSetVector<Value, 4> leaves = findLeaves(value);
    if (leaves.size() == 1 && leaves[0] == value)
      saved.insert(value);
    else
      open.push_back(value);
  }
  // In order: what is saved by then costs nothing where something is computed
  // from it.
  for (Value value : open) {
    llvm::SmallSetVector<Value, 4> leaves = findLeaves(value);
    uint64_t extra = 0;
    for (Value leaf : leaves)
      extra += byteSize(leaf);
    if (extra < byteSize(value) || extra == 0)
      saved.insert(leaves.begin(), leaves.end());
    else
      saved.insert(value);
  }
}

Value SavedValues::addSlice(Value operand, Type type, Location loc) {
  sliceOperands.push_back(operand);
  return adjoint.addArgument(type, loc);
}

Value SavedValues::materialize(Value value, Operation *user) {
  if (!isForwardValue(value))
    return value;
  if (Value known = resolved.lookup(value))
    return known;
  Value replacement;
  auto argument = dyn_cast<BlockArgument>(value);
  unsigned numCarries = forward.getNumCarries();
  if (saved.contains(value)) {
    collected.push_back(value);
    replacement = addSlice(Value(), value.getType(), value.getLoc());
  } else if (argument && argument.getArgNumber() == 0) {
    replacement = adjoint.getArgument(0);
  } else if (argument && argument.getArgNumber() > numCarries) {
    Value operand =
        forward.getSlices()[argument.getArgNumber() - 1 - numCarries];
    replacement = addSlice(operand, value.getType(), value.getLoc());
  } else {
    Operation *op = value.getDefiningOp();
    assert(op && "carried values are saved");
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(materialize(operand, user));
    Operation *copy = OpBuilder(user).clone(*op);
    copy->setOperands(operands);
    for (auto [original, result] :
         llvm::zip(op->getResults(), copy->getResults()))
      resolved[original] = result;
    return resolved[value];
  }
  resolved[value] = replacement;
  return replacement;
}

void SavedValues::resolve() {
  SmallVector<Operation *> ops;
  llvm::SetVector<Value> needed;
  for (Operation &op : adjoint)
    ops.push_back(&op);
  for (Operation *top : ops)
    top->walk([&](Operation *op) {
      for (Value operand : op->getOperands())
        if (isForwardValue(operand))
          needed.insert(operand);
    });
  decide(needed.getArrayRef());
  // A recomputed value has to dominate all its uses, in nested regions too: it
  // is made at the top-level op of the first use.
  for (Operation *top : ops)
    top->walk<WalkOrder::PreOrder>([&](Operation *op) {
      for (OpOperand &operand : op->getOpOperands())
        operand.set(materialize(operand.get(), top));
    });
}

//===----------------------------------------------------------------------===//
// AdjointBuilder
//===----------------------------------------------------------------------===//

void AdjointBuilder::accumulate(OpBuilder &b, Cotangents &cotangents,
                                Value value, Value grad) {
  if (!grad)
    return;
  RankedTensorType type = getCotangentType(value);
  grad = GradBuilder(b, value.getLoc()).cast(grad, type.getElementType());
  assert(grad.getType() == type && "cotangent of another type");
  Value &sum = cotangents[value];
  if (!sum) {
    sum = grad;
    return;
  }
  // What was rounded to be added is added as it was, and the sum rounded.
  GradBuilder gb(b, value.getLoc());
  auto rounding = grad.getDefiningOp<CastOp>();
  if (rounding && !isWidening(rounding) &&
      isa<FloatType>(type.getElementType()))
    sum = gb.cast(
        gb.add(gb.cast(sum, rounding.getInput().getType().getElementType()),
               rounding.getInput()),
        type.getElementType());
  else
    sum = gb.add(sum, grad);
}

LogicalResult AdjointBuilder::buildBlock(OpBuilder &b,
                                         ArrayRef<Operation *> ops,
                                         Cotangents &cotangents) {
  for (Operation *op : llvm::reverse(ops)) {
    bool reached = llvm::any_of(op->getResults(), [&](Value result) {
      return cotangents.contains(result) && activity.isActive(result);
    });
    if (!reached)
      continue;
    LogicalResult built = success();
    if (auto stack = dyn_cast<StackOp>(op))
      built = buildStack(b, stack, cotangents);
    else if (auto checkpoint = dyn_cast<CheckpointOp>(op))
      built = buildCheckpoint(b, checkpoint, cotangents);
    else
      built = buildOp(b, op, cotangents);
    if (failed(built))
      return failure();
  }
  return success();
}

LogicalResult AdjointBuilder::buildOp(OpBuilder &b, Operation *op,
                                      Cotangents &cotangents) {
  auto rule = dyn_cast<DifferentiableOpInterface>(op);
  if (!rule)
    return op->emitOpError("has no gradient");
  SmallVector<Value> resultGrads, operandGrads(op->getNumOperands());
  for (Value result : op->getResults())
    resultGrads.push_back(cotangents.lookup(result));
  llvm::BitVector wanted(op->getNumOperands());
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    wanted[i] = activity.isActive(operand);
  if (failed(rule.buildGradient(b, resultGrads, wanted, operandGrads)))
    return failure();
  for (unsigned i : wanted.set_bits())
    accumulate(b, cotangents, op->getOperand(i), operandGrads[i]);
  return success();
}

LogicalResult AdjointBuilder::buildCheckpoint(OpBuilder &b,
                                              CheckpointOp checkpoint,
                                              Cotangents &cotangents) {
  // Run the region again, here, and differentiate the copies.
  IRMapping mapping;
  SmallVector<Operation *> copies;
  for (Operation &op : checkpoint.getBodyBlock()->without_terminator()) {
    Operation *copy = b.clone(op, mapping);
    copies.push_back(copy);
    op.walk([&](Operation *inner) {
      for (Value result : inner->getResults())
        if (Value twin = mapping.lookupOrNull(result))
          activity.clone(result, twin);
      for (Region &region : inner->getRegions())
        for (BlockArgument argument : region.getArguments())
          if (Value twin = mapping.lookupOrNull(argument))
            activity.clone(argument, twin);
    });
  }
  for (auto [value, result] :
       llvm::zip(checkpoint.getYield().getValues(), checkpoint.getResults()))
    if (activity.isActive(value))
      accumulate(b, cotangents, mapping.lookupOrDefault(value),
                 cotangents.lookup(result));
  return buildBlock(b, copies, cotangents);
}

LogicalResult AdjointBuilder::buildStack(OpBuilder &b, StackOp stack,
                                         Cotangents &cotangents) {
  Location loc = stack.getLoc();
  GradBuilder outer(b, loc);
  auto yielded = stack.getYield().getValues();
  unsigned numCarries = stack.getNumCarries();

  // Which cotangents go from iteration to iteration: those of varied carried
  // values, and sums for captured values.
  SmallVector<unsigned> carried;
  for (unsigned i = 0; i < numCarries; ++i)
    if (activity.isActive(stack.getCarryArg(i)) &&
        (activity.isUseful(stack.getCarryArg(i)) ||
         cotangents.contains(stack.getResult(i))))
      carried.push_back(i);
  llvm::SetVector<Value> captured;
  stack.getBody().walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (!stack.getBody().isAncestor(operand.getParentRegion()) &&
          activity.isVaried(operand))
        captured.insert(operand);
  });

  SmallVector<Value> inits, slices;
  for (unsigned i : carried) {
    Value grad = cotangents.lookup(stack.getResult(i));
    inits.push_back(grad ? grad
                         : outer.zeros(cast<RankedTensorType>(
                               stack.getResult(i).getType())));
  }
  for (Value value : captured)
    inits.push_back(outer.zeros(getCotangentType(value)));
  SmallVector<unsigned> collectedWithGrad;
  for (unsigned i = numCarries, e = stack.getNumResults(); i < e; ++i)
    if (Value grad = cotangents.lookup(stack.getResult(i));
        grad && activity.isActive(yielded[i])) {
      collectedWithGrad.push_back(i);
      slices.push_back(grad);
    }

  // The adjoint body, for now in an op of its own. It may use values of the
  // forward body until SavedValues resolves them.
  auto holder = CheckpointOp::create(b, loc, TypeRange());
  Block &body = holder.getBody().emplaceBlock();
  body.addArgument(stack.getIteration().getType(), loc);
  for (Value init : inits)
    body.addArgument(init.getType(), loc);
  for (Value slice : slices)
    body.addArgument(StackOp::slicedType(slice.getType()), loc);

  OpBuilder inner = OpBuilder::atBlockEnd(&body);
  Cotangents local;
  for (auto [k, i] : llvm::enumerate(carried))
    accumulate(inner, local, yielded[i], body.getArgument(1 + k));
  for (auto [k, i] : llvm::enumerate(collectedWithGrad))
    accumulate(inner, local, yielded[i],
               body.getArgument(1 + inits.size() + k));
  SmallVector<Operation *> ops;
  for (Operation &op : stack.getBodyBlock()->without_terminator())
    ops.push_back(&op);
  if (failed(buildBlock(inner, ops, local)))
    return failure();
  // Inner stacks were replaced on the way.
  yielded = stack.getYield().getValues();

  GradBuilder gb(inner, loc);
  SmallVector<Value> results;
  for (unsigned i : carried) {
    Value grad = local.lookup(stack.getCarryArg(i));
    results.push_back(grad ? grad
                           : gb.zeros(cast<RankedTensorType>(
                                 stack.getCarryArg(i).getType())));
  }
  for (auto [k, value] : llvm::enumerate(captured)) {
    Value sum = body.getArgument(1 + carried.size() + k);
    Value grad = local.lookup(value);
    results.push_back(grad ? gb.add(sum, grad) : sum);
  }
  SmallVector<unsigned> slicesWithGrad;
  SmallVector<Type> collectedTypes;
  for (unsigned i = 0, e = stack.getSlices().size(); i < e; ++i)
    if (Value grad = local.lookup(stack.getSliceArg(i))) {
      slicesWithGrad.push_back(i);
      results.push_back(grad);
      collectedTypes.push_back(grad.getType());
    }
  YieldOp::create(inner, loc, results);

  SavedValues saved(stack, body, recompute);
  saved.resolve();

  // The forward stack again, with what is saved among its collections. A value
  // that is collected already is not collected twice.
  SmallVector<Value> newYields(yielded);
  SmallVector<Type> newCollected;
  for (unsigned i = numCarries; i < yielded.size(); ++i)
    newCollected.push_back(yielded[i].getType());
  SmallVector<unsigned> savedResults;
  for (Value value : saved.getCollected()) {
    auto *known =
        std::find(newYields.begin() + numCarries, newYields.end(), value);
    savedResults.push_back(known - newYields.begin());
    if (known != newYields.end())
      continue;
    newYields.push_back(value);
    newCollected.push_back(value.getType());
  }
  OpBuilder atStack(stack);
  auto forward = StackOp::create(
      atStack, loc, stack.getName(), stack.getFirst(), stack.getLast(),
      stack.getReverse(), stack.getCarries(), stack.getSlices(), newCollected);
  forward->setDiscardableAttrs(stack->getDiscardableAttrDictionary());
  forward.getBody().takeBody(stack.getBody());
  forward.getYield()->setOperands(newYields);
  for (auto [before, after] :
       llvm::zip(stack.getResults(), forward.getResults())) {
    activity.clone(before, after);
    before.replaceAllUsesWith(after);
    // The next op to be made may lie where this stack did.
    activity.forget(before);
    cotangents.erase(before);
  }

  // The adjoint runs the other way.
  unsigned nextSaved = 0;
  for (Value operand : saved.getSliceOperands())
    slices.push_back(operand ? operand
                             : forward.getResult(savedResults[nextSaved++]));
  auto adjoint = StackOp::create(b, loc, stack.getName(), stack.getFirst(),
                                 stack.getLast(), !stack.getReverse(), inits,
                                 slices, collectedTypes);
  adjoint.getBody().takeBody(holder.getBody());
  holder.erase();
  stack.erase();

  for (auto [k, i] : llvm::enumerate(carried))
    accumulate(b, cotangents, forward.getCarries()[i], adjoint.getResult(k));
  for (auto [k, value] : llvm::enumerate(captured))
    accumulate(b, cotangents, value, adjoint.getResult(carried.size() + k));
  for (auto [k, i] : llvm::enumerate(slicesWithGrad))
    accumulate(b, cotangents, forward.getSlices()[i],
               adjoint.getResult(inits.size() + k));
  return success();
}

//===----------------------------------------------------------------------===//
// Entry point
//===----------------------------------------------------------------------===//

LogicalResult blutrain::differentiate(Block &block, ValueRange outputs,
                                      ValueRange seeds, ValueRange inputs,
                                      Recompute recompute,
                                      SmallVectorImpl<Value> &grads) {
  ActivityAnalysis activity(block, inputs, outputs);
  if (failed(activity.verifyDifferentiable(block)))
    return failure();
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator())
    ops.push_back(&op);
  OpBuilder b(block.getTerminator());
  AdjointBuilder adjoint(activity, recompute);
  Cotangents cotangents;
  for (auto [output, seed] : llvm::zip_equal(outputs, seeds))
    if (activity.isActive(output))
      adjoint.accumulate(b, cotangents, output, seed);
  if (failed(adjoint.buildBlock(b, ops, cotangents)))
    return failure();
  for (Value input : inputs) {
    Value grad = cotangents.lookup(input);
    grads.push_back(grad ? grad
                         : GradBuilder(b, input.getLoc())
                               .zeros(cast<RankedTensorType>(input.getType())));
  }
  return success();
}
