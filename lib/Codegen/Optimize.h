//===- Optimize.h - LLVM's passes over generated code ---------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_OPTIMIZE_H
#define BLUTRAIN_LIB_CODEGEN_OPTIMIZE_H

#include "llvm/IR/Module.h"
#include "llvm/Target/TargetMachine.h"

namespace mlir::blurt {

/// Runs LLVM's default pipeline of `level`, 0 to 3, without its vectorizers:
/// kernels are vectors already, what is left is host code and tails.
void optimizeModule(llvm::Module &module, llvm::TargetMachine &machine,
                    unsigned level);

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_OPTIMIZE_H
