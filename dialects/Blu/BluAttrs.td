//===- BluAttrs.td - initialisers and small enums ----------*- tablegen -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_ATTRS_TD
#define BLU_ATTRS_TD

include "BluBase.td"

//===----------------------------------------------------------------------===//
// Initialisers
//===----------------------------------------------------------------------===//

// Numbers are f64 and written without their type.
class Blu_Attr<string name, string mnemo> : AttrDef<Blu_Dialect, name> {
  let mnemonic = mnemo;
}

def Blu_ZerosAttr : Blu_Attr<"Zeros", "zeros"> {
  let summary = "every element is 0";
}
def Blu_OnesAttr : Blu_Attr<"Ones", "ones"> {
  let summary = "every element is 1";
}
def Blu_FillAttr : Blu_Attr<"Fill", "fill"> {
  let summary = "every element is the given value";
  let parameters = (ins "::mlir::FloatAttr":$value);
  let assemblyFormat = "`<` custom<F64>($value) `>`";
}
def Blu_NormalAttr : Blu_Attr<"Normal", "normal"> {
  let summary = "normally distributed with mean and standard deviation";
  let parameters = (ins "::mlir::FloatAttr":$mean, "::mlir::FloatAttr":$std);
  let assemblyFormat = "`<` custom<F64>($mean) `,` custom<F64>($std) `>`";
  let genVerifyDecl = 1;
}
def Blu_UniformAttr : Blu_Attr<"Uniform", "uniform"> {
  let summary = "uniformly distributed in [low, high)";
  let parameters = (ins "::mlir::FloatAttr":$low, "::mlir::FloatAttr":$high);
  let assemblyFormat = "`<` custom<F64>($low) `,` custom<F64>($high) `>`";
  let genVerifyDecl = 1;
}

def Blu_InitAttr : AnyAttrOf<[Blu_ZerosAttr, Blu_OnesAttr, Blu_FillAttr,
                              Blu_NormalAttr, Blu_UniformAttr],
    "#blu.zeros, #blu.ones, #blu.fill, #blu.normal or #blu.uniform">;

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

class Blu_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::blu";
}

def Blu_GeluKind : Blu_Enum<"GeluKind", "which GELU", [
    I32EnumAttrCase<"Tanh", 0, "tanh">, I32EnumAttrCase<"Erf", 1, "erf">]>;

def Blu_LossReduction : Blu_Enum<"LossReduction", "how losses are combined", [
    I32EnumAttrCase<"Mean", 0, "mean">, I32EnumAttrCase<"Sum", 1, "sum">,
    I32EnumAttrCase<"None", 2, "none">]>;

def Blu_ComparePredicate : Blu_Enum<"ComparePredicate", "comparison", [
    I32EnumAttrCase<"EQ", 0, "eq">, I32EnumAttrCase<"NE", 1, "ne">,
    I32EnumAttrCase<"LT", 2, "lt">, I32EnumAttrCase<"LE", 3, "le">,
    I32EnumAttrCase<"GT", 4, "gt">, I32EnumAttrCase<"GE", 5, "ge">]>;

def Blu_Program : Blu_Enum<"Program", "which program of the executable", [
    I32EnumAttrCase<"Train", 0, "train">, I32EnumAttrCase<"Eval", 1, "eval">,
    I32EnumAttrCase<"Prefill", 2, "prefill">,
    I32EnumAttrCase<"Decode", 3, "decode">, I32EnumAttrCase<"Vjp", 4, "vjp">]>;

#endif // BLU_ATTRS_TD
