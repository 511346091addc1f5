//===- BlurtDialect.td - the execution dialect -------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_DIALECT_TD
#define BLURT_DIALECT_TD

include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"

def Blurt_Dialect : Dialect {
  let name = "blurt";
  let cppNamespace = "::mlir::blurt";
  let summary = "how a training step is executed";
  let description = [{
    `blurt` stands between `blu`, which says what is computed, and loops or GPU
    kernels, which compute it. Code enters at the `fuse` stage as a `func.func`
    over tensors whose body is `blurt.group`s (one kernel's worth of work each),
    library calls (`blurt.gemm`, `blurt.attention`), views and loops. The plan
    stage gives every tensor a place in the arena: the same ops then take
    memrefs, write their `outs` and have no results. Code leaves as kernels
    (`kernel` stage) and host LLVM IR.

    Every op exists in both forms:
    - tensor form: `outs` is empty, results are tensors, no side effects;
    - memref form: there are no results, each would-be result is written to
      the memref in `outs` at the same position.
  }];
  let dependentDialects = [
    "::mlir::affine::AffineDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect"
  ];
}

class Blurt_Op<string mnemonic, list<Trait> traits = []>
    : Op<Blurt_Dialect, mnemonic, traits>;

def Blurt_Shaped : AnyTypeOf<[AnyRankedTensor, AnyStridedMemRef]>;

def Blurt_ReduceKind : I32EnumAttr<"ReduceKind", "how a reduction combines", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::mlir::blurt";
}

#endif // BLURT_DIALECT_TD
