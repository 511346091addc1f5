//===- CompileDevice.cpp - the kernels of a program to images -*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Codegen/Device.h"
#include "blutrain/Codegen/Passes.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/Support/FileSystem.h"

namespace mlir::blurt {
#define GEN_PASS_DEF_BLURTCOMPILEDEVICE
#include "blutrain/Codegen/Passes.h.inc"
} // namespace mlir::blurt

using namespace mlir;
using namespace mlir::blurt;

void blurt::buildLowerKernelsPipeline(OpPassManager &manager) {
  manager.addPass(createBlurtExpandMath({/*device=*/true}));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
  manager.addPass(createConvertVectorToLLVMPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createConvertNVVMToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
}

namespace {
struct CompileDevice : blurt::impl::BlurtCompileDeviceBase<CompileDevice> {
  using BlurtCompileDeviceBase::BlurtCompileDeviceBase;

  void getDependentDialects(DialectRegistry &registry) const override {
    BlurtCompileDeviceBase::getDependentDialects(registry);
    OpPassManager manager(ModuleOp::getOperationName());
    buildLowerKernelsPipeline(manager);
    manager.getDependentDialects(registry);
  }

  LogicalResult parseArchs(SmallVector<DeviceArch> &parsed);
  /// Lowers the kernels and moves them to a module of their own.
  FailureOr<ModuleOp> lowerKernels(gpu::GPUModuleOp kernels);
  LogicalResult check(const std::vector<KernelResources> &resources,
                      DeviceArch arch);
  void addImage(StringRef data, int32_t kind, DeviceArch arch, StringRef table);
  void runOnOperation() override;

  SmallVector<Attribute> images;
};
} // namespace

LogicalResult CompileDevice::parseArchs(SmallVector<DeviceArch> &parsed) {
  for (StringRef name : archs) {
    FailureOr<DeviceArch> arch = DeviceArch::parse(name);
    if (failed(arch))
      return getOperation().emitError("architecture is '")
             << name << "', expected sm_80 to sm_121, or one with an 'a'";
    parsed.push_back(*arch);
  }
  if (parsed.empty())
    return getOperation().emitError("no architecture is given");
  return success();
}

FailureOr<ModuleOp> CompileDevice::lowerKernels(gpu::GPUModuleOp kernels) {
  ModuleOp program = getOperation();
  OpBuilder b = OpBuilder::atBlockEnd(program.getBody());
  auto module = ModuleOp::create(b, program.getLoc());
  if (kernels)
    module.getBody()->getOperations().splice(
        module.getBody()->begin(), kernels.getBody()->getOperations());
  OpPassManager manager(ModuleOp::getOperationName());
  buildLowerKernelsPipeline(manager);
  if (failed(runPipeline(manager, module)))
    return failure();
  return module;
}

/// `kernels` with `others` in the place of symbols that both have.
static OwningOpRef<ModuleOp> replaceKernels(ModuleOp kernels, ModuleOp others) {
  OwningOpRef<ModuleOp> all = kernels.clone();
  for (Operation &op : *others.getBody()) {
    auto symbol = cast<SymbolOpInterface>(op);
    if (Operation *old = all->lookupSymbol(symbol.getNameAttr()))
      old->erase();
    all->getBody()->push_back(op.clone());
  }
  return all;
}

/// A stack frame or a spill makes a kernel several times slower, and is always
/// a fault of the emitter.
LogicalResult
CompileDevice::check(const std::vector<KernelResources> &resources,
                     DeviceArch arch) {
  if (!resourceFile.empty()) {
    std::error_code error;
    llvm::raw_fd_ostream os(resourceFile, error,
                            llvm::sys::fs::OF_Text | llvm::sys::fs::OF_Append);
    if (error)
      return getOperation().emitError("cannot write '")
             << resourceFile << "': " << error.message();
    for (const KernelResources &r : resources)
      os << arch.str() << ' ' << r.kernel << " registers " << r.registers
         << " stack " << r.stack << " spills " << r.spillStores + r.spillLoads
         << " shared " << r.shared << '\n';
  }
  for (const KernelResources &r : resources)
    if (r.stack != 0 || r.spillStores != 0 || r.spillLoads != 0)
      getOperation().emitWarning("kernel '")
          << r.kernel << "' spills on " << arch.str() << ": stack frame "
          << r.stack << " bytes, stores " << r.spillStores << " bytes, loads "
          << r.spillLoads << " bytes";
  for (const KernelResources &r : resources)
    for (const std::string &warning : r.warnings)
      getOperation().emitWarning("kernel '")
          << r.kernel << "' on " << arch.str() << ": " << warning;
  return success();
}

void CompileDevice::addImage(StringRef data, int32_t kind, DeviceArch arch,
                             StringRef table) {
  ModuleOp module = getOperation();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  std::string symbol = "blurt_image_" + std::to_string(images.size());
  std::string bytes = data.str();
  if (kind == 1)
    bytes += '\0';
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size());
  LLVM::GlobalOp::create(b, module.getLoc(), type, /*isConstant=*/true,
                         LLVM::Linkage::Private, symbol, b.getStringAttr(bytes),
                         /*alignment=*/64);
  images.push_back(b.getDictionaryAttr(
      {b.getNamedAttr("kind", b.getI64IntegerAttr(kind)),
       b.getNamedAttr("arch", b.getI64IntegerAttr(arch.number)),
       b.getNamedAttr("specific", b.getI64IntegerAttr(arch.specific)),
       b.getNamedAttr("size", b.getI64IntegerAttr(bytes.size())),
       b.getNamedAttr("symbol", b.getStringAttr(symbol)),
       b.getNamedAttr("kernels", b.getStringAttr(table))}));
}

void CompileDevice::runOnOperation() {
  ModuleOp module = getOperation();
  auto device = module->getAttrOfType<DictionaryAttr>("blurt.device");
  SmallVector<DeviceArch> targets;
  images.clear();
  if (!device || failed(parseArchs(targets)))
    return device ? signalPassFailure() : void();
  auto kernels = module.lookupSymbol<gpu::GPUModuleOp>("kernels");
  auto forHopper = module.lookupSymbol<gpu::GPUModuleOp>("kernels_sm_90a");
  if (!kernels && !forHopper)
    return;
  std::string message;
  FailureOr<DeviceTools> tools = DeviceTools::find(toolkit, message);
  if (failed(tools)) {
    module.emitError(message);
    return signalPassFailure();
  }
  OwningOpRef<ModuleOp> lowered, hopper;
  for (auto [from, to] : {std::pair(kernels, &lowered), {forHopper, &hopper}}) {
    FailureOr<ModuleOp> made = lowerKernels(from);
    if (failed(made))
      return signalPassFailure();
    *to = *made;
  }
  if (forHopper)
    hopper = replaceKernels(*lowered, *hopper);
  bool ownTable = device.contains("kernels_sm_90a");
  // Any device from the lowest plain architecture on can run its PTX.
  const DeviceArch *lowest = nullptr;
  for (const DeviceArch &arch : targets)
    if (!arch.specific && (!lowest || arch.number < lowest->number))
      lowest = &arch;
  for (const DeviceArch &arch : targets) {
    bool isHopper = forHopper && arch.number == 90 && arch.specific;
    StringRef table = isHopper && ownTable ? "kernels_sm_90a" : "kernels";
    FailureOr<std::string> ptx =
        translateToPtx(isHopper ? *hopper : *lowered, arch, *tools);
    if (failed(ptx))
      return signalPassFailure();
    if (!ptxFile.empty()) {
      std::error_code error;
      llvm::raw_fd_ostream os(ptxFile + "." + arch.str() + ".ptx", error);
      if (error) {
        module.emitError("cannot write '")
            << ptxFile << "': " << error.message();
        return signalPassFailure();
      }
      os << *ptx;
    }
    std::vector<KernelResources> resources;
    FailureOr<std::string> cubin =
        assemblePtx(module.getLoc(), *ptx, arch, *tools, resources);
    if (failed(cubin) || failed(check(resources, arch)))
      return signalPassFailure();
    addImage(*cubin, 0, arch, table);
    if (&arch == lowest)
      addImage(*ptx, 1, arch, table);
  }
  for (gpu::GPUModuleOp from : {kernels, forHopper})
    if (from)
      from.erase();
  NamedAttrList attrs(device);
  attrs.set("images", ArrayAttr::get(&getContext(), images));
  module->setAttr("blurt.device", attrs.getDictionary(&getContext()));
}
