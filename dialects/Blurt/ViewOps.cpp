//===- ViewOps.cpp - other views of the same bytes ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blurt/BlurtDialect.h"

using namespace mlir;
using namespace mlir::blurt;

static LogicalResult verifySameElementType(Operation *op, ShapedType found,
                                           ShapedType expected) {
  if (found.getElementType() == expected.getElementType())
    return success();
  return op->emitOpError("result element type is ")
         << found.getElementType() << ", expected "
         << expected.getElementType();
}

//===----------------------------------------------------------------------===//
// ReshapeOp
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  auto source = getSource().getType(), result = getResult().getType();
  // V1
  if (failed(verifySameElementType(*this, result, source)))
    return failure();
  if (source.hasStaticShape() && result.hasStaticShape() &&
      source.getNumElements() != result.getNumElements())
    return emitOpError("result has ")
           << result.getNumElements() << " elements, expected "
           << source.getNumElements();
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getSource().getType() == getType())
    return getSource();
  if (auto producer = getSource().getDefiningOp<ReshapeOp>()) {
    if (producer.getSource().getType() == getType())
      return producer.getSource();
    getSourceMutable().assign(producer.getSource());
    return getResult();
  }
  return {};
}

//===----------------------------------------------------------------------===//
// TransposeOp
//===----------------------------------------------------------------------===//

LogicalResult TransposeOp::verify() {
  auto source = getSource().getType(), result = getResult().getType();
  ArrayRef<int64_t> permutation = getPermutation();
  // V2
  if (failed(verifySameElementType(*this, result, source)))
    return failure();
  if (int64_t(permutation.size()) != source.getRank())
    return emitOpError("permutation has ")
           << permutation.size() << " dims, expected " << source.getRank();
  if (result.getRank() != source.getRank())
    return emitOpError("result has rank ")
           << result.getRank() << ", expected " << source.getRank();
  SmallVector<bool> seen(permutation.size(), false);
  for (auto [i, dim] : llvm::enumerate(permutation)) {
    if (dim < 0 || dim >= source.getRank() || seen[dim])
      return emitOpError("permutation entry ")
             << i << " is " << dim << ", expected a dim not named before";
    seen[dim] = true;
    if (failed(blurt::detail::verifyExtent(
            *this, "result", i, result.getDimSize(i), source.getDimSize(dim))))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// SliceOp
//===----------------------------------------------------------------------===//

LogicalResult SliceOp::verify() {
  auto source = getSource().getType(), result = getResult().getType();
  // V3
  if (failed(verifySameElementType(*this, result, source)))
    return failure();
  if (int64_t(getOffsets().size()) != source.getRank())
    return emitOpError("has ")
           << getOffsets().size() << " offsets, expected " << source.getRank();
  if (result.getRank() != source.getRank())
    return emitOpError("result has rank ")
           << result.getRank() << ", expected " << source.getRank();
  for (auto [i, offset] : llvm::enumerate(getOffsets())) {
    if (offset < 0)
      return emitOpError("offset ")
             << i << " is " << offset << ", expected at least 0";
    if (source.isDynamicDim(i) || result.isDynamicDim(i))
      continue;
    int64_t end = offset + result.getDimSize(i);
    if (end > source.getDimSize(i))
      return emitOpError("dim ")
             << i << " ends at " << end << ", expected at most "
             << source.getDimSize(i);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// ConcatOp
//===----------------------------------------------------------------------===//

LogicalResult ConcatOp::verify() {
  auto result = getResult().getType();
  int64_t dim = getDim();
  // V4
  if (dim < 0 || dim >= result.getRank())
    return emitOpError("dim is ")
           << dim << ", expected less than the rank " << result.getRank();
  int64_t total = 0;
  for (auto [i, part] : llvm::enumerate(getParts())) {
    auto type = cast<RankedTensorType>(part.getType());
    if (type.getElementType() != result.getElementType())
      return emitOpError("part ")
             << i << " has element type " << type.getElementType()
             << ", expected " << result.getElementType();
    if (type.getRank() != result.getRank())
      return emitOpError("part ") << i << " has rank " << type.getRank()
                                  << ", expected " << result.getRank();
    for (int64_t d = 0; d < result.getRank(); ++d)
      if (d != dim && failed(blurt::detail::verifyExtent(
                          *this, "part " + Twine(i), d, type.getDimSize(d),
                          result.getDimSize(d))))
        return failure();
    total += type.getDimSize(dim);
  }
  return blurt::detail::verifyExtent(*this, "result", dim,
                                     result.getDimSize(dim), total);
}

//===----------------------------------------------------------------------===//
// SlotOp
//===----------------------------------------------------------------------===//

LogicalResult SlotOp::verify() {
  auto arena = dyn_cast<MemRefType>(getArena().getType());
  auto result = dyn_cast<MemRefType>(getResult().getType());
  // V5
  if (!arena || arena.getRank() != 1 || !arena.hasStaticShape() ||
      !arena.getElementType().isInteger(8) || !arena.getLayout().isIdentity())
    return emitOpError("arena is ")
           << getArena().getType() << ", expected a static memref of i8";
  // V6
  if (getSteps().size() != getIterations().size())
    return emitOpError("has ") << getSteps().size() << " steps, expected "
                               << getIterations().size();
  // V7
  FailureOr<int64_t> span = failure();
  if (result)
    span = getSpanBytes(result);
  if (failed(span))
    return emitOpError("result is ")
           << getResult().getType() << ", expected static shape and strides";
  auto [strides, offset] = result.getStridesAndOffset();
  if (offset != 0)
    return emitOpError("result layout has offset ") << offset << ", expected 0";
  int64_t begin = getOffset();
  if (begin < 0)
    return emitOpError("offset is ") << begin << ", expected at least 0";
  if (begin + *span > arena.getDimSize(0))
    return emitOpError("ends at byte ")
           << begin + *span << ", expected at most " << arena.getDimSize(0);
  return success();
}
