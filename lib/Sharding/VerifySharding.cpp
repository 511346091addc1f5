//===- VerifySharding.cpp - whether values can be cut so ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Sharding/Passes.h"

#include "Blu/Sharding.h"

namespace blutrain {
#define GEN_PASS_DEF_VERIFYSHARDINGPASS
#include "blutrain/Sharding/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

namespace {
struct VerifySharding : blutrain::impl::VerifyShardingPassBase<VerifySharding> {
  using VerifyShardingPassBase::VerifyShardingPassBase;

  void runOnOperation() override {
    Mesh mesh = Mesh::get(getOperation());
    bool ok = true;
    getOperation().walk([&](Operation *op) {
      if (auto step = dyn_cast<StepOp>(op)) {
        for (BlockArgument argument : step.getArguments())
          if (Attribute attr =
                  step.getArgAttr(argument.getArgNumber(), "blu.sharding"))
            ok &= succeeded(check(argument, attr, mesh, [&] {
              auto info = step.getArgAttrOfType<DictionaryAttr>(
                  argument.getArgNumber(), "blu.tensor");
              auto name = info ? info.getAs<StringAttr>("name") : StringAttr();
              return mlir::emitError(argument.getLoc())
                     << "input '" << (name ? name.getValue() : "") << "': ";
            }));
        return;
      }
      Attribute attr = op->getAttr("blu.sharding");
      auto list = dyn_cast_or_null<ArrayAttr>(attr);
      if (!attr)
        return;
      if (!list || list.size() != op->getNumResults()) {
        op->emitOpError(
            "attribute 'blu.sharding' has no entry for each result");
        ok = false;
        return;
      }
      for (auto [result, entry] : llvm::zip_equal(op->getResults(), list))
        ok &= succeeded(
            check(result, entry, mesh, [&] { return op->emitOpError(); }));
    });
    if (!ok)
      signalPassFailure();
  }

  static LogicalResult check(Value value, Attribute attr, const Mesh &mesh,
                             function_ref<InFlightDiagnostic()> emitError) {
    FailureOr<Sharding> sharding = Sharding::get(attr);
    if (failed(sharding))
      return emitError() << "attribute 'blu.sharding' is " << attr
                         << ", expected dims and partial";
    return sharding->verify(cast<RankedTensorType>(value.getType()), mesh,
                            emitError);
  }
};
} // namespace
