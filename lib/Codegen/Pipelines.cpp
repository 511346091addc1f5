//===- Pipelines.cpp - kernel stage to LLVM dialect -----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Codegen/Passes.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::blurt;

void blurt::buildLowerToLLVMPipeline(OpPassManager &manager) {
  // Functions first: their expansions are arith and vector operations.
  manager.addPass(createBlurtExpandMath());
  manager.addPass(createCSEPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createConvertFuncToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
  // The table refers to entries as llvm.func.
  manager.addPass(createBlurtEmitProgramTable());
}

void blurt::registerCodegenPipelines() {
  PassPipelineRegistration<>(
      "blurt-lower-to-llvm",
      "lower kernels and entries to the LLVM dialect, with the program table",
      buildLowerToLLVMPipeline);
}
