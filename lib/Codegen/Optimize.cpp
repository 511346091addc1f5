//===- Optimize.cpp - LLVM's passes over generated code -------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Optimize.h"

#include "llvm/Passes/PassBuilder.h"

void mlir::blurt::optimizeModule(llvm::Module &module,
                                 llvm::TargetMachine &machine, unsigned level) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cgscc;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  tuning.LoopInterleaving = false;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cgscc);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cgscc, modules);
  llvm::OptimizationLevel optLevel = level >= 3   ? llvm::OptimizationLevel::O3
                                     : level == 2 ? llvm::OptimizationLevel::O2
                                     : level == 1 ? llvm::OptimizationLevel::O1
                                                  : llvm::OptimizationLevel::O0;
  if (level == 0)
    builder.buildO0DefaultPipeline(optLevel).run(module, modules);
  else
    builder.buildPerModuleDefaultPipeline(optLevel).run(module, modules);
}
