//===- Passes.h - what closes a stage ---------------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_PIPELINES_PASSES_H
#define BLUTRAIN_PIPELINES_PASSES_H

#include "mlir/Pass/Pass.h"

namespace blutrain {

#define GEN_PASS_DECL
#include "blutrain/Pipelines/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "blutrain/Pipelines/Passes.h.inc"

} // namespace blutrain

#endif // BLUTRAIN_PIPELINES_PASSES_H
