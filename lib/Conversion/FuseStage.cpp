//===- FuseStage.cpp - the fuse stage and what closes it ------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/Blu.h"
#include "Blurt/BlurtDialect.h"
#include "blutrain/Conversion/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

namespace blutrain {
#define GEN_PASS_DEF_VERIFYFUSE
#include "blutrain/Conversion/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace blutrain;

/// The pass that should have removed `op`.
static StringRef getResponsiblePass(Operation *op) {
  if (isa<blu::ModelOp, blu::ParamOp>(op))
    return "the pipeline of the grad stage, which turns models into steps,";
  return "'convert-blu-to-blurt'";
}

namespace {
struct VerifyFuse : public blutrain::impl::VerifyFuseBase<VerifyFuse> {
  void runOnOperation() override {
    WalkResult result = getOperation().walk<WalkOrder::PreOrder>(
        [&](Operation *op) -> WalkResult {
          if (isa<blu::BluDialect>(op->getDialect())) {
            InFlightDiagnostic diag =
                op->emitError() << "'" << op->getName()
                                << "' op is left at the end of the fuse stage";
            diag.attachNote()
                << getResponsiblePass(op) << " should have removed it";
            return WalkResult::interrupt();
          }
          // Bodies of groups are checked by their own verifier.
          if (isa<blurt::GroupOp>(op))
            return WalkResult::skip();
          if (!isa<blurt::BlurtDialect>(op->getDialect()) &&
              !isa<ModuleOp, func::FuncOp, func::ReturnOp>(op)) {
            InFlightDiagnostic diag =
                op->emitError() << "'" << op->getName()
                                << "' op does not belong to the fuse stage, "
                                   "expected 'blurt' ops only";
            diag.attachNote() << "'convert-blu-to-blurt' does not create it";
            return WalkResult::interrupt();
          }
          return WalkResult::advance();
        });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace

// No CSE over operations: it would undo rematerialisation.
void blutrain::buildFuseStage(OpPassManager &pm) {
  pm.addPass(createConvertBluToBlurt());
  // Views stand between groups that want to merge.
  pm.addPass(createCanonicalizeViews());
  pm.addPass(createFuseGroups());
  // Merging leaves new chains of views.
  pm.addPass(createCanonicalizeViews());
  pm.addPass(createSetTf32());
  pm.addPass(createSetSplit());
  pm.addPass(createVerifyFuse());
}

void blutrain::registerFuseStagePipeline() {
  PassPipelineRegistration<>("blurt-fuse-stage",
                             "the fuse stage: from blu steps to fused groups",
                             [](OpPassManager &pm) { buildFuseStage(pm); });
}
