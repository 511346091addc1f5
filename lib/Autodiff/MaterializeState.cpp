//===- MaterializeState.cpp - models become steps -------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Autodiff/StepUtils.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

namespace blutrain {
#define GEN_PASS_DEF_MATERIALIZESTATEPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

//===----------------------------------------------------------------------===//
// StepUtils
//===----------------------------------------------------------------------===//

DictionaryAttr blutrain::tensorInfo(MLIRContext *context, StringRef name,
                                    StringRef role) {
  Builder b(context);
  return b.getDictionaryAttr({b.getNamedAttr("name", b.getStringAttr(name)),
                              b.getNamedAttr("role", b.getStringAttr(role))});
}

static StringRef infoString(DictionaryAttr info, StringRef key) {
  auto value = info ? info.getAs<StringAttr>(key) : StringAttr();
  return value ? value.getValue() : StringRef();
}

StringRef blutrain::argumentName(StepOp step, unsigned i) {
  return infoString(step.getArgAttrOfType<DictionaryAttr>(i, "blu.tensor"),
                    "name");
}

StringRef blutrain::argumentRole(StepOp step, unsigned i) {
  return infoString(step.getArgAttrOfType<DictionaryAttr>(i, "blu.tensor"),
                    "role");
}

DictionaryAttr blutrain::likeParameter(StepOp step, Value parameter,
                                       StringRef role) {
  unsigned number = cast<BlockArgument>(parameter).getArgNumber();
  auto info = step.getArgAttrOfType<DictionaryAttr>(number, "blu.tensor");
  NamedAttrList like(
      tensorInfo(step.getContext(), argumentName(step, number), role));
  for (StringRef key : {"stack_count", "stack_first", "export", "transpose"})
    if (Attribute value = info.get(key))
      like.set(key, value);
  return like.getDictionary(step.getContext());
}

Value blutrain::findArgument(StepOp step, StringRef role, StringRef name) {
  for (unsigned i = 0, e = step.getNumArguments(); i < e; ++i)
    if (argumentRole(step, i) == role && argumentName(step, i) == name)
      return step.getArgument(i);
  return nullptr;
}

FailureOr<SmallVector<StepGradient>> blutrain::getGradients(StepOp step) {
  SmallVector<StepGradient> gradients;
  for (unsigned i = 0, e = step.getResultTypes().size(); i < e; ++i) {
    auto info = step.getResultAttrOfType<DictionaryAttr>(i, "blu.tensor");
    if (!info || info.getAs<StringAttr>("role").getValue() != "gradient")
      continue;
    StringRef name = info.getAs<StringAttr>("name").getValue();
    Value param = findArgument(step, "param", name);
    if (!param)
      return step.emitOpError()
             << "has a gradient of '" << name << "', but no such parameter";
    auto count = info.getAs<IntegerAttr>("stack_count");
    gradients.push_back({i, cast<BlockArgument>(param),
                         step.getTerminator()->getOperand(i),
                         count && count.getInt() > 0});
  }
  return gradients;
}

Value blutrain::addArgument(StepOp step, Type type, DictionaryAttr info) {
  Builder b(step.getContext());
  unsigned index = step.getNumArguments();
  (void)step.insertArgument(
      index, type, b.getDictionaryAttr(b.getNamedAttr("blu.tensor", info)),
      step.getLoc());
  return step.getArgument(index);
}

Value blutrain::getScalar(StepOp step, StringRef name, Type elementType) {
  if (Value known = findArgument(step, "scalar", name))
    return known;
  return addArgument(step, RankedTensorType::get({}, elementType),
                     tensorInfo(step.getContext(), name, "scalar"));
}

void blutrain::addResult(StepOp step, Value value, NamedAttribute attribute) {
  unsigned index = step.getResultTypes().size();
  (void)step.insertResult(
      index, value.getType(),
      Builder(step.getContext()).getDictionaryAttr(attribute));
  step.getTerminator()->insertOperands(index, value);
}

void blutrain::addOutput(StepOp step, Value value, StringRef name,
                         StringRef role) {
  Builder b(step.getContext());
  addResult(
      step, value,
      b.getNamedAttr("blu.tensor", tensorInfo(step.getContext(), name, role)));
}

void blutrain::addDonation(StepOp step, Value value, unsigned argument) {
  Builder b(step.getContext());
  addResult(step, value,
            b.getNamedAttr("blu.donates", b.getI64IntegerAttr(argument)));
}

Value blutrain::findOutput(StepOp step, StringRef name) {
  for (unsigned i = 0, e = step.getResultTypes().size(); i < e; ++i) {
    auto info = step.getResultAttrOfType<DictionaryAttr>(i, "blu.tensor");
    if (infoString(info, "role") == "output" &&
        infoString(info, "name") == name)
      return step.getTerminator()->getOperand(i);
  }
  return nullptr;
}

SmallVector<StepOp> blutrain::findSteps(ModuleOp module, Program program) {
  SmallVector<StepOp> steps;
  for (StepOp step : module.getOps<StepOp>())
    if (step.getProgram() == program)
      steps.push_back(step);
  return steps;
}

//===----------------------------------------------------------------------===//
// materializeState
//===----------------------------------------------------------------------===//

/// What `blu.tensor` says of a parameter.
static DictionaryAttr parameterInfo(ParamOp param, StackOp stack) {
  Builder b(param.getContext());
  NamedAttrList info;
  std::string name = param.getName().str();
  if (stack) {
    name = (stack.getName() + ".{i}." + name).str();
    info.set("stack_count", b.getI64IntegerAttr(stack.getCount()));
    info.set("stack_first", b.getI64IntegerAttr(stack.getFirst()));
  }
  info.set("name", b.getStringAttr(name));
  info.set("role", b.getStringAttr("param"));
  if (auto exported = param.getExportNameAttr())
    info.set("export", exported);
  if (param.getTranspose())
    info.set("transpose", b.getUnitAttr());
  if (param.decays())
    info.set("decay", b.getUnitAttr());
  auto setInit = [&](StringRef kind, double a = 0, double c = 0) {
    info.set("init", b.getStringAttr(kind));
    info.set("init_a", b.getF64FloatAttr(a));
    info.set("init_b", b.getF64FloatAttr(c));
  };
  llvm::TypeSwitch<Attribute>(param.getInit())
      .Case([&](ZerosAttr) { setInit("zeros"); })
      .Case([&](OnesAttr) { setInit("ones"); })
      .Case([&](FillAttr init) {
        setInit("constant", init.getValue().getValueAsDouble());
      })
      .Case([&](NormalAttr init) {
        setInit("normal", init.getMean().getValueAsDouble(),
                init.getStd().getValueAsDouble());
      })
      .Case([&](UniformAttr init) {
        setInit("uniform", init.getLow().getValueAsDouble(),
                init.getHigh().getValueAsDouble());
      });
  return info.getDictionary(param.getContext());
}

StackOp blutrain::addSlices(StackOp stack, ArrayRef<Value> operands) {
  OpBuilder b(stack);
  SmallVector<Value> slices(stack.getSlices());
  llvm::append_range(slices, operands);
  SmallVector<Type> collected;
  for (Type type :
       TypeRange(stack.getResultTypes()).drop_front(stack.getNumCarries()))
    collected.push_back(StackOp::slicedType(type));
  auto wider = StackOp::create(
      b, stack.getLoc(), stack.getName(), stack.getFirst(), stack.getLast(),
      stack.getReverse(), stack.getCarries(), slices, collected);
  wider->setDiscardableAttrs(stack->getDiscardableAttrDictionary());
  wider.getBody().takeBody(stack.getBody());
  for (Value operand : operands)
    wider.getBodyBlock()->addArgument(StackOp::slicedType(operand.getType()),
                                      operand.getLoc());
  stack.replaceAllUsesWith(wider.getResults());
  stack.erase();
  return wider;
}

FailureOr<StepOp> blutrain::materializeState(ModelOp model, Program program) {
  OpBuilder b(model);
  auto step = StepOp::create(b, model.getLoc(), model.getSymName(), program,
                             model.getFunctionType(), ArrayAttr(), ArrayAttr());
  for (NamedAttribute attribute : model->getDiscardableAttrs())
    if (attribute.getName() != "blu.program")
      step->setDiscardableAttr(attribute.getName(), attribute.getValue());
  for (unsigned i = 0, e = model.getNumArguments(); i < e; ++i)
    step.setArgAttr(
        i, "blu.tensor",
        tensorInfo(model.getContext(), model.getArgumentName(i), "input"));
  for (unsigned i = 0, e = model.getResultTypes().size(); i < e; ++i)
    step.setResultAttr(
        i, "blu.tensor",
        tensorInfo(model.getContext(), model.getResultName(i), "output"));
  step.getBody().takeBody(model.getBody());
  model.erase();

  // Parameters of one stack together, since widening it makes a new op.
  SmallVector<ParamOp> params;
  step.walk([&](ParamOp param) { params.push_back(param); });
  unsigned numParams = 0;
  Builder attrs(step.getContext());
  auto addParameter = [&](Type type, DictionaryAttr info) -> Value {
    (void)step.insertArgument(
        numParams, type,
        attrs.getDictionaryAttr(attrs.getNamedAttr("blu.tensor", info)),
        step.getLoc());
    return step.getArgument(numParams++);
  };
  auto enclosingStacks = [](ParamOp param) {
    SmallVector<StackOp> stacks;
    for (Operation *op = param->getParentOp(); op; op = op->getParentOp())
      if (auto stack = dyn_cast<StackOp>(op))
        stacks.push_back(stack);
    return stacks;
  };
  for (size_t i = 0; i < params.size();) {
    SmallVector<StackOp> stacks = enclosingStacks(params[i]);
    if (stacks.size() > 1) {
      params[i].emitOpError("is in a stack within a stack, expected at most "
                            "one stack around a parameter");
      return failure();
    }
    if (stacks.empty()) {
      Value argument =
          addParameter(params[i].getType(), parameterInfo(params[i], nullptr));
      params[i].replaceAllUsesWith(argument);
      params[i++].erase();
      continue;
    }
    StackOp stack = stacks.front();
    SmallVector<Value> operands;
    SmallVector<ParamOp> inside;
    for (; i < params.size() && enclosingStacks(params[i]).size() == 1 &&
           enclosingStacks(params[i]).front() == stack;
         ++i) {
      inside.push_back(params[i]);
      operands.push_back(addParameter(
          StackOp::stackedType(params[i].getType(), stack.getCount()),
          parameterInfo(params[i], stack)));
    }
    unsigned before = stack.getSlices().size();
    StackOp wider = addSlices(stack, operands);
    for (auto [k, param] : llvm::enumerate(inside)) {
      param.replaceAllUsesWith(Value(wider.getSliceArg(before + k)));
      param.erase();
    }
  }
  return step;
}

namespace {
struct MaterializeState
    : blutrain::impl::MaterializeStatePassBase<MaterializeState> {
  void runOnOperation() override {
    for (ModelOp model :
         llvm::make_early_inc_range(getOperation().getOps<ModelOp>())) {
      auto program = model->getAttrOfType<ProgramAttr>("blu.program");
      if (!program) {
        model.emitOpError("expected a 'blu.program' attribute, as "
                          "blu-instantiate-programs sets it");
        return signalPassFailure();
      }
      if (failed(materializeState(model, program.getValue())))
        return signalPassFailure();
    }
  }
};
} // namespace
