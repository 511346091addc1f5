//===- EmitCpuKernels.cpp - planned ops to kernels and calls --*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "CpuHost.h"

#include "blutrain/Codegen/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace mlir::blurt {
#define GEN_PASS_DEF_BLURTEMITCPUKERNELS
#include "blutrain/Codegen/Passes.h.inc"
} // namespace mlir::blurt

using namespace mlir;
using namespace mlir::blurt;

const Kernel &
CpuHost::getKernel(StringRef key, StringRef name, Location loc,
                   llvm::function_ref<void(KernelBuilder &, Kernel &)> emit) {
  auto [it, isNew] = kernels.try_emplace(key);
  if (!isNew)
    return it->second;
  KernelBuilder builder(getModule(), loc,
                        getSymbolName("kernel", name, kernels.size() - 1));
  it->second.function = builder.getKernel();
  emit(builder, it->second);
  return it->second;
}

void CpuHost::launch(OpBuilder &builder, Location loc, const Kernel &kernel,
                     ValueRange operands) {
  ImplicitLocOpBuilder b(loc, builder);
  auto ptr = LLVM::LLVMPointerType::get(b.getContext());
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
  };
  Value arguments = storeArguments(builder, loc, operands);
  if (kernel.tasks <= kernel.grain) {
    LLVM::CallOp::create(
        b, kernel.function,
        ValueRange{arguments, constant(0), constant(kernel.tasks)});
    return;
  }
  LLVM::LLVMFuncOp parallel =
      declareFunction(getModule(), "blurt_parallel",
                      {ptr, ptr, ptr, b.getI64Type(), b.getI64Type()});
  Value address = LLVM::AddressOfOp::create(b, kernel.function);
  LLVM::CallOp::create(b, parallel,
                       ValueRange{context, address, arguments,
                                  constant(kernel.tasks),
                                  constant(kernel.grain)});
}

LogicalResult CpuHost::emit(Operation *op) {
  numGroups += isa<GroupOp>(op);
  return emitFor(op, *this);
}

void CpuHost::emitStore(OpBuilder &builder, Location loc, Value value,
                        Value pointer) {
  LLVM::StoreOp::create(builder, loc, value, pointer);
}

namespace {
struct EmitCpuKernels : blurt::impl::BlurtEmitCpuKernelsBase<EmitCpuKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    setPlanHash(module);
    CpuHost host(module);
    for (auto function : llvm::to_vector(module.getOps<func::FuncOp>()))
      if (!function.isExternal() && failed(host.convert(function)))
        return signalPassFailure();
    numGroups += host.getNumGroups();
    numKernels += host.getNumKernels();
  }
};
} // namespace
