//===- CollectiveOps.td - between the devices of a mesh ----*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_COLLECTIVE_OPS_TD
#define BLURT_COLLECTIVE_OPS_TD

include "BlurtDialect.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Blurt_CollectiveOp : Blurt_Op<"collective", [
    AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "what all devices along an axis of the mesh do together";
  let description = [{
    `kind` is `reduce_scatter`, `all_gather` or `local_shard`, each as the op of
    `blu` of that name says; `size` devices take part, those that differ in their
    place along `axis` alone. A piece is of rank 1, or of rank 2 where every
    element along dim 0 is cut on its own. All values go in one call.

    Every rank's program has the same collectives in the same order; the runtime
    compares a digest of them before the first.

    With `async` what follows does not wait for it, in the order of the program:
    collectives take their turns among themselves, beside everything else. In
    tensor form this only allows it; in memref form `ticket` is the number that
    `blurt.wait` takes, and until then nothing may write what it reads or touch
    what it writes.

    Constraints:
    - L1: `kind` is one of the three; size is at least 2.
    - L2: there is an output for every input, of its element type, a float type.
    - L3: pieces have the ⌈n/size⌉ elements of a value of n.
    - L4 (memref form): operands and outs are row-major, without gaps.
    - L5: an asynchronous one is no `local_shard`; `ticket` is there in memref
      form only, and only with `async`.
  }];
  let arguments = (ins StrAttr:$kind, StrAttr:$axis, I64Attr:$size,
                       UnitAttr:$async, OptionalAttr<I64Attr>:$ticket,
                       Variadic<Blurt_Shaped>:$inputs,
                       Variadic<AnyStridedMemRef>:$outs);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $kind (`async` $async^)? (`ticket` $ticket^)? $inputs (`into` $outs^)?
    `axis` `=` $axis `size` `=` $size attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// What is moved of one value: `batch` times `count` elements, of which a
    /// device has a piece of `piece` each.
    struct Transfer {
      int64_t batch, count, piece;
    };
    Transfer getTransfer(unsigned i);
    /// The types of what is written, outs or results.
    ::mlir::TypeRange getOutputTypes();
    /// Bytes that a device sends to each other one.
    int64_t getPieceBytes();
  }];
}

def Blurt_WaitOp : Blurt_Op<"wait"> {
  let summary = "what follows comes after an asynchronous collective (plan stage)";
  let description = [{
    Until here the collective with this `ticket` may be under way; if it is not,
    nothing is waited for. `blurt-plan` puts these where bytes are touched next.

    Constraints:
    - L1: the ticket is not negative.

    Example: %s is read when the collective that writes it is over:
    ```mlir
    blurt.collective "reduce_scatter" async ticket 0 %g into %s axis = "dp" size = 2 : (memref<8xf32>, memref<4xf32>) -> ()
    blurt.wait 0
    ```
  }];
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$ticket);
  let assemblyFormat = "$ticket attr-dict";
}

#endif // BLURT_COLLECTIVE_OPS_TD
