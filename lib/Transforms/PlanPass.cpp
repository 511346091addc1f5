//===- PlanPass.cpp - passes of the plan stage ----------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blurt/BlurtDialect.h"
#include "blutrain/Transforms/Passes.h"
#include "blutrain/Transforms/Plan.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/FileSystem.h"

namespace blutrain {
#define GEN_PASS_DEF_PLANPASS
#define GEN_PASS_DEF_VERIFYPLANPASS
#include "blutrain/Transforms/Passes.h.inc"
} // namespace blutrain

using namespace blutrain;
using namespace mlir;

namespace {

struct PlanPass : public blutrain::impl::PlanPassBase<PlanPass> {
  using PlanPassBase::PlanPassBase;
  PlanPass(const PlanOptions &options, PlanReport *report)
      : packing(options.packing), link(options.link), result(report) {
    memoryLimit = options.memoryLimit;
    debugMemory = options.debugMemory;
    debugNonfinite = options.debugNonfinite;
    workspaceBytes = options.workspaceBytes;
    rowAlignment = options.rowPadding.alignment;
  }

  void runOnOperation() override {
    PlanOptions options;
    options.memoryLimit = memoryLimit;
    options.debugMemory = debugMemory;
    options.debugNonfinite = debugNonfinite;
    options.workspaceBytes = workspaceBytes;
    options.rowPadding.alignment = rowAlignment;
    options.packing = packing;
    options.link = link;
    FailureOr<PlanReport> report = planModule(getOperation(), options);
    if (failed(report))
      return signalPassFailure();
    numStorages += report->owners.size();
    numCopies += static_cast<uint64_t>(report->copies);
    if (!reportFile.empty()) {
      std::error_code error;
      llvm::raw_fd_ostream file(reportFile, error, llvm::sys::fs::OF_Text);
      if (error) {
        getOperation().emitError("cannot write the plan report '")
            << reportFile << "': " << error.message();
        return signalPassFailure();
      }
      writePlanReport(*report, reportFile, file);
    }
    if (result)
      *result = std::move(*report);
  }

  PackingOptions packing;
  LinkModel link = LinkModel::getDefault("cpu");
  PlanReport *result = nullptr;
};

struct VerifyPlanPass
    : public blutrain::impl::VerifyPlanPassBase<VerifyPlanPass> {
  void runOnOperation() override {
    if (failed(verifyPlan(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};

} // namespace

std::unique_ptr<Pass> blutrain::createPlanPass(const PlanOptions &options,
                                               PlanReport *report) {
  return std::make_unique<PlanPass>(options, report);
}
