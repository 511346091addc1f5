//===- SetPrecision.cpp - element types by precision policy ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"

#include "Blu/Blu.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinOps.h"

namespace blutrain {
#define GEN_PASS_DEF_SETPRECISIONPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;

namespace {
struct SetPrecision : blutrain::impl::SetPrecisionPassBase<SetPrecision> {
  using SetPrecisionPassBase::SetPrecisionPassBase;

  void runOnOperation() override {
    if (policy == "fp32")
      return;
    if (policy != "fp64") {
      getOperation().emitError()
          << "precision policy is '" << policy << "', expected fp64 or fp32";
      return signalPassFailure();
    }
    AttrTypeReplacer replacer;
    replacer.addReplacement([](Float32Type type) -> Type {
      return Float64Type::get(type.getContext());
    });
    // The generic replacement of element types leaves the numbers of dense
    // constants in their old width, so those are converted first.
    replacer.addReplacement(
        [](DenseFPElementsAttr value)
            -> std::optional<std::pair<Attribute, WalkResult>> {
          if (!value.getElementType().isF32())
            return std::nullopt;
          Type f64 = Float64Type::get(value.getContext());
          return std::pair<Attribute, WalkResult>(
              value.mapValues(f64,
                              [](const APFloat &number) {
                                APFloat wide = number;
                                bool lossy;
                                wide.convert(APFloat::IEEEdouble(),
                                             APFloat::rmNearestTiesToEven,
                                             &lossy);
                                return wide.bitcastToAPInt();
                              }),
              WalkResult::skip());
        });
    for (Operation &op : *getOperation().getBody())
      replacer.recursivelyReplaceElementsIn(&op, /*replaceAttrs=*/true,
                                            /*replaceLocs=*/false,
                                            /*replaceTypes=*/true);
  }
};
} // namespace
