//===- BlurtDialect.cpp - the execution dialect ---------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blurt/BlurtDialect.h"
#include "Blurt/Collective.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::blurt;

#include "Blurt/BlurtDialect.cpp.inc"
#include "Blurt/BlurtEnums.cpp.inc"

#define GET_OP_CLASSES
#include "Blurt/BlurtOps.cpp.inc"

void BlurtDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "Blurt/BlurtOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Blurt/BlurtCollectiveOps.cpp.inc"
      >();
}

int64_t mlir::blurt::getElementBytes(Type type) {
  if (isa<IndexType>(type))
    return 8;
  return llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
}

FailureOr<int64_t> mlir::blurt::getSpanBytes(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset;
  if (!type.hasStaticShape() ||
      failed(type.getStridesAndOffset(strides, offset)) ||
      llvm::any_of(strides, ShapedType::isDynamic) ||
      ShapedType::isDynamic(offset))
    return failure();
  int64_t last = offset;
  for (auto [extent, stride] : llvm::zip_equal(type.getShape(), strides)) {
    if (extent == 0)
      return int64_t(0);
    last += (extent - 1) * stride;
  }
  return (last + 1) * getElementBytes(type.getElementType());
}

void blurt::detail::addDestinationEffects(
    Operation *op, MutableOperandRange outs, bool readsOuts,
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  OperandRange outRange = outs;
  unsigned begin =
      outRange.empty() ? op->getNumOperands() : outRange.getBeginOperandIndex();
  unsigned end = begin + outRange.size();
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<BaseMemRefType>(operand.get().getType()))
      continue;
    bool isOut =
        operand.getOperandNumber() >= begin && operand.getOperandNumber() < end;
    if (!isOut || readsOuts)
      effects.emplace_back(MemoryEffects::Read::get(), &operand,
                           SideEffects::DefaultResource::get());
    if (isOut)
      effects.emplace_back(MemoryEffects::Write::get(), &operand,
                           SideEffects::DefaultResource::get());
  }
}

LogicalResult blurt::detail::verifyForm(Operation *op, OperandRange outs,
                                        unsigned count) {
  if (outs.empty()) {
    if (op->getNumResults() != count)
      return op->emitOpError("has ")
             << op->getNumResults() << " results and no outs, expected "
             << count << " of either";
    for (Value operand : op->getOperands())
      if (isa<BaseMemRefType>(operand.getType()))
        return op->emitOpError(
            "mixes a memref operand with the tensor form (no outs)");
    return success();
  }
  if (op->getNumResults() != 0)
    return op->emitOpError("has results besides outs");
  if (outs.size() != count)
    return op->emitOpError("has ")
           << outs.size() << " outs, expected " << count;
  for (Value operand : op->getOperands())
    if (isa<TensorType>(operand.getType()))
      return op->emitOpError(
          "mixes a tensor operand with the memref form (outs)");
  return success();
}

LogicalResult blurt::detail::verifyExtent(Operation *op, const Twine &what,
                                          unsigned dim, int64_t found,
                                          int64_t expected) {
  if (found == expected)
    return success();
  return op->emitOpError() << what << " dim " << dim << " is " << found
                           << ", expected " << expected;
}
