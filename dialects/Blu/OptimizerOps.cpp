//===- OptimizerOps.cpp - inference of norms ------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/BluSupport.h"

using namespace mlir;
using namespace mlir::blu;

LogicalResult GlobalNormOp::inferReturnTypes(MLIRContext *,
                                             std::optional<Location> loc,
                                             Adaptor adaptor,
                                             SmallVectorImpl<Type> &types) {
  if (adaptor.getInputs().empty()) // C1
    return emitInferError({loc, getOperationName()},
                          "has no operands, expected at least one");
  Type element;
  for (Value input : adaptor.getInputs()) {
    Type type = cast<RankedTensorType>(input.getType()).getElementType();
    if (element && type != element) // C1
      return emitInferError({loc, getOperationName()}, "element types ",
                            element, " and ", type, " differ");
    element = type;
  }
  types.push_back(RankedTensorType::get({}, element));
  return success();
}
