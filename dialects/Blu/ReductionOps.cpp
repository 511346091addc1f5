//===- ReductionOps.cpp - inference and gradients of reductions -----------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/BluSupport.h"

using namespace mlir;
using namespace mlir::blu;

static LogicalResult inferReduction(InferSite site, Value input,
                                    ArrayRef<int64_t> dims, bool keepDims,
                                    SmallVectorImpl<Type> &types) {
  auto type = cast<RankedTensorType>(input.getType());
  for (auto [i, dim] : llvm::enumerate(dims)) { // C1
    if (dim < 0 || dim >= type.getRank())
      return emitInferError(site, "reduces dim ", dim, ", the input has rank ",
                            type.getRank());
    if (i && dim <= dims[i - 1])
      return emitInferError(site, "reduced dims ", dims[i - 1], ", ", dim,
                            " are not in ascending order");
  }
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    if (!llvm::is_contained(dims, i))
      shape.push_back(type.getDimSize(i));
    else if (keepDims)
      shape.push_back(1);
  }
  types.push_back(RankedTensorType::get(shape, type.getElementType()));
  return success();
}

#define BLU_INFER_REDUCTION(OP)                                                \
  LogicalResult OP::inferReturnTypes(                                          \
      MLIRContext *, std::optional<Location> loc, Adaptor adaptor,             \
      SmallVectorImpl<Type> &types) {                                          \
    return inferReduction({loc, getOperationName()}, adaptor.getInput(),       \
                          adaptor.getDims(), adaptor.getKeepDims(), types);    \
  }
BLU_INFER_REDUCTION(ReduceSumOp)
BLU_INFER_REDUCTION(ReduceMeanOp)
BLU_INFER_REDUCTION(ReduceMaxOp)
#undef BLU_INFER_REDUCTION

/// `reduced` with its reduced dims back as dims of 1, so that it broadcasts
/// against the input.
static Value restoreDims(GradBuilder &gb, Value reduced, Value input,
                         ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape(GradBuilder::type(input).getShape());
  for (int64_t dim : dims)
    shape[dim] = 1;
  return gb.reshape(reduced, shape);
}

LogicalResult ReduceSumOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                         const llvm::BitVector &wanted,
                                         MutableArrayRef<Value> out) {
  GradBuilder gb(b, getLoc());
  if (wanted[0])
    out[0] = gb.broadcast(restoreDims(gb, g[0], getInput(), getDims()),
                          getInput().getType());
  return success();
}

LogicalResult ReduceMeanOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                          const llvm::BitVector &wanted,
                                          MutableArrayRef<Value> out) {
  if (!wanted[0])
    return success();
  GradBuilder gb(b, getLoc());
  double count = 1;
  for (int64_t dim : getDims())
    count *= getInput().getType().getDimSize(dim);
  Value share = gb.div(g[0], gb.scalar(count, g[0]));
  out[0] = gb.broadcast(restoreDims(gb, share, getInput(), getDims()),
                        getInput().getType());
  return success();
}

LogicalResult ReduceMaxOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                         const llvm::BitVector &wanted,
                                         MutableArrayRef<Value> out) {
  if (!wanted[0])
    return success();
  GradBuilder gb(b, getLoc());
  Value x = getInput();
  Value max = restoreDims(gb, getResult(), x, getDims());
  Value isMax = gb.compare(ComparePredicate::EQ, x, max);
  Value ones = gb.cast(isMax, GradBuilder::type(x).getElementType());
  Value ties = gb.reduceSum(ones, getDims(), /*keepDims=*/true);
  Value share = gb.div(restoreDims(gb, g[0], x, getDims()), ties);
  out[0] = gb.mul(ones, share);
  return success();
}
