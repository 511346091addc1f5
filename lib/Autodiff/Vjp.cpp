//===- Vjp.cpp - vector-Jacobian products of a model ----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Differentiate.h"
#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Autodiff/StepUtils.h"

#include "mlir/IR/Builders.h"

namespace blutrain {
#define GEN_PASS_DEF_VJPPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

namespace {
struct Vjp : blutrain::impl::VjpPassBase<Vjp> {
  using VjpPassBase::VjpPassBase;

  void runOnOperation() override {
    if (recompute != "views" && recompute != "cheap") {
      getOperation().emitError()
          << "recompute is '" << recompute << "', expected views or cheap";
      return signalPassFailure();
    }
    SmallVector<ModelOp> models(getOperation().getOps<ModelOp>());
    if (models.size() != 1) {
      getOperation().emitError()
          << "has " << models.size() << " models, expected one 'blu.model'";
      return signalPassFailure();
    }
    ModelOp model = models.front();
    for (Type type : model.getArgumentTypes())
      if (!cast<ShapedType>(type).hasStaticShape()) {
        model.emitOpError()
            << "has an argument of type " << type << ", expected static shapes";
        return signalPassFailure();
      }
    SmallVector<std::string> resultNames;
    for (unsigned i = 0, e = model.getResultTypes().size(); i < e; ++i)
      resultNames.push_back(model.getResultName(i).str());
    model.setSymName("vjp");
    auto step = materializeState(model, Program::Vjp);
    if (failed(step))
      return signalPassFailure();
    if (!(*step)->hasAttr("blurt.entry")) {
      Builder b(&getContext());
      (*step)->setAttr(
          "blurt.entry",
          b.getDictionaryAttr(
              {b.getNamedAttr("batch", b.getI64IntegerAttr(1)),
               b.getNamedAttr("seq", b.getI64IntegerAttr(0)),
               b.getNamedAttr("microbatches", b.getI64IntegerAttr(1))}));
    }
    auto isFloat = [](Value value) {
      return isa<FloatType>(
          cast<RankedTensorType>(value.getType()).getElementType());
    };
    SmallVector<Value> inputs, outputs, seeds, grads;
    for (unsigned i = 0, e = step->getNumArguments(); i < e; ++i)
      if (isFloat(step->getArgument(i)))
        inputs.push_back(step->getArgument(i));
    for (auto [i, name] : llvm::enumerate(resultNames)) {
      Value result = step->getTerminator()->getOperand(i);
      if (!isFloat(result))
        continue;
      outputs.push_back(result);
      seeds.push_back(
          addArgument(*step, result.getType(),
                      tensorInfo(&getContext(), "gout." + name, "input")));
    }
    if (failed(differentiate(
            *step->getBodyBlock(), outputs, seeds, inputs,
            recompute == "cheap" ? Recompute::Cheap : Recompute::Views, grads)))
      return signalPassFailure();
    Builder b(&getContext());
    for (auto [input, grad] : llvm::zip(inputs, grads)) {
      // The iterations of a stack are told apart as those of its parameters.
      NamedAttrList info(likeParameter(*step, input, "output"));
      StringRef name =
          argumentName(*step, cast<BlockArgument>(input).getArgNumber());
      info.set("name", b.getStringAttr("gin." + name));
      info.erase("export");
      info.erase("transpose");
      addResult(
          *step, grad,
          b.getNamedAttr("blu.tensor", info.getDictionary(&getContext())));
    }
  }
};
} // namespace
