//===- BlurtDialect.h - the execution dialect -----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_BLURTDIALECT_H
#define BLURT_BLURTDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "Blurt/BlurtEnums.h.inc"

#include "Blurt/BlurtDialect.h.inc"

#define GET_OP_CLASSES
#include "Blurt/BlurtOps.h.inc"

namespace mlir::blurt {

/// Bytes that one element of `type` takes in the arena (i1 takes one).
int64_t getElementBytes(Type type);

/// Bytes from the first to past the last element of a static strided memref,
/// or failure if shape or strides are not static.
FailureOr<int64_t> getSpanBytes(MemRefType type);

namespace detail {
/// Adds a read of every memref operand and, for those in `outs`, a write
/// instead (`reads` names outs that are updated in place and so read too).
void addDestinationEffects(
    Operation *op, MutableOperandRange outs, bool readsOuts,
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects);

/// Verifies that the operation is entirely in tensor form (no outs, `count`
/// results) or in memref form (`count` outs, no results, all shaped operands
/// memrefs).
LogicalResult verifyForm(Operation *op, OperandRange outs, unsigned count);

/// "dim 1 is 64, expected 32", or success if the extents agree.
LogicalResult verifyExtent(Operation *op, const Twine &what, unsigned dim,
                           int64_t found, int64_t expected);
} // namespace detail

} // namespace mlir::blurt

#endif // BLURT_BLURTDIALECT_H
