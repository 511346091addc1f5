//===- AccumulateGradients.cpp - the step over several microbatches -------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Autodiff/StepUtils.h"

#include "mlir/IR/Builders.h"

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

static void accumulateGradients(StepOp step, int64_t count) {
  Block *body = step.getBodyBlock();
  Operation *terminator = step.getTerminator();
  SmallVector<Operation *> moved;
  // Copies of the parameters in another element type serve all microbatches.
  auto isCopy = [&](Operation &op) {
    auto cast = dyn_cast<CastOp>(op);
    auto argument =
        cast ? dyn_cast<BlockArgument>(cast.getInput()) : BlockArgument();
    return argument && argumentRole(step, argument.getArgNumber()) == "param";
  };
  for (Operation &op : body->without_terminator())
    if (!isCopy(op))
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
      accumulateGradients(step, microbatches);
      NamedAttrList entry(step->getAttrOfType<DictionaryAttr>("blurt.entry"));
      entry.set("microbatches",
                Builder(&getContext()).getI64IntegerAttr(microbatches));
      step->setAttr("blurt.entry", entry.getDictionary(&getContext()));
    }
  }
};
} // namespace
