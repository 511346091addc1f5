//===- EmitCudaKernels.cpp - planned ops to device kernels ----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "CudaHost.h"

#include "blutrain/Codegen/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace mlir::blurt {
#define GEN_PASS_DEF_BLURTEMITCUDAKERNELS
#include "blutrain/Codegen/Passes.h.inc"
} // namespace mlir::blurt

using namespace mlir;
using namespace mlir::blurt;

namespace {
struct EmitCudaKernels
    : blurt::impl::BlurtEmitCudaKernelsBase<EmitCudaKernels> {
  using BlurtEmitCudaKernelsBase::BlurtEmitCudaKernelsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto workspace =
        module->getAttrOfType<DenseI64ArrayAttr>("blurt.workspace");
    if (!workspace || workspace.size() != 2) {
      module.emitError("expected the attribute blurt.workspace, the offset and "
                       "the bytes of the plan's workspace");
      return signalPassFailure();
    }
    setPlanHash(module);
    CudaHost::Archs wanted;
    wanted.hopper = llvm::is_contained(archs, "sm_90a");
    wanted.others = archs.empty() || llvm::any_of(archs, [](StringRef arch) {
                      return arch != "sm_90a";
                    });
    CudaHost host(module, workspace[0], workspace[1], wanted);
    if (auto counters = module->getAttrOfType<IntegerAttr>("blurt.counters"))
      host.setCounters(counters.getInt());
    module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                    UnitAttr::get(&getContext()));
    for (auto function : llvm::to_vector(module.getOps<func::FuncOp>()))
      if (!function.isExternal() && failed(host.convert(function)))
        return signalPassFailure();
    numGroups += host.getNumGroups();
    numKernels += host.getNumKernels();
    host.finish();
  }
};
} // namespace
