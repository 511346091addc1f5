//===- NormalizationOps.cpp - inference and gradients ---------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/BluSupport.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blu;

//===----------------------------------------------------------------------===//
// layer_norm
//===----------------------------------------------------------------------===//

/// C1 and C2 of both ops.
static LogicalResult
checkLayerNorm(InferSite site, Value input,
               ArrayRef<std::pair<StringRef, Value>> vectors, double eps) {
  auto x = cast<RankedTensorType>(input.getType());
  if (x.getRank() < 1)
    return emitInferError(site, "input has rank 0, expected at least 1");
  auto expected =
      RankedTensorType::get({x.getShape().back()}, x.getElementType());
  for (auto [name, vector] : vectors) {
    auto type = cast<RankedTensorType>(vector.getType());
    if (type.getElementType() != x.getElementType() || type.getRank() != 1 ||
        !extentsMatch(type.getDimSize(0), x.getShape().back()))
      return emitInferError(site, name, " has type ", type, ", expected ",
                            expected);
  }
  if (!(eps > 0) || !std::isfinite(eps))
    return emitInferError(site, "eps is ", eps, ", expected a positive number");
  return success();
}

LogicalResult LayerNormOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  return checkLayerNorm(
      {loc, getOperationName()}, adaptor.getInput(),
      {{"weight", adaptor.getWeight()}, {"bias", adaptor.getBias()}},
      adaptor.getEps().convertToDouble());
}

LogicalResult LayerNormGradOp::inferReturnTypes(MLIRContext *,
                                                std::optional<Location> loc,
                                                Adaptor adaptor,
                                                SmallVectorImpl<Type> &types) {
  types.push_back(adaptor.getInput().getType());
  types.append(2, adaptor.getWeight().getType());
  if (adaptor.getGrad().getType() != adaptor.getInput().getType()) // C1
    return emitInferError({loc, getOperationName()}, "cotangent has type ",
                          adaptor.getGrad().getType(), ", the input has ",
                          adaptor.getInput().getType());
  return checkLayerNorm({loc, getOperationName()}, adaptor.getInput(),
                        {{"weight", adaptor.getWeight()}},
                        adaptor.getEps().convertToDouble());
}

LogicalResult LayerNormOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                         const llvm::BitVector &wanted,
                                         MutableArrayRef<Value> out) {
  auto grad = LayerNormGradOp::create(b, getLoc(), getInput(), getWeight(),
                                      g[0], getEpsAttr());
  for (unsigned i : wanted.set_bits())
    out[i] = grad.getResult(i);
  return success();
}

//===----------------------------------------------------------------------===//
// softmax, log_softmax
//===----------------------------------------------------------------------===//

template <typename Op> static LogicalResult verifySoftmaxDim(Op op) {
  int64_t dim = op.getDim(), rank = op.getType().getRank();
  if (dim < 0 || dim >= rank) // C1
    return op.emitOpError()
           << "dim is " << dim << ", the input has rank " << rank;
  return success();
}

LogicalResult SoftmaxOp::verify() { return verifySoftmaxDim(*this); }
LogicalResult LogSoftmaxOp::verify() { return verifySoftmaxDim(*this); }

LogicalResult SoftmaxOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                       const llvm::BitVector &wanted,
                                       MutableArrayRef<Value> out) {
  if (!wanted[0])
    return success();
  GradBuilder gb(b, getLoc());
  Value y = getResult();
  Value dot = gb.reduceSum(gb.mul(g[0], y), {int64_t(getDim())}, true);
  out[0] = gb.mul(y, gb.sub(g[0], dot));
  return success();
}

LogicalResult LogSoftmaxOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                          const llvm::BitVector &wanted,
                                          MutableArrayRef<Value> out) {
  if (!wanted[0])
    return success();
  GradBuilder gb(b, getLoc());
  Value p = ExpOp::create(b, getLoc(), getResult());
  Value sum = gb.reduceSum(g[0], {int64_t(getDim())}, true);
  out[0] = gb.sub(g[0], gb.mul(p, sum));
  return success();
}
