//===- DeviceHarness.h - device kernels to assembly -----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_TEST_UNIT_COMPILER_DEVICEHARNESS_H
#define BLUTRAIN_TEST_UNIT_COMPILER_DEVICEHARNESS_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace mlir::blurt::test {

/// What ptxas says of a kernel.
struct DeviceReport {
  std::string kernel;
  int registers = 0, stackBytes = 0, spillBytes = 0;
  std::string warning; ///< of products that had to wait for each other
};

/// Holds a `gpu.module` for kernels, and translates it.
class DeviceHarness {
public:
  DeviceHarness();

  MLIRContext &context() { return ctx; }
  gpu::GPUModuleOp gpuModule() { return device; }
  /// PTX for `chip`; empty, with the diagnostics printed, if that fails. The
  /// module itself stays as it is.
  std::string translate(llvm::StringRef chip);

  /// The path of ptxas, empty if there is none.
  static std::string findAssembler();
  /// Assembles `ptx` for `chip` into the file `cubin`; empty if that fails.
  static std::vector<DeviceReport>
  assemble(llvm::StringRef ptx, llvm::StringRef chip, llvm::StringRef cubin);

private:
  MLIRContext ctx;
  OwningOpRef<ModuleOp> module;
  gpu::GPUModuleOp device;
};

} // namespace mlir::blurt::test

#endif // BLUTRAIN_TEST_UNIT_COMPILER_DEVICEHARNESS_H
