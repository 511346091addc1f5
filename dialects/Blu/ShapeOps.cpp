//===- ShapeOps.cpp - inference, verifiers, gradients of moving elements --===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/BluSupport.h"

using namespace mlir;
using namespace mlir::blu;

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

//===----------------------------------------------------------------------===//
// reshape
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> loc,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  RankedTensorType input = tensorType(adaptor.getInput());
  SmallVector<int64_t> shape;
  std::optional<size_t> rest;
  for (auto [i, entry] : llvm::enumerate(adaptor.getShape())) { // C1
    if (entry == -1) {
      if (rest)
        return emitInferError({loc, getOperationName()}, "entries ", *rest,
                              " and ", i, " of the shape are both -1");
      rest = i;
    } else if (entry < 0) {
      return emitInferError({loc, getOperationName()}, "entry ", i,
                            " of the shape is ", entry,
                            ", expected at least -1");
    } else if (entry == 0 && int64_t(i) >= input.getRank()) {
      return emitInferError({loc, getOperationName()}, "entry ", i,
                            " of the shape is 0, the input has rank ",
                            input.getRank());
    }
    shape.push_back(entry == 0 ? input.getDimSize(i) : entry);
  }
  // Unknown extents that are carried over cancel on both sides; whatever else
  // is unknown leaves the rest unknown too.
  int64_t numerator = 1, denominator = 1;
  bool known = true;
  for (int64_t i = 0; i < input.getRank(); ++i) {
    bool kept = i < int64_t(shape.size()) && adaptor.getShape()[i] == 0;
    if (kept)
      continue;
    known &= !input.isDynamicDim(i);
    numerator *= input.isDynamicDim(i) ? 1 : input.getDimSize(i);
  }
  for (auto [i, entry] : llvm::enumerate(adaptor.getShape()))
    if (entry > 0)
      denominator *= entry;
  if (rest) {
    if (!known) {
      shape[*rest] = ShapedType::kDynamic;
    } else {
      if (denominator == 0 || numerator % denominator != 0) // C2
        return emitInferError({loc, getOperationName()}, "input of shape ",
                              shapeString(input.getShape()), " leaves ",
                              numerator, " elements for entry ", *rest,
                              ", expected a multiple of ", denominator);
      shape[*rest] = numerator / denominator;
    }
  } else if (known && numerator != denominator) { // C2
    return emitInferError({loc, getOperationName()}, "input of shape ",
                          shapeString(input.getShape()),
                          " has not as many elements as shape ",
                          shapeString(shape));
  }
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

LogicalResult ReshapeOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                       const llvm::BitVector &wanted,
                                       MutableArrayRef<Value> out) {
  if (wanted[0])
    out[0] =
        GradBuilder(b, getLoc()).reshape(g[0], getInput().getType().getShape());
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType() && getType().hasStaticShape())
    return getInput();
  if (auto inner = getInput().getDefiningOp<ReshapeOp>())
    if (getType().hasStaticShape()) {
      if (inner.getInput().getType() == getType())
        return inner.getInput();
      getInputMutable().assign(inner.getInput());
      setShape(getType().getShape());
      return getResult();
    }
  return {};
}

//===----------------------------------------------------------------------===//
// transpose
//===----------------------------------------------------------------------===//

LogicalResult TransposeOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  RankedTensorType input = tensorType(adaptor.getInput());
  ArrayRef<int64_t> permutation = adaptor.getPermutation();
  llvm::BitVector seen(input.getRank());
  for (int64_t dim : permutation)
    if (dim >= 0 && dim < input.getRank())
      seen.set(dim);
  if (int64_t(permutation.size()) != input.getRank() || !seen.all()) // C1
    return emitInferError({loc, getOperationName()},
                          "expected a permutation of the ", input.getRank(),
                          " dims, got [", permutation, "]");
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(input.getDimSize(dim));
  types.push_back(RankedTensorType::get(shape, input.getElementType()));
  return success();
}

LogicalResult TransposeOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                         const llvm::BitVector &wanted,
                                         MutableArrayRef<Value> out) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, dim] : llvm::enumerate(getPermutation()))
    inverse[dim] = i;
  if (wanted[0])
    out[0] = GradBuilder(b, getLoc()).transpose(g[0], inverse);
  return success();
}

//===----------------------------------------------------------------------===//
// broadcast
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  RankedTensorType input = getInput().getType(), result = getType();
  if (input.getElementType() != result.getElementType()) // C1
    return emitOpError() << "input has element type " << input.getElementType()
                         << ", result has " << result.getElementType();
  if (!result.hasStaticShape()) // C3
    return emitOpError() << "result has type " << result
                         << ", expected a static shape";
  int64_t extra = result.getRank() - input.getRank();
  if (extra < 0) // C2
    return emitOpError() << "input has rank " << input.getRank()
                         << ", result only " << result.getRank();
  for (int64_t i = 0; i < input.getRank(); ++i)
    if (input.getDimSize(i) != 1 &&
        !extentsMatch(input.getDimSize(i), result.getDimSize(extra + i))) // C2
      return emitOpError() << "input dim " << i << " is " << input.getDimSize(i)
                           << ", expected 1 or "
                           << result.getDimSize(extra + i);
  return success();
}

LogicalResult BroadcastOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                         const llvm::BitVector &wanted,
                                         MutableArrayRef<Value> out) {
  if (wanted[0])
    out[0] = GradBuilder(b, getLoc()).reduceTo(g[0], getInput().getType());
  return success();
}

//===----------------------------------------------------------------------===//
// slice, split, concat
//===----------------------------------------------------------------------===//

static LogicalResult checkDim(InferSite site, int64_t dim,
                              RankedTensorType type) {
  if (dim < 0 || dim >= type.getRank())
    return emitInferError(site, "dim is ", dim, ", the input has rank ",
                          type.getRank());
  return success();
}

/// `type` with another extent of one dim.
static RankedTensorType withDim(RankedTensorType type, int64_t dim,
                                int64_t extent) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = extent;
  return RankedTensorType::get(shape, type.getElementType());
}

LogicalResult SliceOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  RankedTensorType input = tensorType(adaptor.getInput());
  int64_t dim = adaptor.getDim(), start = adaptor.getStart(),
          size = adaptor.getSize();
  if (failed(checkDim({loc, getOperationName()}, dim, input))) // C1
    return failure();
  int64_t extent = input.getDimSize(dim);
  if (start < 0 || size < 1 ||
      (!ShapedType::isDynamic(extent) && size > extent - start)) // C2
    return emitInferError({loc, getOperationName()}, "range of ", size,
                          " from ", start, " does not lie within dim ", dim,
                          " of extent ", extentString(extent));
  types.push_back(withDim(input, dim, size));
  return success();
}

/// `part` at `start` along `dim` of zeros of `type`.
static Value padWithZeros(OpBuilder &b, Location loc, Value part, int64_t dim,
                          int64_t start, RankedTensorType type) {
  GradBuilder gb(b, loc);
  int64_t size = tensorType(part).getDimSize(dim);
  int64_t after = type.getDimSize(dim) - start - size;
  SmallVector<Value> parts;
  if (start)
    parts.push_back(gb.zeros(withDim(type, dim, start)));
  parts.push_back(part);
  if (after)
    parts.push_back(gb.zeros(withDim(type, dim, after)));
  return parts.size() == 1 ? part : ConcatOp::create(b, loc, dim, parts);
}

LogicalResult SliceOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                     const llvm::BitVector &wanted,
                                     MutableArrayRef<Value> out) {
  if (wanted[0])
    out[0] = padWithZeros(b, getLoc(), g[0], getDim(), getStart(),
                          getInput().getType());
  return success();
}

LogicalResult SplitOp::inferReturnTypes(MLIRContext *,
                                        std::optional<Location> loc,
                                        Adaptor adaptor,
                                        SmallVectorImpl<Type> &types) {
  RankedTensorType input = tensorType(adaptor.getInput());
  if (failed(
          checkDim({loc, getOperationName()}, adaptor.getDim(), input))) // C1
    return failure();
  int64_t sum = 0;
  for (int64_t size : adaptor.getSizes()) {
    if (size < 1)
      return emitInferError({loc, getOperationName()}, "part of size ", size,
                            ", expected at least 1");
    sum += size;
    types.push_back(withDim(input, adaptor.getDim(), size));
  }
  int64_t extent = input.getDimSize(adaptor.getDim());
  if (adaptor.getSizes().empty() || !extentsMatch(sum, extent)) // C2
    return emitInferError({loc, getOperationName()}, "parts add up to ", sum,
                          ", dim ", int64_t(adaptor.getDim()), " is ", extent);
  return success();
}

LogicalResult SplitOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                     const llvm::BitVector &wanted,
                                     MutableArrayRef<Value> out) {
  if (!wanted[0])
    return success();
  GradBuilder gb(b, getLoc());
  SmallVector<Value> parts;
  for (auto [grad, part] : llvm::zip(g, getParts()))
    parts.push_back(grad ? grad : gb.zeros(tensorType(part)));
  out[0] = ConcatOp::create(b, getLoc(), getDim(), parts);
  return success();
}

LogicalResult ConcatOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  if (adaptor.getParts().empty()) // C1
    return emitInferError({loc, getOperationName()},
                          "has no parts, expected at least one");
  RankedTensorType first = tensorType(adaptor.getParts().front());
  int64_t dim = adaptor.getDim(), sum = 0;
  if (failed(checkDim({loc, getOperationName()}, dim, first)))
    return failure();
  for (auto [i, part] : llvm::enumerate(adaptor.getParts())) {
    RankedTensorType type = tensorType(part);
    if (type.getElementType() != first.getElementType() ||
        type.getRank() != first.getRank()) // C1
      return emitInferError({loc, getOperationName()}, "part ", i, " has type ",
                            type, ", the first has ", first);
    for (int64_t d = 0; d < type.getRank(); ++d)
      if (d != dim && !extentsMatch(type.getDimSize(d), first.getDimSize(d)))
        return emitInferError({loc, getOperationName()}, "part ", i,
                              " has dim ", d, " of ", type.getDimSize(d),
                              ", the first has ",
                              first.getDimSize(d)); // C2
    sum = type.isDynamicDim(dim) || ShapedType::isDynamic(sum)
              ? ShapedType::kDynamic
              : sum + type.getDimSize(dim);
  }
  types.push_back(withDim(first, dim, sum));
  return success();
}

LogicalResult ConcatOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                      const llvm::BitVector &wanted,
                                      MutableArrayRef<Value> out) {
  SmallVector<int64_t> sizes;
  for (Value part : getParts())
    sizes.push_back(tensorType(part).getDimSize(getDim()));
  auto split = SplitOp::create(b, getLoc(), g[0], getDim(), sizes);
  for (unsigned i : wanted.set_bits())
    out[i] = split.getResult(i);
  return success();
}

//===----------------------------------------------------------------------===//
// positions
//===----------------------------------------------------------------------===//

LogicalResult PositionsOp::inferReturnTypes(MLIRContext *context,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  RankedTensorType like = tensorType(adaptor.getLike());
  if (failed(checkDim({loc, getOperationName()}, adaptor.getDim(), like))) // C1
    return failure();
  types.push_back(RankedTensorType::get({like.getDimSize(adaptor.getDim())},
                                        IntegerType::get(context, 32)));
  return success();
}
