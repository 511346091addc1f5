//===- Object.h - host code to object file and executable -----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_CODEGEN_OBJECT_H
#define BLUTRAIN_CODEGEN_OBJECT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace mlir::blurt {

/// The CPU that code is generated for.
struct CpuTarget {
  std::string triple;
  std::string cpu;      ///< as of `clang -mcpu`
  std::string features; ///< "+avx2,-fma4"
  /// 0 … 3, as of `clang -O`.
  unsigned optLevel = 3;

  /// This machine: `cpu` "native" or empty means its CPU with all its
  /// features, another name that CPU with only `features`.
  static CpuTarget host(StringRef cpu = "native", StringRef features = "");
};

/// What to write besides the object.
struct ObjectOptions {
  llvm::raw_ostream *llvmIR = nullptr; ///< optimised LLVM IR
  llvm::raw_pwrite_stream *assembly = nullptr;
};

/// Translates `module`, in the LLVM dialect, optimises it for `target` and
/// writes an object file. Floating point is never contracted or reassociated.
/// Errors are reported at the module's location.
LogicalResult emitObject(ModuleOp module, const CpuTarget &target,
                         llvm::raw_pwrite_stream &os,
                         const ObjectOptions &options = {});

struct LinkOptions {
  /// Folder of `libblurt.a` and `blurt-link-flags.txt`; if empty they are
  /// looked for in `../lib` and `lib` beside the running executable.
  std::string runtimeFolder;
  /// The C++ driver that links, `c++` if empty.
  std::string linker;
};

/// Links the object with the runtime into an executable. Writes what went
/// wrong, and the command that failed, to `errors`.
LogicalResult linkExecutable(StringRef objectPath, StringRef outPath,
                             const LinkOptions &options,
                             llvm::raw_ostream &errors);

} // namespace mlir::blurt

#endif // BLUTRAIN_CODEGEN_OBJECT_H
