//===- Device.h - device kernels to machine code --------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_CODEGEN_DEVICE_H
#define BLUTRAIN_CODEGEN_DEVICE_H

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace mlir::blurt {

/// One `sm_NN` or `sm_NNa`.
struct DeviceArch {
  int32_t number = 0;    ///< 90 for `sm_90a`
  bool specific = false; ///< the `a`

  static FailureOr<DeviceArch> parse(StringRef name);
  std::string str() const {
    return "sm_" + std::to_string(number) + (specific ? "a" : "");
  }
};

/// What is needed of the CUDA toolkit.
struct DeviceTools {
  std::string ptxas;
  std::string libdevice; ///< libdevice.10.bc

  /// Looks in `folder` if it is given, else in CUDA_HOME, CUDA_PATH, beside the
  /// `ptxas` of PATH, and where toolkits are usually installed. Says what is
  /// missing and where it was looked for in `message`.
  static FailureOr<DeviceTools> find(StringRef folder, std::string &message);
};

/// What ptxas reports of one kernel, in bytes and registers.
struct KernelResources {
  std::string kernel;
  int64_t registers = 0, stack = 0, spillStores = 0, spillLoads = 0;
  int64_t shared = 0; ///< static shared memory
  /// What it says of asynchronous products that it had to wait for at once.
  std::vector<std::string> warnings;
};

/// Translates `kernels`, a module of the llvm and nvvm dialects, to PTX.
FailureOr<std::string> translateToPtx(ModuleOp kernels, DeviceArch arch,
                                      const DeviceTools &tools);

/// Assembles PTX; fills `resources` with one entry for each kernel.
FailureOr<std::string> assemblePtx(Location loc, StringRef ptx, DeviceArch arch,
                                   const DeviceTools &tools,
                                   std::vector<KernelResources> &resources);

} // namespace mlir::blurt

#endif // BLUTRAIN_CODEGEN_DEVICE_H
