//===- CudaHost.h - the host side of programs for CUDA --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Kernels go into the gpu.module `kernels`, products into a table; the host
// function queues them by number. The tables become the module's attribute
// `blurt.device`, from which the program table is written.
//
// A kernel may have another form for an architecture, under the same symbol and
// number and over the same operands, with a launch of its own: those for sm_90a
// are in `kernels_sm_90a`.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_CUDA_CUDAHOST_H
#define BLUTRAIN_LIB_CODEGEN_CUDA_CUDAHOST_H

#include "DeviceBuilder.h"
#include "HostEmitter.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::blurt {

class CudaHost : public HostEmitter {
public:
  /// The architectures that a program is for.
  struct Archs {
    bool hopper = false; ///< sm_90a
    bool others = true;
  };
  /// The workspace is `workspaceBytes` of the arena from `workspaceOffset`.
  CudaHost(ModuleOp module, int64_t workspaceOffset, int64_t workspaceBytes,
           Archs archs);
  /// What kernels count is at `offset` of the arena.
  void setCounters(int64_t offset) { countersOffset = offset; }

  gpu::GPUModuleOp getKernels() { return kernels; }
  gpu::GPUModuleOp getHopperKernels() { return hopperKernels; }
  int64_t getWorkspaceBytes() const { return workspaceBytes; }

  /// The number of the kernel of `key`. If it is new, `emit` makes a function
  /// of `numArguments` addresses under the symbol it is given, and says how it
  /// is launched. `emitForHopper` does so for sm_90a, if it is not null.
  int32_t
  getKernel(StringRef key, StringRef name, Operation *op, unsigned numArguments,
            llvm::function_ref<DeviceLaunch(StringRef)> emit,
            llvm::function_ref<DeviceLaunch(StringRef)> emitForHopper = {});
  /// Queues `kernel` over `operands`, memrefs or addresses.
  void launch(OpBuilder &builder, Location loc, int32_t kernel,
              ValueRange operands);
  /// The number of the product described by `fields` of blurt_device_gemm.
  int32_t getGemm(Operation *op, ArrayRef<NamedAttribute> fields);

  const Archs &getArchs() const { return archs; }
  /// The address of what kernels count, null if the plan has no place for it.
  Value getCounters(OpBuilder &builder, Location loc);
  /// The address of byte `offset` of the workspace.
  Value getWorkspace(OpBuilder &builder, Location loc, int64_t offset = 0);
  /// The largest power of two, up to 256, that divides its address.
  int64_t getWorkspaceAlignment() const {
    return llvm::MinAlign(256, workspaceOffset);
  }
  /// The largest power of two, up to 256, that divides the address of `memref`
  /// in every iteration of the loops around it.
  int64_t getAlignment(Value memref);

  /// Writes `blurt.device`; the gpu.module goes if it is empty.
  void finish();

  unsigned getNumKernels() const { return kernelAttrs.size(); }
  unsigned getNumGroups() const { return numGroups; }

protected:
  LogicalResult emit(Operation *op) override;
  void emitStore(OpBuilder &builder, Location loc, Value value,
                 Value pointer) override;

private:
  gpu::GPUModuleOp kernels, hopperKernels;
  int64_t workspaceOffset, workspaceBytes;
  std::optional<int64_t> countersOffset;
  Archs archs;
  llvm::StringMap<int32_t> kernelNumbers;
  SmallVector<Attribute> kernelAttrs, hopperAttrs, gemmAttrs;
  llvm::MapVector<Attribute, int32_t> gemmNumbers;
  unsigned numGroups = 0;
};

/// Bytes of the elements of `operands`, memrefs, each once.
int64_t getOperandBytes(ValueRange operands);

/// Emitters of single ops; each returns failure after a located error.
LogicalResult emitGroup(GroupOp op, CudaHost &host);
LogicalResult emitGemm(GemmOp op, CudaHost &host);
/// A product in pieces, which is generated.
LogicalResult emitSplitGemm(GemmOp op, CudaHost &host);
LogicalResult emitScatterAdd(ScatterAddOp op, CudaHost &host);
LogicalResult emitCacheUpdate(CacheUpdateOp op, CudaHost &host);
LogicalResult emitAttention(AttentionOp op, CudaHost &host);
LogicalResult emitAttentionGrad(AttentionGradOp op, CudaHost &host);

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_CUDA_CUDAHOST_H
