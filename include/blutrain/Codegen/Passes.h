//===- Passes.h - from the plan to host code ------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_CODEGEN_PASSES_H
#define BLUTRAIN_CODEGEN_PASSES_H

#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace mlir::blurt {

#define GEN_PASS_DECL
#include "blutrain/Codegen/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "blutrain/Codegen/Passes.h.inc"

/// Kernel stage to LLVM dialect: math expansion, then vector, scf, arith,
/// math and func. Registered as `blurt-lower-to-llvm`.
void buildLowerToLLVMPipeline(OpPassManager &manager);

/// Device kernels, in a module of their own, to the LLVM and NVVM dialects.
void buildLowerKernelsPipeline(OpPassManager &manager);

void registerCodegenPipelines();

} // namespace mlir::blurt

#endif // BLUTRAIN_CODEGEN_PASSES_H
