//===- Passes.h - from one device to the devices of a mesh -------*- C++
//-*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_SHARDING_PASSES_H
#define BLUTRAIN_SHARDING_PASSES_H

#include "mlir/Pass/Pass.h"

namespace blutrain {

#define GEN_PASS_DECL
#include "blutrain/Sharding/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "blutrain/Sharding/Passes.h.inc"

} // namespace blutrain

#endif // BLUTRAIN_SHARDING_PASSES_H
