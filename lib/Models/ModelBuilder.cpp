//===- ModelBuilder.cpp - what the builders of models share ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "ModelBuilder.h"

using namespace mlir;
using namespace blutrain;

static DictionaryAttr nameAttr(Builder &b, StringRef name) {
  return b.getDictionaryAttr(b.getNamedAttr("blu.name", b.getStringAttr(name)));
}

ModelBuilder::ModelBuilder(MLIRContext &context, StringRef name,
                           ArrayRef<NamedType> arguments)
    : ImplicitLocOpBuilder(UnknownLoc::get(&context), &context) {
  context.loadDialect<blu::BluDialect>();
  module = ModuleOp::create(getLoc());
  setInsertionPointToStart(module->getBody());
  SmallVector<Type> types;
  SmallVector<Attribute> attrs;
  for (const NamedType &argument : arguments) {
    types.push_back(argument.type);
    attrs.push_back(nameAttr(*this, argument.name));
  }
  model = blu::ModelOp::create(*this, name, getFunctionType(types, {}),
                               getArrayAttr(attrs), /*res_attrs=*/nullptr);
  Block *block = createBlock(&model.getBody());
  for (Type type : types)
    block->addArgument(type, getLoc());
}

llvm::Expected<OwningOpRef<ModuleOp>>
ModelBuilder::finish(ArrayRef<NamedValue> results) {
  SmallVector<Value> values;
  SmallVector<Type> types;
  SmallVector<Attribute> attrs;
  for (const NamedValue &result : results) {
    values.push_back(result.value);
    types.push_back(result.value.getType());
    attrs.push_back(nameAttr(*this, result.name));
  }
  blu::ReturnOp::create(*this, values);
  model.setFunctionType(
      getFunctionType(model.getFunctionType().getInputs(), types));
  model.setResAttrsAttr(getArrayAttr(attrs));
  if (failed(verify(*module)))
    return llvm::createStringError("model '%s' does not verify",
                                   model.getSymName().str().c_str());
  return std::move(module);
}

Value ModelBuilder::param(StringRef name, ArrayRef<int64_t> shape,
                          Attribute init, StringRef exportName,
                          bool transpose) {
  return blu::ParamOp::create(*this, f32Tensor(shape), name, init,
                              getStringAttr(exportName), transpose,
                              /*decay=*/false, /*no_decay=*/false);
}

Attribute ModelBuilder::zeros() { return blu::ZerosAttr::get(getContext()); }
Attribute ModelBuilder::ones() { return blu::OnesAttr::get(getContext()); }
Attribute ModelBuilder::normal(double std) {
  return blu::NormalAttr::get(getContext(), getF64FloatAttr(0.0),
                              getF64FloatAttr(std));
}

RankedTensorType ModelBuilder::f32Tensor(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, getF32Type());
}
RankedTensorType ModelBuilder::i32Tensor(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, getI32Type());
}

llvm::Error blutrain::checkPositive(StringRef what, int64_t value) {
  if (value >= 1)
    return llvm::Error::success();
  return llvm::createStringError("expected %s of at least 1, got %lld",
                                 what.str().c_str(),
                                 static_cast<long long>(value));
}
