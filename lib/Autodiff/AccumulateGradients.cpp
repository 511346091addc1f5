//===- AccumulateGradients.cpp - the step over several microbatches -------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Autodiff/StepUtils.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace blutrain {
#define GEN_PASS_DEF_ACCUMULATEGRADIENTSPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

/// The seed of microbatch `iteration`, so that each draws its own numbers.
static void splitSeed(StepOp step, AccumulateOp accumulate) {
  Value seed = findArgument(step, "scalar", "seed");
  Value number = findArgument(step, "scalar", "step");
  if (!seed || !number)
    return;
  OpBuilder b = OpBuilder::atBlockBegin(accumulate.getBodyBlock());
  auto own = RandomKeyOp::create(b, accumulate.getLoc(), seed, number,
                                 accumulate.getIteration(), /*site=*/-1);
  seed.replaceUsesWithIf(own, [&](OpOperand &use) {
    return use.getOwner() != own &&
           accumulate->isProperAncestor(use.getOwner());
  });
}

/// The results that are counts of a microbatch, by name; they cease to be
/// results.
static SmallVector<std::pair<std::string, Value>> takeCounts(StepOp step) {
  SmallVector<std::pair<std::string, Value>> counts;
  llvm::BitVector dropped(step.getResultTypes().size());
  for (unsigned i = 0, e = dropped.size(); i < e; ++i) {
    auto info = step.getResultAttrOfType<DictionaryAttr>(i, "blu.tensor");
    if (!info || info.getAs<StringAttr>("role").getValue() != "count")
      continue;
    dropped.set(i);
    counts.emplace_back(info.getAs<StringAttr>("name").str(),
                        step.getTerminator()->getOperand(i));
  }
  step.getTerminator()->eraseOperands(dropped);
  (void)step.eraseResults(dropped);
  return counts;
}

/// Adds up, before `accumulate` and over the same microbatches, what each has
/// of the counts, and puts the sums in the place of the scalars of their names.
static LogicalResult sumCounts(StepOp step, AccumulateOp accumulate,
                               ArrayRef<std::pair<std::string, Value>> counts) {
  if (counts.empty())
    return success();
  SetVector<Operation *> slice;
  BackwardSliceOptions options;
  options.inclusive = true;
  options.omitBlockArguments = true;
  options.filter = [&](Operation *op) {
    return op->getBlock() == accumulate.getBodyBlock();
  };
  SmallVector<Type> types;
  for (const auto &[name, value] : counts) {
    types.push_back(value.getType());
    (void)getBackwardSlice(value, &slice, options);
  }
  OpBuilder b(accumulate);
  auto sum =
      AccumulateOp::create(b, accumulate.getLoc(), types, accumulate.getCount(),
                           accumulate.getSlices());
  Block *body = &sum.getBody().emplaceBlock();
  IRMapping mapping;
  for (BlockArgument argument : accumulate.getBodyBlock()->getArguments())
    mapping.map(argument,
                body->addArgument(argument.getType(), argument.getLoc()));
  b.setInsertionPointToEnd(body);
  for (Operation *op : slice)
    b.clone(*op, mapping);
  SmallVector<Value> terms;
  for (const auto &[name, value] : counts)
    terms.push_back(mapping.lookup(value));
  YieldOp::create(b, sum.getLoc(), terms);
  for (auto [i, count] : llvm::enumerate(counts)) {
    auto scalar =
        cast_or_null<BlockArgument>(findArgument(step, "scalar", count.first));
    if (!scalar)
      return step.emitOpError()
             << "counts '" << count.first << "', but has no such scalar";
    if (llvm::any_of(slice, [&](Operation *op) {
          return llvm::is_contained(op->getOperands(), scalar);
        }))
      return step.emitOpError()
             << "counts '" << count.first << "' from the sum of the counts";
    scalar.replaceAllUsesWith(sum.getResult(i));
    (void)step.eraseArgument(scalar.getArgNumber());
  }
  return success();
}

/// Copies of the parameters, in another element type or padded by constants,
/// and these constants: one of each serves all microbatches.
static llvm::SmallPtrSet<Operation *, 16> findCopies(StepOp step) {
  llvm::SmallPtrSet<Operation *, 16> copies;
  auto isParameter = [&](Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument && argumentRole(step, argument.getArgNumber()) == "param";
  };
  for (Operation &op : step.getBodyBlock()->without_terminator()) {
    if (auto cast = dyn_cast<CastOp>(op); cast && isParameter(cast.getInput()))
      copies.insert(cast);
    auto concat = dyn_cast<ConcatOp>(op);
    if (!concat)
      continue;
    SmallVector<Operation *> constants;
    bool isCopy = llvm::all_of(concat.getParts(), [&](Value part) {
      Operation *def = part.getDefiningOp();
      if (isa_and_nonnull<ConstantOp>(def))
        constants.push_back(def);
      return isParameter(part) || copies.contains(def) ||
             isa_and_nonnull<ConstantOp>(def);
    });
    if (!isCopy || constants.size() == concat.getParts().size())
      continue;
    copies.insert(concat);
    copies.insert(constants.begin(), constants.end());
  }
  return copies;
}

static LogicalResult accumulateGradients(StepOp step, int64_t count) {
  auto counts = takeCounts(step);
  Block *body = step.getBodyBlock();
  Operation *terminator = step.getTerminator();
  SmallVector<Operation *> moved;
  llvm::SmallPtrSet<Operation *, 16> copies = findCopies(step);
  for (Operation &op : body->without_terminator())
    if (!copies.contains(&op))
      moved.push_back(&op);

  SmallVector<Value> inputs;
  SmallVector<Type> arguments(step.getArgumentTypes());
  for (unsigned i = 0, e = step.getNumArguments(); i < e; ++i)
    if (argumentRole(step, i) == "input") {
      BlockArgument argument = step.getArgument(i);
      argument.setType(StackOp::stackedType(argument.getType(), count));
      arguments[i] = argument.getType();
      inputs.push_back(argument);
    }
  step.setFunctionType(
      FunctionType::get(step.getContext(), arguments, step.getResultTypes()));

  OpBuilder b(terminator);
  auto accumulate = AccumulateOp::create(
      b, step.getLoc(), terminator->getOperandTypes(), count, inputs);
  Block *inner = &accumulate.getBody().emplaceBlock();
  inner->addArgument(RankedTensorType::get({}, b.getI64Type()), step.getLoc());
  for (Value input : inputs) {
    Value slice = inner->addArgument(StackOp::slicedType(input.getType()),
                                     input.getLoc());
    input.replaceUsesWithIf(
        slice, [&](OpOperand &use) { return use.getOwner() != accumulate; });
  }
  for (Operation *op : moved)
    op->moveBefore(inner, inner->end());
  b.setInsertionPointToEnd(inner);
  YieldOp::create(b, step.getLoc(), terminator->getOperands());
  terminator->setOperands(accumulate.getResults());
  splitSeed(step, accumulate);
  return sumCounts(step, accumulate, counts);
}

namespace {
struct AccumulateGradients
    : blutrain::impl::AccumulateGradientsPassBase<AccumulateGradients> {
  using AccumulateGradientsPassBase::AccumulateGradientsPassBase;

  void runOnOperation() override {
    if (microbatches < 1) {
      getOperation().emitError() << "microbatches is " << int64_t(microbatches)
                                 << ", expected at least 1";
      return signalPassFailure();
    }
    if (microbatches == 1)
      return;
    for (StepOp step : findSteps(getOperation(), Program::Train)) {
      if (failed(accumulateGradients(step, microbatches)))
        return signalPassFailure();
      NamedAttrList entry(step->getAttrOfType<DictionaryAttr>("blurt.entry"));
      entry.set("microbatches",
                Builder(&getContext()).getI64IntegerAttr(microbatches));
      step->setAttr("blurt.entry", entry.getDictionary(&getContext()));
    }
  }
};
} // namespace
