//===- Collective.h - between the devices of a mesh -------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_COLLECTIVE_H
#define BLURT_COLLECTIVE_H

#include "Blurt/BlurtDialect.h"

#define GET_OP_CLASSES
#include "Blurt/BlurtCollectiveOps.h.inc"

#endif // BLURT_COLLECTIVE_H
