//===- EmbeddingOps.cpp - inference and gradient of rows by number --------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/BluSupport.h"

using namespace mlir;
using namespace mlir::blu;

LogicalResult EmbeddingOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto table = cast<RankedTensorType>(adaptor.getTable().getType());
  auto ids = cast<RankedTensorType>(adaptor.getIds().getType());
  if (table.getRank() != 2) // C1
    return emitInferError({loc, getOperationName()}, "table has type ", table,
                          ", expected rank 2");
  SmallVector<int64_t> shape(ids.getShape());
  shape.push_back(table.getDimSize(1));
  types.push_back(RankedTensorType::get(shape, table.getElementType()));
  return success();
}

LogicalResult EmbeddingOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                         const llvm::BitVector &wanted,
                                         MutableArrayRef<Value> out) {
  if (wanted[0])
    out[0] = EmbeddingGradOp::create(b, getLoc(), getIds(), g[0],
                                     getTable().getType().getDimSize(0));
  return success();
}

LogicalResult EmbeddingGradOp::inferReturnTypes(MLIRContext *,
                                                std::optional<Location> loc,
                                                Adaptor adaptor,
                                                SmallVectorImpl<Type> &types) {
  auto ids = cast<RankedTensorType>(adaptor.getIds().getType());
  auto grad = cast<RankedTensorType>(adaptor.getGrad().getType());
  if (grad.getRank() != ids.getRank() + 1 ||
      !shapesMatch(grad.getShape().drop_back(), ids.getShape())) // C1
    return emitInferError({loc, getOperationName()}, "cotangent has shape ",
                          shapeString(grad.getShape()), ", ids have ",
                          shapeString(ids.getShape()));
  if (int64_t(adaptor.getRows()) < 1) // C2
    return emitInferError({loc, getOperationName()}, "rows is ",
                          int64_t(adaptor.getRows()), ", expected at least 1");
  types.push_back(RankedTensorType::get(
      {int64_t(adaptor.getRows()), grad.getShape().back()},
      grad.getElementType()));
  return success();
}
