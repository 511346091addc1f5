//===- VerifyStage.cpp - check that a module is what a stage promises -----===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Pipelines/Passes.h"
#include "blutrain/Pipelines/Stages.h"

#include "Blu/Blu.h"
#include "Blurt/BlurtDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace blutrain {
#define GEN_PASS_DEF_VERIFYSTAGEPASS
#include "blutrain/Pipelines/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace blutrain;

namespace {

/// Why an op may not be in a module at the exit of a stage.
struct Illegal {
  StringRef why;
  StringRef pass; // that should have removed it
};

bool hasUnknownDim(Operation *op) {
  return llvm::any_of(op->getResultTypes(), [](Type type) {
    auto shaped = dyn_cast<ShapedType>(type);
    return shaped && !shaped.hasStaticShape();
  });
}

bool hasTensor(Operation *op) {
  auto isTensor = [](Type type) { return isa<TensorType>(type); };
  return llvm::any_of(op->getResultTypes(), isTensor) ||
         llvm::any_of(op->getOperandTypes(), isTensor);
}

std::optional<Illegal> findIllegal(Stage stage, Operation *op) {
  bool isBlu = isa_and_present<blu::BluDialect>(op->getDialect());
  bool isBlurt = isa_and_present<blurt::BlurtDialect>(op->getDialect());
  switch (stage) {
  case Stage::Input:
    return std::nullopt;
  case Stage::Blu:
    if (!isBlu)
      return Illegal{"is not of the blu dialect", ""};
    if (hasUnknownDim(op))
      return Illegal{"has an unknown dim", "blu-instantiate-programs"};
    return std::nullopt;
  case Stage::Grad:
  case Stage::Shard:
    if (!isBlu)
      return Illegal{"is not of the blu dialect", ""};
    if (isa<blu::ModelOp, blu::ParamOp>(op))
      return Illegal{"is not legal", "blu-materialize-state"};
    if (auto dropout = dyn_cast<blu::DropoutOp>(op);
        dropout && !dropout.getKey())
      return Illegal{"has no key", "blu-key-dropout"};
    return std::nullopt;
  case Stage::Fuse:
    if (isBlu)
      return Illegal{"is not legal", "convert-blu-to-blurt"};
    return std::nullopt;
  case Stage::Plan:
    if (isBlu)
      return Illegal{"is not legal", "convert-blu-to-blurt"};
    if (hasTensor(op))
      return Illegal{"still works on tensors", "blurt-plan"};
    return std::nullopt;
  case Stage::Kernel:
    if (isBlu || isBlurt)
      return Illegal{"is not legal", "blurt-emit-cpu-kernels"};
    return std::nullopt;
  case Stage::LLVM:
    if (!isa_and_present<LLVM::LLVMDialect>(op->getDialect()))
      return Illegal{"is not of the llvm dialect", "blurt-lower-to-llvm"};
    return std::nullopt;
  }
  llvm_unreachable("covered switch");
}

struct VerifyStage : blutrain::impl::VerifyStagePassBase<VerifyStage> {
  using VerifyStagePassBase::VerifyStagePassBase;

  void runOnOperation() override {
    std::optional<Stage> which = symbolizeStage(stage);
    if (!which) {
      getOperation().emitError()
          << "stage is '" << stage
          << "', expected blu, grad, shard, fuse, plan, kernel or llvm";
      return signalPassFailure();
    }
    WalkResult walk = getOperation().walk([&](Operation *op) {
      if (op == getOperation())
        return WalkResult::advance();
      std::optional<Illegal> illegal = findIllegal(*which, op);
      if (!illegal)
        return WalkResult::advance();
      InFlightDiagnostic diag = op->emitOpError()
                                << illegal->why << " at the exit of stage "
                                << stage;
      if (!illegal->pass.empty())
        diag.attachNote() << illegal->pass << " should have removed it";
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
