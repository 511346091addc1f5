//===- AppendOptimizer.cpp - norm, clipping, updates ----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Autodiff/StepUtils.h"

#include "Blu/BluSupport.h"

namespace blutrain {
#define GEN_PASS_DEF_APPENDOPTIMIZERPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

namespace {
struct AppendOptimizer
    : blutrain::impl::AppendOptimizerPassBase<AppendOptimizer> {
  using AppendOptimizerPassBase::AppendOptimizerPassBase;

  void runOnOperation() override {
    if (optimizer != "adamw" && optimizer != "sgd") {
      getOperation().emitError()
          << "optimizer is '" << optimizer << "', expected adamw or sgd";
      return signalPassFailure();
    }
    for (StepOp step : findSteps(getOperation(), Program::Train))
      if (failed(appendTo(step)))
        return signalPassFailure();
  }

  LogicalResult appendTo(StepOp step) {
    struct Update {
      unsigned param;
      Value grad;
    };
    SmallVector<Update> updates;
    SmallVector<Value> grads;
    for (unsigned i = 0, e = step.getResultTypes().size(); i < e; ++i) {
      auto info = step.getResultAttrOfType<DictionaryAttr>(i, "blu.tensor");
      if (!info || info.getAs<StringAttr>("role").getValue() != "gradient")
        continue;
      StringRef name = info.getAs<StringAttr>("name").getValue();
      Value param = findArgument(step, "param", name);
      if (!param)
        return step.emitOpError()
               << "has a gradient of '" << name << "', but no such parameter";
      grads.push_back(step.getTerminator()->getOperand(i));
      updates.push_back(
          {cast<BlockArgument>(param).getArgNumber(), grads.back()});
    }
    if (updates.empty())
      return step.emitOpError("has no gradients; the model has no parameters "
                              "to train");
    OpBuilder b(step.getTerminator());
    Location loc = step.getLoc();
    GradBuilder gb(b, loc);
    Type f64 = b.getF64Type();
    Value norm = GlobalNormOp::create(b, loc, grads);
    Value scale =
        ClipScaleOp::create(b, loc, norm, getScalar(step, "clip", f64));
    Value lr = getScalar(step, "lr", f64);
    Value decay = getScalar(step, "weight_decay", f64);
    for (Update update : updates) {
      // Scaling by 1 changes nothing, so clipping has no branch.
      Value grad = gb.mul(update.grad, scale);
      auto info =
          step.getArgAttrOfType<DictionaryAttr>(update.param, "blu.tensor");
      bool decays = info.contains("decay");
      Value param = step.getArgument(update.param);
      unsigned m = addMoment(step, update.param, "moment1");
      if (optimizer == "sgd") {
        auto sgd =
            SgdOp::create(b, loc, param, grad, step.getArgument(m), lr,
                          getScalar(step, "momentum", f64), decay, decays);
        addDonation(step, sgd.getNewParam(), update.param);
        addDonation(step, sgd.getNewM(), m);
        continue;
      }
      unsigned v = addMoment(step, update.param, "moment2");
      auto adamw = AdamWOp::create(
          b, loc, param, grad, step.getArgument(m), step.getArgument(v),
          getScalar(step, "step", b.getI64Type()), lr,
          getScalar(step, "beta1", f64), getScalar(step, "beta2", f64),
          getScalar(step, "eps", f64), decay, decays);
      addDonation(step, adamw.getNewParam(), update.param);
      addDonation(step, adamw.getNewM(), m);
      addDonation(step, adamw.getNewV(), v);
    }
    addOutput(step, norm, "grad_norm");
    return success();
  }

  /// State beside parameter `param`, stacked as that is.
  unsigned addMoment(StepOp step, unsigned param, StringRef role) {
    Value argument = step.getArgument(param);
    addArgument(step, argument.getType(), likeParameter(step, argument, role));
    return step.getNumArguments() - 1;
  }
};
} // namespace
