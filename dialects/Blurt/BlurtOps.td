//===- BlurtOps.td - all op families of blurt --------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_OPS_TD
#define BLURT_OPS_TD

include "GroupOps.td"
include "LibraryOps.td"
include "LoopOps.td"
include "ViewOps.td"

#endif // BLURT_OPS_TD
