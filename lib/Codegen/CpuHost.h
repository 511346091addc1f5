//===- CpuHost.h - the host side of programs for the CPU ------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_CPUHOST_H
#define BLUTRAIN_LIB_CODEGEN_CPUHOST_H

#include "HostEmitter.h"
#include "KernelBuilder.h"

#include "llvm/ADT/StringMap.h"

namespace mlir::blurt {

/// A kernel and how to launch it.
struct Kernel {
  LLVM::LLVMFuncOp function;
  int64_t tasks = 0;
  int64_t grain = 1;
};

/// Launches on the thread pool and calls of the library. Kernels of the same
/// key are emitted once.
class CpuHost : public HostEmitter {
public:
  using HostEmitter::HostEmitter;

  /// The kernel of `key`, made by `emit` with a name derived from `name` if it
  /// is new.
  const Kernel &
  getKernel(StringRef key, StringRef name, Location loc,
            llvm::function_ref<void(KernelBuilder &, Kernel &)> emit);
  /// Runs all tasks of `kernel` over the memrefs `operands`.
  void launch(OpBuilder &builder, Location loc, const Kernel &kernel,
              ValueRange operands);
  unsigned getNumKernels() const { return kernels.size(); }
  unsigned getNumGroups() const { return numGroups; }

protected:
  LogicalResult emit(Operation *op) override;
  void emitStore(OpBuilder &builder, Location loc, Value value,
                 Value pointer) override;

private:
  llvm::StringMap<Kernel> kernels;
  unsigned numGroups = 0;
};

/// Emitters of single ops; each returns failure after a located error.
LogicalResult emitGroup(GroupOp op, CpuHost &host);
LogicalResult emitGemm(GemmOp op, CpuHost &host);
LogicalResult emitScatterAdd(ScatterAddOp op, CpuHost &host);
LogicalResult emitCacheUpdate(CacheUpdateOp op, CpuHost &host);
LogicalResult emitAttention(AttentionOp op, CpuHost &host);
LogicalResult emitAttentionGrad(AttentionGradOp op, CpuHost &host);

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_CPUHOST_H
