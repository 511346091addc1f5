//===- DeviceHarness.cpp - device kernels to assembly ---------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "DeviceHarness.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVM/NVVM/Target.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

#include <cstdio>

using namespace mlir;
using namespace mlir::blurt::test;

DeviceHarness::DeviceHarness() {
  DialectRegistry registry;
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, gpu::GPUDialect,
                  LLVM::LLVMDialect, NVVM::NVVMDialect, scf::SCFDialect>();
  arith::registerConvertArithToLLVMInterface(registry);
  cf::registerConvertControlFlowToLLVMInterface(registry);
  NVVM::registerNVVMTargetInterfaceExternalModels(registry);
  gpu::registerOffloadingLLVMTranslationInterfaceExternalModels(registry);
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  ctx.appendDialectRegistry(registry);
  ctx.loadAllAvailableDialects();
  OpBuilder builder(&ctx);
  Location loc = builder.getUnknownLoc();
  module = ModuleOp::create(loc);
  (*module)->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                     builder.getUnitAttr());
  builder.setInsertionPointToEnd(module->getBody());
  device = gpu::GPUModuleOp::create(builder, loc, "kernels");
}

std::string DeviceHarness::translate(StringRef chip) {
  OwningOpRef<ModuleOp> copy = module->clone();
  PassManager manager(&ctx);
  OpPassManager &kernels = manager.nest<gpu::GPUModuleOp>();
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  OpPassManager &rest = manager.nest<gpu::GPUModuleOp>();
  rest.addPass(createConvertNVVMToLLVMPass());
  rest.addPass(createCanonicalizerPass());
  rest.addPass(createCSEPass());
  rest.addPass(createReconcileUnrealizedCastsPass());
  GpuNVVMAttachTargetOptions target;
  target.chip = chip.str();
  target.features = "+ptx80";
  target.optLevel = 3;
  manager.addPass(createGpuNVVMAttachTarget(target));
  GpuModuleToBinaryPassOptions binary;
  binary.compilationTarget = "isa";
  manager.addPass(createGpuModuleToBinaryPass(binary));
  if (failed(manager.run(*copy)))
    return {};
  std::string ptx;
  copy->walk([&](gpu::BinaryOp op) {
    auto object = cast<gpu::ObjectAttr>(op.getObjects()[0]);
    ptx = object.getObject().getValue().rtrim('\0').str();
  });
  return ptx;
}

std::string DeviceHarness::findAssembler() {
  StringRef toolkit("/usr/local/cuda/bin");
  auto found = llvm::sys::findProgramByName("ptxas", toolkit);
  if (!found)
    found = llvm::sys::findProgramByName("ptxas");
  return found ? *found : std::string();
}

std::vector<DeviceReport> DeviceHarness::assemble(StringRef ptx, StringRef chip,
                                                  StringRef cubin) {
  std::string source = (cubin + ".ptx").str(), log = (cubin + ".log").str();
  {
    std::error_code error;
    llvm::raw_fd_ostream out(source, error);
    out << ptx;
  }
  // A redirection does not truncate.
  llvm::sys::fs::remove(log);
  std::string ptxas = findAssembler(), arch = ("-arch=" + chip).str();
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(log),
                                          StringRef(log)};
  int code = llvm::sys::ExecuteAndWait(
      ptxas, {ptxas, arch, "-O3", "-v", source, "-o", cubin}, std::nullopt,
      redirects);
  auto buffer = llvm::MemoryBuffer::getFile(log);
  StringRef text = buffer ? (*buffer)->getBuffer() : StringRef();
  if (code != 0) {
    llvm::errs() << text;
    return {};
  }
  std::vector<DeviceReport> reports;
  SmallVector<StringRef> lines;
  text.split(lines, '\n');
  auto findWarnings = [&] {
    for (StringRef line : lines)
      for (DeviceReport &report : reports)
        if (line.contains("(C75") && line.contains("'" + report.kernel + "'"))
          report.warning = line.str();
  };
  for (StringRef line : lines) {
    int stack, stores, loads;
    line = line.trim();
    if (line.contains("Compiling entry function"))
      reports.emplace_back().kernel =
          line.split('\'').second.split('\'').first.str();
    else if (!reports.empty() &&
             std::sscanf(line.str().c_str(),
                         "%d bytes stack frame, %d bytes spill stores, %d "
                         "bytes spill loads",
                         &stack, &stores, &loads) == 3) {
      reports.back().stackBytes = stack;
      reports.back().spillBytes = stores + loads;
    } else if (!reports.empty() && line.contains("Used ")) {
      std::sscanf(line.split("Used ").second.str().c_str(), "%d",
                  &reports.back().registers);
    }
  }
  findWarnings();
  return reports;
}
