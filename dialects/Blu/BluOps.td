//===- BluOps.td - all op families of blu ------------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_OPS_TD
#define BLU_OPS_TD

include "AttentionOps.td"
include "ElementwiseOps.td"
include "EmbeddingOps.td"
include "LossOps.td"
include "MatmulOps.td"
include "ModelOps.td"
include "NormalizationOps.td"
include "OptimizerOps.td"
include "RandomOps.td"
include "ReductionOps.td"
include "ShapeOps.td"

#endif // BLU_OPS_TD
