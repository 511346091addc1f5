//===- BluInterfaces.td - what passes ask of blu ops -------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_INTERFACES_TD
#define BLU_INTERFACES_TD

include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::mlir::blu";
  let description = [{
    How an op is differentiated in reverse mode. The driver
    (`blu-differentiate`) finds out which operands matter, adds up cotangents of
    values that are used several times, and handles stacks and checkpoint
    regions; a rule only says what the cotangents of one op are.

    A rule may use the op's operands and results; whatever it uses the driver
    saves or recomputes. A rule is built from `blu` ops.
  }];
  let methods = [
    InterfaceMethod<[{
        Build the cotangents of the operands. `resultGrads` has one entry a
        result, null where no cotangent reaches it (it is zero); at least one
        is not null. Set `operandGrads[i]` for each `i` with `wanted[i]`, with
        the type of operand `i`; null stands for zero. Fails after a
        diagnostic for a combination that has no rule.
      }],
      "::llvm::LogicalResult", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder,
           "::llvm::ArrayRef<::mlir::Value>":$resultGrads,
           "const ::llvm::BitVector &":$wanted,
           "::llvm::MutableArrayRef<::mlir::Value>":$operandGrads)>
  ];
}

#endif // BLU_INTERFACES_TD
