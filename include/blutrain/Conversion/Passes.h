//===- Passes.h - the passes of the fuse stage ------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_CONVERSION_PASSES_H
#define BLUTRAIN_CONVERSION_PASSES_H

#include "mlir/Pass/Pass.h"

#include <memory>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace blutrain {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "blutrain/Conversion/Passes.h.inc"

/// The passes of the `fuse` stage, in order; registered as `blurt-fuse-stage`.
void buildFuseStage(mlir::OpPassManager &pm);
void registerFuseStagePipeline();

} // namespace blutrain

#endif // BLUTRAIN_CONVERSION_PASSES_H
