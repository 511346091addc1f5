//===- HostEmitter.cpp - calls from entries to kernels --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "HostEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::blurt;

LLVM::LLVMFuncOp blurt::declareFunction(ModuleOp module, StringRef name,
                                        TypeRange operands, Type result) {
  if (auto existing = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return existing;
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  if (!result)
    result = LLVM::LLVMVoidType::get(module.getContext());
  return LLVM::LLVMFuncOp::create(
      builder, module.getLoc(), name,
      LLVM::LLVMFunctionType::get(result, llvm::to_vector(operands)));
}

std::string blurt::getStructureKey(Operation *op) {
  std::string key;
  llvm::raw_string_ostream os(key);
  DenseMap<Value, unsigned> numbers;
  auto printOp = [&](Operation *op, bool isRoot) {
    os << op->getName() << '{';
    for (NamedAttribute attr : DictionaryAttr::get(
             op->getContext(),
             op->getPropertiesAsAttribute()
                 ? cast<DictionaryAttr>(op->getPropertiesAsAttribute())
                       .getValue()
                 : ArrayRef<NamedAttribute>()))
      if (!isRoot || attr.getName() != "kernel")
        os << attr.getName().getValue() << '=' << attr.getValue() << ',';
    os << '}';
    for (Value operand : op->getOperands()) {
      if (isRoot)
        os << ' ' << operand.getType();
      else
        os << " %" << numbers.lookup(operand);
    }
    os << "->";
    for (Value result : op->getResults()) {
      os << ' ' << result.getType();
      numbers[result] = numbers.size();
    }
    os << '\n';
  };
  printOp(op, true);
  for (Region &region : op->getRegions())
    for (Block &block : region) {
      for (BlockArgument argument : block.getArguments())
        numbers[argument] = numbers.size();
      for (Operation &inner : block)
        printOp(&inner, false);
    }
  return key;
}

void HostEmitter::enter(Value newContext, Block *newEntry) {
  context = newContext;
  entry = newEntry;
  arguments = nullptr;
  numArguments = 0;
}

const Kernel &HostEmitter::getKernel(
    StringRef key, StringRef name, Location loc,
    llvm::function_ref<void(KernelBuilder &, Kernel &)> emit) {
  auto [it, isNew] = kernels.try_emplace(key);
  if (!isNew)
    return it->second;
  std::string symbol = "kernel_";
  for (char c : name)
    symbol += llvm::isAlnum(c) ? c : '_';
  symbol += "_" + std::to_string(kernels.size() - 1);
  KernelBuilder builder(module, loc, symbol);
  it->second.function = builder.getKernel();
  emit(builder, it->second);
  return it->second;
}

void HostEmitter::launch(OpBuilder &builder, Location loc, const Kernel &kernel,
                         ValueRange operands) {
  ImplicitLocOpBuilder b(loc, builder);
  auto ptr = LLVM::LLVMPointerType::get(b.getContext());
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
  };
  if (int64_t(operands.size()) > numArguments || !arguments) {
    // One array serves all launches of the function, each of which is over
    // before the next begins.
    numArguments = std::max<int64_t>(operands.size(), numArguments);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(entry);
    Value size = constant(numArguments);
    if (arguments) {
      arguments.getArraySizeMutable().assign(size);
      arguments->moveAfter(size.getDefiningOp());
    } else {
      arguments = LLVM::AllocaOp::create(b, ptr, ptr, size, 64);
    }
  }
  for (auto [i, operand] : llvm::enumerate(operands)) {
    Value slot = LLVM::GEPOp::create(b, ptr, ptr, arguments,
                                     ArrayRef<LLVM::GEPArg>{int32_t(i)});
    LLVM::StoreOp::create(b, getPointer(operand), slot, 8);
  }
  if (kernel.tasks <= kernel.grain) {
    LLVM::CallOp::create(
        b, kernel.function,
        ValueRange{arguments, constant(0), constant(kernel.tasks)});
    return;
  }
  LLVM::LLVMFuncOp parallel =
      declareFunction(module, "blurt_parallel",
                      {ptr, ptr, ptr, b.getI64Type(), b.getI64Type()});
  Value address = LLVM::AddressOfOp::create(b, kernel.function);
  LLVM::CallOp::create(b, parallel,
                       ValueRange{context, address, arguments,
                                  constant(kernel.tasks),
                                  constant(kernel.grain)});
}

void HostEmitter::call(OpBuilder &builder, Location loc, StringRef callee,
                       ValueRange operands) {
  SmallVector<Value> all{context};
  llvm::append_range(all, operands);
  LLVM::LLVMFuncOp function =
      declareFunction(module, callee, ValueRange(all).getTypes());
  LLVM::CallOp::create(builder, loc, function, all);
}
