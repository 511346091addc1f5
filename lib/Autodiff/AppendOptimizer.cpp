//===- AppendOptimizer.cpp - norm, clipping, updates ----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Autodiff/StepUtils.h"

#include "Blu/BluSupport.h"
#include "llvm/Support/GlobPattern.h"

#include <limits>
#include <map>

namespace blutrain {
#define GEN_PASS_DEF_APPENDOPTIMIZERPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

namespace {
/// Parameters by name, and what their updates have of their own.
struct ParamGroup {
  llvm::GlobPattern pattern;
  std::string text;
  std::optional<double> rate, decay; ///< factors
  bool isUsed = false;
};
} // namespace

static FailureOr<ParamGroup>
parseGroup(StringRef text, function_ref<InFlightDiagnostic()> emitError) {
  SmallVector<StringRef> parts;
  text.split(parts, ':');
  auto invalid = [&](const Twine &what) {
    return emitError() << "group '" << text << "': " << what;
  };
  if (parts[0].empty() || parts.size() < 2)
    return invalid("expected PATTERN:lr=FACTOR, PATTERN:decay=FACTOR or both");
  auto pattern = llvm::GlobPattern::create(parts[0]);
  if (!pattern)
    return invalid(llvm::toString(pattern.takeError()));
  ParamGroup group{std::move(*pattern), text.str(), {}, {}, false};
  for (StringRef part : ArrayRef(parts).drop_front()) {
    auto [key, value] = part.split('=');
    double number;
    if (key != "lr" && key != "decay")
      return invalid("expected lr or decay, got '" + key + "'");
    if (value.getAsDouble(number) ||
        !(number >= 0 && number < std::numeric_limits<double>::infinity()))
      return invalid("expected a factor of at least 0 for " + key + ", got '" +
                     value + "'");
    std::optional<double> &factor = key == "lr" ? group.rate : group.decay;
    if (factor)
      return invalid("repeats " + key);
    factor = number;
  }
  return group;
}

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
    SmallVector<ParamGroup> paramGroups;
    for (const std::string &text : groups) {
      FailureOr<ParamGroup> group =
          parseGroup(text, [&] { return getOperation().emitError(); });
      if (failed(group))
        return signalPassFailure();
      paramGroups.push_back(std::move(*group));
    }
    SmallVector<StepOp> steps = findSteps(getOperation(), Program::Train);
    for (StepOp step : steps)
      if (failed(appendTo(step, paramGroups)))
        return signalPassFailure();
    for (const ParamGroup &group : paramGroups)
      if (!group.isUsed && !steps.empty()) {
        getOperation().emitError()
            << "group '" << group.text << "' matches no parameter";
        return signalPassFailure();
      }
  }

  /// What the last groups say that match the parameter's name or its name in
  /// weight files.
  static std::pair<double, double>
  findFactors(DictionaryAttr info, MutableArrayRef<ParamGroup> groups) {
    double rate = 1, decay = info.contains("decay") ? 1 : 0;
    for (ParamGroup &group : groups) {
      auto matches = [&](StringRef key) {
        auto name = info.getAs<StringAttr>(key);
        return name && group.pattern.match(name.getValue());
      };
      if (!matches("name") && !matches("export"))
        continue;
      group.isUsed = true;
      rate = group.rate.value_or(rate);
      decay = group.decay.value_or(decay);
    }
    return {rate, decay};
  }

  LogicalResult appendTo(StepOp step, MutableArrayRef<ParamGroup> groups) {
    FailureOr<SmallVector<StepGradient>> updates = getGradients(step);
    if (failed(updates))
      return failure();
    SmallVector<Value> grads;
    for (const StepGradient &gradient : *updates)
      grads.push_back(gradient.value);
    if (updates->empty())
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
    std::map<double, Value> rates{{1.0, lr}},
        decays{{0.0, decay}, {1.0, decay}};
    auto scaled = [&](std::map<double, Value> &known, double factor) {
      Value &value = known[factor];
      if (!value)
        value = gb.mul(known[1.0], gb.scalar(factor, known[1.0]));
      return value;
    };
    Value apply = buildGuard(step, gb, norm);
    Value number =
        optimizer == "adamw" ? countUpdate(step, gb, apply) : Value();
    for (const StepGradient &update : *updates) {
      unsigned at = update.param.getArgNumber();
      // Scaling by 1 changes nothing, so clipping has no branch.
      Value grad = gb.mul(update.value, scale);
      auto info = step.getArgAttrOfType<DictionaryAttr>(at, "blu.tensor");
      auto [rateFactor, decayFactor] = findFactors(info, groups);
      Value itsRate = scaled(rates, rateFactor);
      Value itsDecay = scaled(decays, decayFactor);
      bool decaysAtAll = decayFactor != 0;
      Value param = update.param;
      unsigned m = addMoment(step, at, "moment1");
      if (optimizer == "sgd") {
        auto sgd = SgdOp::create(b, loc, param, grad, step.getArgument(m),
                                 itsRate, getScalar(step, "momentum", f64),
                                 itsDecay, apply, decaysAtAll);
        addDonation(step, sgd.getNewParam(), at);
        addDonation(step, sgd.getNewM(), m);
        continue;
      }
      unsigned v = addMoment(step, at, "moment2");
      auto adamw = AdamWOp::create(
          b, loc, param, grad, step.getArgument(m), step.getArgument(v), number,
          itsRate, getScalar(step, "beta1", f64), getScalar(step, "beta2", f64),
          getScalar(step, "eps", f64), itsDecay, apply, decaysAtAll);
      addDonation(step, adamw.getNewParam(), at);
      addDonation(step, adamw.getNewM(), m);
      addDonation(step, adamw.getNewV(), v);
    }
    addOutput(step, norm, "grad_norm");
    addOutput(step, apply, "applied");
    return success();
  }

  /// Whether loss and norm are finite and below their limits. A NaN is below
  /// nothing, and neither is an infinity below an infinite limit.
  Value buildGuard(StepOp step, GradBuilder &gb, Value norm) {
    Type f64 = Float64Type::get(step.getContext());
    double infinity = std::numeric_limits<double>::infinity();
    Value value = gb.cast(norm, f64), most = gb.scalar(infinity, value);
    if (Value loss = findOutput(step, "loss")) {
      loss = gb.cast(loss, f64);
      Value above =
          gb.compare(ComparePredicate::GT, loss, gb.scalar(-infinity, loss));
      Value below =
          gb.compare(ComparePredicate::LT, gb.select(above, loss, most),
                     getScalar(step, "loss_limit", f64));
      value = gb.select(below, value, most);
    }
    return gb.compare(ComparePredicate::LT, value,
                      getScalar(step, "norm_limit", f64));
  }

  /// Adds the number of updates so far to the state, and returns that of this
  /// one, from 1: the moments' corrections count the steps that changed them.
  /// Updates read the new number, so that the old one is gone before.
  static Value countUpdate(StepOp step, GradBuilder &gb, Value apply) {
    MLIRContext *context = step.getContext();
    auto type = RankedTensorType::get({}, IntegerType::get(context, 64));
    Value before =
        addArgument(step, type, tensorInfo(context, "updates", "moment1"));
    unsigned argument = step.getNumArguments() - 1;
    Value more = gb.add(before, gb.scalar(1, before));
    Value number = gb.select(apply, more, before);
    addDonation(step, number, argument);
    return number;
  }

  /// State beside parameter `param`, stacked as that is.
  unsigned addMoment(StepOp step, unsigned param, StringRef role) {
    Value argument = step.getArgument(param);
    addArgument(step, argument.getType(), likeParameter(step, argument, role));
    return step.getNumArguments() - 1;
  }
};
} // namespace
