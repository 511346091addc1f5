//===- HostEmitter.h - calls from entries to kernels ----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_HOSTEMITTER_H
#define BLUTRAIN_LIB_CODEGEN_HOSTEMITTER_H

#include "Blurt/BlurtDialect.h"
#include "KernelBuilder.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::blurt {

/// A kernel and how to launch it.
struct Kernel {
  LLVM::LLVMFuncOp function;
  int64_t tasks = 0;
  int64_t grain = 1;
};

/// Emits the host side of one module: launches, calls and the addresses of
/// memrefs. Kernels of the same key are emitted once.
class HostEmitter {
public:
  explicit HostEmitter(ModuleOp module) : module(module) {}

  /// Starts a function: its context, and where its stack slots go.
  void enter(Value context, Block *entry);
  void setPointer(Value memref, Value pointer) { pointers[memref] = pointer; }
  Value getPointer(Value memref) const { return pointers.lookup(memref); }

  /// The kernel of `key`, made by `emit` with a name derived from `name` if it
  /// is new.
  const Kernel &
  getKernel(StringRef key, StringRef name, Location loc,
            llvm::function_ref<void(KernelBuilder &, Kernel &)> emit);
  /// Runs all tasks of `kernel` over the memrefs `operands`.
  void launch(OpBuilder &builder, Location loc, const Kernel &kernel,
              ValueRange operands);
  void call(OpBuilder &builder, Location loc, StringRef callee,
            ValueRange operands);
  unsigned getNumKernels() const { return kernels.size(); }

private:
  ModuleOp module;
  Value context;
  Block *entry = nullptr;
  LLVM::AllocaOp arguments;
  int64_t numArguments = 0;
  DenseMap<Value, Value> pointers;
  llvm::StringMap<Kernel> kernels;
};

/// Declares `name` unless it exists.
LLVM::LLVMFuncOp declareFunction(ModuleOp module, StringRef name,
                                 TypeRange operands, Type result = {});

/// A key under which operations with the same kernel meet: name, attributes
/// (without `kernel`), operand types and body.
std::string getStructureKey(Operation *op);

/// Emitters of single ops; each returns failure after a located error.
LogicalResult emitGroup(GroupOp op, HostEmitter &host);
LogicalResult emitGemm(GemmOp op, HostEmitter &host);
LogicalResult emitScatterAdd(ScatterAddOp op, HostEmitter &host);
LogicalResult emitCacheUpdate(CacheUpdateOp op, HostEmitter &host);
LogicalResult emitAttention(AttentionOp op, HostEmitter &host);
LogicalResult emitAttentionGrad(AttentionGradOp op, HostEmitter &host);

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_HOSTEMITTER_H
