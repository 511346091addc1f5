//===- CollectiveOps.cpp - between the devices of a mesh --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blurt/Collective.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::blurt;

#define GET_OP_CLASSES
#include "Blurt/BlurtCollectiveOps.cpp.inc"

TypeRange CollectiveOp::getOutputTypes() {
  return getOuts().empty() ? TypeRange(getResultTypes())
                           : TypeRange(getOuts().getTypes());
}

CollectiveOp::Transfer CollectiveOp::getTransfer(unsigned i) {
  auto whole = cast<ShapedType>(getInputs()[i].getType());
  auto piece = cast<ShapedType>(getOutputTypes()[i]);
  if (getKind() == "all_gather")
    std::swap(whole, piece);
  int64_t batch = piece.getRank() == 2 ? piece.getDimSize(0) : 1;
  int64_t rows = std::max<int64_t>(batch, 1);
  return {batch, whole.getNumElements() / rows, piece.getNumElements() / rows};
}

int64_t CollectiveOp::getPieceBytes() {
  int64_t bytes = 0;
  for (unsigned i = 0, e = getInputs().size(); i < e; ++i) {
    Transfer transfer = getTransfer(i);
    bytes += transfer.batch * transfer.piece *
             getElementBytes(getElementTypeOrSelf(getInputs()[i].getType()));
  }
  return bytes;
}

void CollectiveOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  blurt::detail::addDestinationEffects(*this, getOutsMutable(), false, effects);
}

LogicalResult CollectiveOp::verify() {
  if (failed(blurt::detail::verifyForm(*this, getOuts(), getInputs().size())))
    return failure();
  // L1
  if (getKind() != "reduce_scatter" && getKind() != "all_gather" &&
      getKind() != "local_shard")
    return emitOpError("is of kind '")
           << getKind()
           << "', expected reduce_scatter, all_gather or local_shard";
  if (getSize() < 2)
    return emitOpError("has size ") << getSize() << ", expected at least 2";
  // L5
  if (getAsync() && getKind() == "local_shard")
    return emitOpError("is an asynchronous local_shard, which sends nothing");
  if (getTicket() && (!getAsync() || getOuts().empty()))
    return emitOpError("has a ticket, expected none but on asynchronous "
                       "collectives in memref form");
  for (unsigned i = 0, e = getInputs().size(); i < e; ++i) {
    auto input = cast<ShapedType>(getInputs()[i].getType());
    auto output = cast<ShapedType>(getOutputTypes()[i]);
    // L2
    if (!isa<FloatType>(input.getElementType()) ||
        output.getElementType() != input.getElementType())
      return emitOpError("input ")
             << i << " is " << input << " and output " << output
             << ", expected one float element type";
    // L3
    auto piece = getKind() == "all_gather" ? input : output;
    auto whole = getKind() == "all_gather" ? output : input;
    bool isBatched = piece.getRank() == 2;
    if ((piece.getRank() != 1 && !isBatched) ||
        (isBatched &&
         (whole.getRank() < 1 || whole.getDimSize(0) != piece.getDimSize(0))))
      return emitOpError("piece ")
             << i << " is " << piece << ", expected one of " << whole;
    Transfer transfer = getTransfer(i);
    auto size = int64_t(getSize());
    if (transfer.piece != (transfer.count + size - 1) / size)
      return emitOpError("piece ")
             << i << " has " << transfer.piece << " elements, expected "
             << (transfer.count + size - 1) / size;
    // L4
    for (ShapedType type : {input, output})
      if (auto memref = dyn_cast<MemRefType>(type);
          memref && !memref.areTrailingDimsContiguous(memref.getRank()))
        return emitOpError("operand is ")
               << memref << ", expected rows without gaps";
  }
  return success();
}
