//===- Passes.h - passes within a stage -------------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_TRANSFORMS_PASSES_H
#define BLUTRAIN_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace blutrain {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "blutrain/Transforms/Passes.h.inc"

} // namespace blutrain

#endif // BLUTRAIN_TRANSFORMS_PASSES_H
