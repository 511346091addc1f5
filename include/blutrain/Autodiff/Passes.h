//===- Passes.h - from a model to its training step -------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_AUTODIFF_PASSES_H
#define BLUTRAIN_AUTODIFF_PASSES_H

#include "mlir/Pass/Pass.h"

namespace blutrain {

#define GEN_PASS_DECL
#include "blutrain/Autodiff/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "blutrain/Autodiff/Passes.h.inc"

} // namespace blutrain

#endif // BLUTRAIN_AUTODIFF_PASSES_H
