//===- DifferentiateLoss.cpp - the backward pass of the train step --------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Differentiate.h"
#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Autodiff/StepUtils.h"

#include "Blu/BluSupport.h"

namespace blutrain {
#define GEN_PASS_DEF_DIFFERENTIATELOSSPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

namespace {
struct DifferentiateLoss
    : blutrain::impl::DifferentiateLossPassBase<DifferentiateLoss> {
  using DifferentiateLossPassBase::DifferentiateLossPassBase;

  void runOnOperation() override {
    if (recompute != "views" && recompute != "cheap") {
      getOperation().emitError()
          << "recompute is '" << recompute << "', expected views or cheap";
      return signalPassFailure();
    }
    for (StepOp step : findSteps(getOperation(), Program::Train))
      if (failed(differentiateStep(step)))
        return signalPassFailure();
  }

  LogicalResult differentiateStep(StepOp step) {
    Value loss = findOutput(step, "loss");
    if (!loss)
      return step.emitOpError("has no output 'loss' to differentiate");
    SmallVector<Value> params;
    for (unsigned i = 0, e = step.getNumArguments(); i < e; ++i)
      if (argumentRole(step, i) == "param")
        params.push_back(step.getArgument(i));
    OpBuilder b(step.getTerminator());
    GradBuilder gb(b, loss.getLoc());
    if (microbatches > 1) {
      weighMeans(step);
      loss = findOutput(step, "loss");
      // Sums over microbatches are then means.
      Value share = gb.mul(loss, gb.scalar(1.0 / double(microbatches), loss));
      for (OpOperand &use : step.getTerminator()->getOpOperands())
        if (use.get() == loss)
          use.set(share);
      loss = share;
    }
    Value seed = gb.scalar(1, loss);
    SmallVector<Value> grads;
    if (failed(differentiate(
            *step.getBodyBlock(), loss, seed, params,
            recompute == "cheap" ? Recompute::Cheap : Recompute::Views, grads)))
      return failure();
    Builder attrs(step.getContext());
    for (auto [param, grad] : llvm::zip(params, grads))
      addResult(step, grad,
                attrs.getNamedAttr("blu.tensor",
                                   likeParameter(step, param, "gradient")));
    return success();
  }

  /// Makes each mean over counted labels the microbatch's part of the mean over
  /// those of all microbatches, times their number. The count of all is a
  /// scalar, for which blu-accumulate-gradients puts a sum of the counts that
  /// are results here.
  void weighMeans(StepOp step) {
    SmallVector<CrossEntropyOp> means;
    for (auto op : step.getBodyBlock()->getOps<CrossEntropyOp>())
      if (op.getReduction() == LossReduction::Mean)
        means.push_back(op);
    for (auto [i, op] : llvm::enumerate(means)) {
      OpBuilder b(op);
      GradBuilder gb(b, op.getLoc());
      Value labels = op.getTargets();
      Value ignored = gb.scalar(double(int64_t(op.getIgnoreIndex())), labels);
      Value counted = gb.cast(gb.compare(ComparePredicate::NE, labels, ignored),
                              op.getType().getElementType());
      auto dims = llvm::to_vector(
          llvm::seq<int64_t>(0, GradBuilder::type(labels).getRank()));
      std::string name = "counted" + std::to_string(i);
      Value total = getScalar(step, name, op.getType().getElementType());
      Value sum = CrossEntropyOp::create(
          b, op.getLoc(), op.getLogits(), labels, op.getIgnoreIndex(),
          LossReduction::Sum, op.getClassesAttr());
      Value share =
          gb.mul(sum, gb.div(gb.scalar(double(microbatches), total), total));
      addOutput(step, gb.reduceSum(counted, dims, /*keepDims=*/false), name,
                "count");
      op.replaceAllUsesWith(share);
      op.erase();
    }
  }
};
} // namespace
