//===- Object.cpp - LLVM dialect to object file ---------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Codegen/Object.h"

#include "Optimize.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace mlir;
using namespace mlir::blurt;

CpuTarget CpuTarget::host(StringRef cpu, StringRef features) {
  CpuTarget target;
  target.triple = llvm::sys::getProcessTriple();
  bool native = cpu.empty() || cpu == "native";
  target.cpu = native ? llvm::sys::getHostCPUName().str() : cpu.str();
  SmallVector<std::string> list;
  if (native)
    for (const auto &feature : llvm::sys::getHostCPUFeatures())
      list.push_back((feature.second ? "+" : "-") + feature.first().str());
  // The order of the map is not fixed; the object's bytes should be.
  llvm::sort(list);
  if (!features.empty())
    list.push_back(features.str());
  target.features = llvm::join(list, ",");
  return target;
}

static std::unique_ptr<llvm::TargetMachine>
createMachine(ModuleOp module, const CpuTarget &target) {
  static const bool initialized = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    return true;
  }();
  (void)initialized;
  std::string error;
  llvm::Triple triple(target.triple);
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend) {
    module.emitError("no code generator for ")
        << target.triple << ": " << error;
    return nullptr;
  }
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(
      triple, target.cpu, target.features, options, llvm::Reloc::PIC_,
      std::nullopt,
      target.optLevel >= 2   ? llvm::CodeGenOptLevel::Default
      : target.optLevel == 1 ? llvm::CodeGenOptLevel::Less
                             : llvm::CodeGenOptLevel::None));
  if (!machine)
    module.emitError("cannot create a code generator for ")
        << target.cpu << " of " << target.triple;
  return machine;
}

static LogicalResult writeCode(ModuleOp module, llvm::Module &llvmModule,
                               llvm::TargetMachine &machine,
                               llvm::raw_pwrite_stream &os,
                               llvm::CodeGenFileType kind) {
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, os, nullptr, kind))
    return module.emitError("the code generator cannot write this file type");
  passes.run(llvmModule);
  return success();
}

LogicalResult blurt::emitObject(ModuleOp module, const CpuTarget &target,
                                llvm::raw_pwrite_stream &os,
                                const ObjectOptions &options) {
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(module, target);
  if (!machine)
    return failure();
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      translateModuleToLLVMIR(module, context, "blutrain");
  if (!llvmModule)
    return module.emitError("translation to LLVM IR failed");
  llvmModule->setTargetTriple(machine->getTargetTriple());
  llvmModule->setDataLayout(machine->createDataLayout());
  optimizeModule(*llvmModule, *machine, target.optLevel);
  if (options.llvmIR)
    llvmModule->print(*options.llvmIR, nullptr);
  if (options.assembly) {
    // Code generation changes the module: give the assembly its own.
    auto copy = llvm::CloneModule(*llvmModule);
    if (failed(writeCode(module, *copy, *machine, *options.assembly,
                         llvm::CodeGenFileType::AssemblyFile)))
      return failure();
  }
  return writeCode(module, *llvmModule, *machine, os,
                   llvm::CodeGenFileType::ObjectFile);
}
