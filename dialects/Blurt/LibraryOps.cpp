//===- LibraryOps.cpp - GEMM, attention, scatter --------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blurt/BlurtDialect.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::blurt;

/// What an op of this file writes: its results or its outs.
template <typename OpTy> static SmallVector<ShapedType> getOutputs(OpTy op) {
  SmallVector<ShapedType> types;
  TypeRange range = op.getOuts().empty() ? TypeRange(op->getResultTypes())
                                         : TypeRange(op.getOuts().getTypes());
  for (Type type : range)
    types.push_back(cast<ShapedType>(type));
  return types;
}

static LogicalResult verifyRank(Operation *op, StringRef what, ShapedType type,
                                int64_t expected) {
  if (type.hasRank() && type.getRank() == expected)
    return success();
  return op->emitOpError() << what << " is " << type << ", expected rank "
                           << expected;
}

static LogicalResult verifyElement(Operation *op, StringRef what,
                                   ShapedType type, Type expected) {
  if (type.getElementType() == expected)
    return success();
  return op->emitOpError() << what << " has element type "
                           << type.getElementType() << ", expected "
                           << expected;
}

static LogicalResult verifyShape(Operation *op, StringRef what, ShapedType type,
                                 ArrayRef<int64_t> expected) {
  if (failed(verifyRank(op, what, type, expected.size())))
    return failure();
  for (auto [i, extent] : llvm::enumerate(expected))
    if (failed(blurt::detail::verifyExtent(op, what, i, type.getDimSize(i),
                                           extent)))
      return failure();
  return success();
}

static LogicalResult verifyTf32(Operation *op, bool tf32, Type element) {
  if (!tf32 || element.isF32())
    return success();
  return op->emitOpError("is tf32 with operands of ")
         << element << ", expected f32";
}

static LogicalResult verifyPosition(Operation *op, ShapedType type) {
  if (type.hasRank() && type.getRank() == 0 &&
      type.getElementType().isInteger(64))
    return success();
  return op->emitOpError("position is ")
         << type << ", expected a rank-0 value of i64";
}

//===----------------------------------------------------------------------===//
// GemmOp
//===----------------------------------------------------------------------===//

void GemmOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  blurt::detail::addDestinationEffects(*this, getOutsMutable(),
                                       /*readsOuts=*/bool(getC()), effects);
}

LogicalResult GemmOp::verify() {
  if (failed(blurt::detail::verifyForm(*this, getOuts(), 1)))
    return failure();
  auto a = cast<ShapedType>(getA().getType());
  auto b = cast<ShapedType>(getB().getType());
  ShapedType out = getOutputs(*this)[0];
  // M1
  int64_t rank = a.getRank();
  if (rank != 2 && rank != 3)
    return emitOpError("a has rank ") << rank << ", expected 2 or 3";
  if (failed(verifyRank(*this, "b", b, rank)) ||
      failed(verifyRank(*this, "output", out, rank)))
    return failure();
  if (!isa<FloatType>(a.getElementType()))
    return emitOpError("a has element type ")
           << a.getElementType() << ", expected a float type";
  if (failed(verifyElement(*this, "b", b, a.getElementType())))
    return failure();
  bool isWide = a.getElementType().isBF16() && out.getElementType().isF32();
  if (!isWide && out.getElementType() != a.getElementType())
    return emitOpError("output has element type ")
           << out.getElementType() << ", expected " << a.getElementType()
           << (a.getElementType().isBF16() ? " or f32" : "");
  // M5
  if (failed(verifyTf32(*this, getTf32(), a.getElementType())))
    return failure();
  if (getSplit() && !a.getElementType().isF32())
    return emitOpError("is split with operands of ")
           << a.getElementType() << ", expected f32";
  if (getSplit() && getTf32())
    return emitOpError("is both split and tf32");
  // M2
  int64_t first = rank - 2;
  int64_t m = a.getDimSize(first + (getTransA() ? 1 : 0));
  int64_t k = a.getDimSize(first + (getTransA() ? 0 : 1));
  int64_t n = b.getDimSize(first + (getTransB() ? 0 : 1));
  if (failed(blurt::detail::verifyExtent(
          *this, "b", first + (getTransB() ? 1 : 0),
          b.getDimSize(first + (getTransB() ? 1 : 0)), k)))
    return failure();
  if (failed(blurt::detail::verifyExtent(*this, "output", first,
                                         out.getDimSize(first), m)) ||
      failed(blurt::detail::verifyExtent(*this, "output", first + 1,
                                         out.getDimSize(first + 1), n)))
    return failure();
  if (rank == 3) {
    for (auto [what, type] :
         {std::pair<StringRef, ShapedType>{"a", a}, {"b", b}})
      if (type.getDimSize(0) != 1 &&
          failed(blurt::detail::verifyExtent(*this, what, 0, type.getDimSize(0),
                                             out.getDimSize(0))))
        return failure();
  }
  // M3
  if (Value c = getC()) {
    if (!getOuts().empty() && c != getOuts()[0])
      return emitOpError("c is not the out, which is updated in place");
    if (getOuts().empty() && c.getType() != getResult(0).getType())
      return emitOpError("c is ")
             << c.getType() << ", expected " << getResult(0).getType();
  }
  // M6
  if (Value bias = getBias()) {
    auto type = cast<ShapedType>(bias.getType());
    if (failed(verifyRank(*this, "bias", type, 1)) ||
        failed(verifyElement(*this, "bias", type, out.getElementType())) ||
        failed(blurt::detail::verifyExtent(*this, "bias", 0, type.getDimSize(0),
                                           n)))
      return failure();
    if (!type.getElementType().isF32() && !type.getElementType().isBF16())
      return emitOpError("bias has element type ")
             << type.getElementType() << ", expected f32 or bf16";
    if (getC())
      return emitOpError("has c and bias, expected one of them");
  }
  // M4
  for (auto [what, type] :
       {std::pair<StringRef, ShapedType>{"a", a}, {"b", b}, {"output", out}}) {
    auto memref = dyn_cast<MemRefType>(type);
    if (!memref)
      continue;
    SmallVector<int64_t> strides;
    int64_t offset;
    if (failed(memref.getStridesAndOffset(strides, offset)))
      return emitOpError() << what << " has no strided layout";
    bool unit = false;
    for (int64_t d : {first, first + 1})
      unit |= strides[d] == 1 || memref.getDimSize(d) == 1;
    if (!unit)
      return emitOpError() << what << " has strides " << strides[first]
                           << " and " << strides[first + 1]
                           << ", expected one of them to be 1";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// AttentionOp, AttentionGradOp
//===----------------------------------------------------------------------===//

/// A1, A2 and A4.
static LogicalResult verifyAttention(Operation *op, ShapedType q, ShapedType k,
                                     ShapedType v, ShapedType o,
                                     ShapedType lse) {
  // A1
  if (failed(verifyRank(op, "q", q, 4)) || failed(verifyRank(op, "k", k, 4)) ||
      failed(verifyShape(op, "v", v, k.getShape())))
    return failure();
  if (!isa<FloatType>(q.getElementType()))
    return op->emitOpError("q has element type ")
           << q.getElementType() << ", expected a float type";
  if (failed(verifyElement(op, "k", k, q.getElementType())) ||
      failed(verifyElement(op, "v", v, q.getElementType())))
    return failure();
  // A2
  for (unsigned dim : {0u, 3u})
    if (failed(blurt::detail::verifyExtent(op, "k", dim, k.getDimSize(dim),
                                           q.getDimSize(dim))))
      return failure();
  if (k.getDimSize(2) == 0 || q.getDimSize(2) % k.getDimSize(2) != 0)
    return op->emitOpError("k has ")
           << k.getDimSize(2) << " heads, expected a divisor of "
           << q.getDimSize(2);
  // A4
  Type statistics = GroupOp::getScalarType(q.getElementType());
  if (failed(verifyShape(op, "o", o, q.getShape())) ||
      failed(verifyElement(op, "o", o, q.getElementType())) ||
      failed(
          verifyShape(op, "lse", lse,
                      {q.getDimSize(0), q.getDimSize(2), q.getDimSize(1)})) ||
      failed(verifyElement(op, "lse", lse, statistics)))
    return failure();
  return success();
}

void AttentionOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  blurt::detail::addDestinationEffects(*this, getOutsMutable(), false, effects);
}

LogicalResult AttentionOp::verify() {
  if (failed(blurt::detail::verifyForm(*this, getOuts(), 2)))
    return failure();
  // A3
  if (getPosition() &&
      failed(verifyPosition(*this, cast<ShapedType>(getPosition().getType()))))
    return failure();
  // A6
  if (failed(
          verifyTf32(*this, getTf32(), getElementTypeOrSelf(getQ().getType()))))
    return failure();
  SmallVector<ShapedType> outputs = getOutputs(*this);
  return verifyAttention(*this, cast<ShapedType>(getQ().getType()),
                         cast<ShapedType>(getK().getType()),
                         cast<ShapedType>(getV().getType()), outputs[0],
                         outputs[1]);
}

void AttentionGradOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  blurt::detail::addDestinationEffects(*this, getOutsMutable(), false, effects);
}

LogicalResult AttentionGradOp::verify() {
  if (failed(blurt::detail::verifyForm(*this, getOuts(), 3)))
    return failure();
  auto q = cast<ShapedType>(getQ().getType());
  auto k = cast<ShapedType>(getK().getType());
  auto v = cast<ShapedType>(getV().getType());
  if (failed(verifyAttention(*this, q, k, v, cast<ShapedType>(getO().getType()),
                             cast<ShapedType>(getLse().getType()))))
    return failure();
  // A6
  if (failed(verifyTf32(*this, getTf32(), q.getElementType())))
    return failure();
  // A5
  SmallVector<ShapedType> outputs = getOutputs(*this);
  for (auto [what, found, expected] :
       {std::tuple<StringRef, ShapedType, ShapedType>{
            "d_o", cast<ShapedType>(getDO().getType()), q},
        {"dq", outputs[0], q},
        {"dk", outputs[1], k},
        {"dv", outputs[2], v}})
    if (failed(verifyShape(*this, what, found, expected.getShape())) ||
        failed(verifyElement(*this, what, found, expected.getElementType())))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// ScatterAddOp
//===----------------------------------------------------------------------===//

void ScatterAddOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  blurt::detail::addDestinationEffects(*this, getOutsMutable(), false, effects);
}

LogicalResult ScatterAddOp::verify() {
  if (failed(blurt::detail::verifyForm(*this, getOuts(), 1)))
    return failure();
  auto ids = cast<ShapedType>(getIds().getType());
  auto updates = cast<ShapedType>(getUpdates().getType());
  ShapedType out = getOutputs(*this)[0];
  // S1
  if (failed(verifyRank(*this, "ids", ids, 1)))
    return failure();
  if (!ids.getElementType().isInteger(32) &&
      !ids.getElementType().isInteger(64))
    return emitOpError("ids have element type ")
           << ids.getElementType() << ", expected i32 or i64";
  // S2
  if (failed(verifyRank(*this, "updates", updates, 2)) ||
      failed(blurt::detail::verifyExtent(
          *this, "updates", 0, updates.getDimSize(0), ids.getDimSize(0))))
    return failure();
  if (!isa<FloatType>(updates.getElementType()))
    return emitOpError("updates have element type ")
           << updates.getElementType() << ", expected a float type";
  // S3
  if (failed(verifyRank(*this, "output", out, 2)) ||
      failed(blurt::detail::verifyExtent(*this, "output", 1, out.getDimSize(1),
                                         updates.getDimSize(1))) ||
      failed(verifyElement(*this, "output", out, updates.getElementType())))
    return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// CacheUpdateOp
//===----------------------------------------------------------------------===//

void CacheUpdateOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  blurt::detail::addDestinationEffects(*this, getOutsMutable(), true, effects);
}

LogicalResult CacheUpdateOp::verify() {
  if (failed(blurt::detail::verifyForm(*this, getOuts(), 1)))
    return failure();
  auto cache = cast<ShapedType>(getCache().getType());
  auto rows = cast<ShapedType>(getRows().getType());
  // U1
  if (cache.getRank() < 2)
    return emitOpError("cache has rank ")
           << cache.getRank() << ", expected at least 2";
  if (failed(verifyRank(*this, "rows", rows, cache.getRank())) ||
      failed(verifyElement(*this, "rows", rows, cache.getElementType())))
    return failure();
  for (int64_t dim = 0; dim < cache.getRank(); ++dim) {
    int64_t found = rows.getDimSize(dim), expected = cache.getDimSize(dim);
    if (dim == 1 && found > expected)
      return emitOpError("rows dim 1 is ")
             << found << ", expected at most " << expected;
    if (dim != 1 && failed(blurt::detail::verifyExtent(*this, "rows", dim,
                                                       found, expected)))
      return failure();
  }
  // U2
  if (failed(verifyPosition(*this, cast<ShapedType>(getPosition().getType()))))
    return failure();
  // U3
  if (!getOuts().empty() && getOuts()[0] != getCache())
    return emitOpError("out is not the cache, which is updated in place");
  if (getOuts().empty() && getResult(0).getType() != cache)
    return emitOpError("result is ")
           << getResult(0).getType() << ", expected " << cache;
  return success();
}
