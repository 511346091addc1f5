//===- BluBase.td - the modelling dialect ------------------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_BASE_TD
#define BLU_BASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "BluInterfaces.td"

def Blu_Dialect : Dialect {
  let name = "blu";
  let cppNamespace = "::mlir::blu";
  let summary = "what a model computes and how it is trained";
  let description = [{
    `blu` is where programs enter the compiler. A model file holds a `blu.model`:
    immutable tensors, training mathematics, parameters, rolled stacks. Before it
    stands only the text that a person or `bt-model` wrote. The `grad` stage turns
    the model into `blu.step`s, the programs of the executable (train, eval,
    prefill, decode), still in `blu`: the backward pass, gradient accumulation,
    clipping and the optimizer are ordinary `blu` ops. After it stands
    [`blurt`](Blurt.md), to which the `fuse` stage converts every op.

    Shapes may have unknown dims (`?`) in a model file; specialisation replaces
    them and every later stage is static.

    Numbers: f64, f32 and bf16 take part in differentiation; i64, i32 and i1 are
    indices, labels and masks. Every op computes as if in real arithmetic followed
    by rounding to the element type, bf16 ops compute in f32; what error that leaves
    is stated in docs/Numerics.md.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

def Blu_Float : AnyTypeOf<[F64, F32, BF16]>;
def Blu_Int : AnyTypeOf<[I64, I32]>;
def Blu_Element : AnyTypeOf<[F64, F32, BF16, I64, I32, I1]>;

def Blu_Tensor : RankedTensorOf<[F64, F32, BF16, I64, I32, I1]>;
def Blu_FloatTensor : RankedTensorOf<[F64, F32, BF16]>;
def Blu_NumberTensor : RankedTensorOf<[F64, F32, BF16, I64, I32]>;
def Blu_IntTensor : RankedTensorOf<[I64, I32]>;
def Blu_BoolTensor : RankedTensorOf<[I1]>;
class Blu_Scalar<string cppGetter, string name>
    : Type<CPred<"$_self == ::mlir::RankedTensorType::get({}, ::mlir::Builder($_self.getContext())." # cppGetter # "())">,
           "rank-0 tensor of " # name, "::mlir::RankedTensorType">,
      BuildableType<"::mlir::RankedTensorType::get({}, $_builder." # cppGetter # "())">;
def Blu_F64Scalar : Blu_Scalar<"getF64Type", "f64">;
def Blu_I64Scalar : Blu_Scalar<"getI64Type", "i64">;
def Blu_BoolScalar : Blu_Scalar<"getI1Type", "i1">;
def Blu_FloatScalar : 0DTensorOf<[F64, F32, BF16]>;

//===----------------------------------------------------------------------===//
// Op classes
//===----------------------------------------------------------------------===//

class Blu_Op<string mnemonic, list<Trait> traits = []>
    : Op<Blu_Dialect, mnemonic, traits>;

def Blu_InferredTypes : NativeOpTrait<"InferredTypes"> {
  let cppNamespace = "::mlir::blu";
}

/// An op without side effects whose result types follow from its operands and
/// attributes.
class Blu_InferredOp<string mnemonic, list<Trait> traits = []>
    : Blu_Op<mnemonic, traits # [Pure, InferTypeOpAdaptor,
                               Blu_InferredTypes]>;

def Blu_Differentiable
    : DeclareOpInterfaceMethods<DifferentiableOpInterface, ["buildGradient"]>;

#endif // BLU_BASE_TD
