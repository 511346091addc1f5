//===- AttentionOps.cpp - inference and gradients of attention ------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/BluSupport.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blu;

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// C1 to C4 of `blu.attention`.
static LogicalResult checkAttention(InferSite site, Value qv, Value kv,
                                    Value vv, double scale, bool causal) {
  RankedTensorType q = tensorType(qv), k = tensorType(kv), v = tensorType(vv);
  for (RankedTensorType type : {q, k, v})
    if (type.getRank() != 4) // C1
      return emitInferError(site, "operand has type ", type,
                            ", expected rank 4: batch, length, heads, dim");
  if (k != v) // C1
    return emitInferError(site, "k has type ", k, ", v has ", v);
  if (q.getElementType() != k.getElementType()) // C1
    return emitInferError(site, "element types ", q.getElementType(), " and ",
                          k.getElementType(), " differ");
  for (int64_t dim : {0, 3})
    if (!extentsMatch(q.getDimSize(dim), k.getDimSize(dim))) // C1
      return emitInferError(site, "q dim ", dim, " is ", q.getDimSize(dim),
                            ", k dim ", dim, " is ", k.getDimSize(dim));
  int64_t heads = q.getDimSize(2), kvHeads = k.getDimSize(2);
  if (!ShapedType::isDynamic(heads) && !ShapedType::isDynamic(kvHeads) &&
      (kvHeads == 0 || heads % kvHeads != 0)) // C2
    return emitInferError(site, "q has ", heads,
                          " heads, not a multiple of k's ", kvHeads);
  int64_t length = q.getDimSize(1), keys = k.getDimSize(1);
  if (causal && !ShapedType::isDynamic(length) &&
      !ShapedType::isDynamic(keys) && keys < length) // C3
    return emitInferError(site, "causal attention of ", length,
                          " queries over ", keys,
                          " keys, expected at least as many keys");
  if (!(scale > 0) || !std::isfinite(scale)) // C4
    return emitInferError(site, "scale is ", scale,
                          ", expected a positive number");
  return success();
}

static RankedTensorType lseType(Value q) {
  RankedTensorType type = tensorType(q);
  Type element = type.getElementType();
  if (element.isBF16())
    element = Float32Type::get(element.getContext());
  return RankedTensorType::get(
      {type.getDimSize(0), type.getDimSize(2), type.getDimSize(1)}, element);
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  if (failed(checkAttention({loc, getOperationName()}, adaptor.getQ(),
                            adaptor.getK(), adaptor.getV(),
                            adaptor.getScale().convertToDouble(),
                            adaptor.getCausal())))
    return failure();
  types.push_back(adaptor.getQ().getType());
  types.push_back(lseType(adaptor.getQ()));
  return success();
}

LogicalResult AttentionOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                         const llvm::BitVector &wanted,
                                         MutableArrayRef<Value> out) {
  if (g[1])
    return emitOpError("has no gradient rule for a cotangent of lse");
  auto grad =
      AttentionGradOp::create(b, getLoc(), getQ(), getK(), getV(), getResult(),
                              getLse(), g[0], getScaleAttr(), getCausalAttr());
  for (unsigned i : wanted.set_bits())
    out[i] = grad.getResult(i);
  return success();
}

LogicalResult AttentionGradOp::inferReturnTypes(MLIRContext *,
                                                std::optional<Location> loc,
                                                Adaptor adaptor,
                                                SmallVectorImpl<Type> &types) {
  if (failed(checkAttention({loc, getOperationName()}, adaptor.getQ(),
                            adaptor.getK(), adaptor.getV(),
                            adaptor.getScale().convertToDouble(),
                            adaptor.getCausal())))
    return failure();
  Type q = adaptor.getQ().getType();
  for (auto [what, value] : {std::pair("o", adaptor.getO()),
                             std::pair("cotangent", adaptor.getGrad())})
    if (value.getType() != q) // C1
      return emitInferError({loc, getOperationName()}, what, " has type ",
                            value.getType(), ", expected ", q);
  if (adaptor.getLse().getType() != lseType(adaptor.getQ())) // C1
    return emitInferError({loc, getOperationName()}, "lse has type ",
                          adaptor.getLse().getType(), ", expected ",
                          lseType(adaptor.getQ()));
  types.append({q, adaptor.getK().getType(), adaptor.getV().getType()});
  return success();
}

LogicalResult
CachedAttentionOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc,
                                    Adaptor adaptor,
                                    SmallVectorImpl<Type> &types) {
  if (failed(checkAttention({loc, getOperationName()}, adaptor.getQ(),
                            adaptor.getK(), adaptor.getV(),
                            adaptor.getScale().convertToDouble(),
                            /*causal=*/true)))
    return failure();
  RankedTensorType k = tensorType(adaptor.getK());
  RankedTensorType cache = tensorType(adaptor.getKCache());
  if (cache != adaptor.getVCache().getType()) // C1
    return emitInferError({loc, getOperationName()}, "k cache has type ", cache,
                          ", v cache has ", adaptor.getVCache().getType());
  SmallVector<int64_t> expected(k.getShape());
  if (cache.getRank() == 4)
    expected[1] = cache.getDimSize(1);
  if (cache.getElementType() != k.getElementType() ||
      !shapesMatch(cache.getShape(), expected)) // C1
    return emitInferError({loc, getOperationName()}, "cache has type ", cache,
                          ", expected that of k but for dim 1, ", k);
  if (!extentsMatch(tensorType(adaptor.getQ()).getDimSize(1),
                    k.getDimSize(1))) // C1
    return emitInferError({loc, getOperationName()}, "q has length ",
                          tensorType(adaptor.getQ()).getDimSize(1), ", k has ",
                          k.getDimSize(1));
  if (!cache.isDynamicDim(1) && cache.getDimSize(1) < k.getDimSize(1)) // C2
    return emitInferError({loc, getOperationName()}, "cache holds ",
                          cache.getDimSize(1), " rows, expected at least ",
                          k.getDimSize(1));
  types.append({adaptor.getQ().getType(), cache, cache});
  return success();
}
