//===- Blu.h - the modelling dialect ----------------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Everything a pass needs to work on `blu`: the dialect, its attributes,
// interfaces and ops. Descriptions are in the .td files of the op families.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_BLU_H
#define BLU_BLU_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/BitVector.h"

#include "Blu/BluDialect.h.inc"
#include "Blu/BluEnums.h.inc"
#include "Blu/BluInterfaces.h.inc"

namespace mlir::blu {

/// Fails after one diagnostic unless `op` has the result types that its
/// inference gives.
LogicalResult verifyInferredTypes(Operation *op);

/// Checks inferred types before the interface does, which would report a fault
/// twice and without saying which result it is.
template <typename ConcreteOp>
class InferredTypes : public OpTrait::TraitBase<ConcreteOp, InferredTypes> {
public:
  static LogicalResult verifyTrait(Operation *op) {
    return verifyInferredTypes(op);
  }
};

} // namespace mlir::blu

#define GET_ATTRDEF_CLASSES
#include "Blu/BluAttrs.h.inc"

#define GET_OP_CLASSES
#include "Blu/BluOps.h.inc"

#endif // BLU_BLU_H
