//===- Blurt.td - everything in the dialect, for its page --*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

include "BlurtOps.td"
include "CollectiveOps.td"
