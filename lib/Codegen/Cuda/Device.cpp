//===- Device.cpp - device kernels to machine code ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Codegen/Device.h"

#include "Optimize.h"

#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/IPO/Internalize.h"

using namespace mlir;
using namespace mlir::blurt;

FailureOr<DeviceArch> DeviceArch::parse(StringRef name) {
  DeviceArch arch;
  if (!name.consume_front("sm_"))
    return failure();
  arch.specific = name.consume_back("a");
  if (name.getAsInteger(10, arch.number) || arch.number < 80 ||
      arch.number > 121)
    return failure();
  return arch;
}

//===----------------------------------------------------------------------===//
// Toolkit
//===----------------------------------------------------------------------===//

FailureOr<DeviceTools> DeviceTools::find(StringRef folder,
                                         std::string &message) {
  SmallVector<std::string> roots;
  if (!folder.empty()) {
    roots.push_back(folder.str());
  } else {
    for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
      if (auto value = llvm::sys::Process::GetEnv(variable))
        roots.push_back(*value);
    if (auto found = llvm::sys::findProgramByName("ptxas")) {
      SmallString<256> real;
      if (!llvm::sys::fs::real_path(*found, real))
        roots.push_back(
            llvm::sys::path::parent_path(llvm::sys::path::parent_path(real))
                .str());
    }
    roots.push_back("/usr/local/cuda");
    roots.push_back("/usr/lib/nvidia-cuda-toolkit");
  }
  DeviceTools tools;
  auto look = [&](std::string &path, ArrayRef<StringRef> relatives) {
    for (const std::string &root : roots)
      for (StringRef relative : relatives) {
        SmallString<256> candidate(root);
        llvm::sys::path::append(candidate, relative);
        if (path.empty() && llvm::sys::fs::exists(candidate))
          path = candidate.str().str();
      }
  };
  look(tools.ptxas, {"bin/ptxas"});
  look(tools.libdevice, {"nvvm/libdevice/libdevice.10.bc",
                         "libdevice/libdevice.10.bc", "libdevice.10.bc"});
  if (!tools.ptxas.empty() && !tools.libdevice.empty())
    return tools;
  message =
      (Twine("cannot find ") +
       (tools.ptxas.empty() ? "bin/ptxas" : "nvvm/libdevice/libdevice.10.bc") +
       " of a CUDA toolkit, version 12.0 or later, in " +
       llvm::join(roots, ", "))
          .str();
  return failure();
}

//===----------------------------------------------------------------------===//
// PTX
//===----------------------------------------------------------------------===//

/// PTX ISA 8.0, which drivers from CUDA 12.0 on and all of our targets know.
static constexpr StringRef kPtxFeature = "+ptx80";

/// Functions of the C library are functions of libdevice from here on.
static LogicalResult linkLibdevice(ModuleOp kernels, llvm::Module &module,
                                   const DeviceTools &tools) {
  bool any = false;
  for (llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic()) {
      if (!function.getName().starts_with("__nv_"))
        function.setName("__nv_" + function.getName());
      any = true;
    }
  if (!any)
    return success();
  auto buffer = llvm::MemoryBuffer::getFile(tools.libdevice);
  if (!buffer)
    return kernels.emitError("cannot read ")
           << tools.libdevice << ": " << buffer.getError().message();
  auto library = llvm::parseBitcodeFile(**buffer, module.getContext());
  if (!library)
    return kernels.emitError("cannot read ")
           << tools.libdevice << ": " << llvm::toString(library.takeError());
  (*library)->setTargetTriple(module.getTargetTriple());
  (*library)->setDataLayout(module.getDataLayout());
  if (llvm::Linker::linkModules(
          module, std::move(*library), llvm::Linker::Flags::LinkOnlyNeeded,
          [](llvm::Module &linked, const llvm::StringSet<> &names) {
            llvm::internalizeModule(
                linked, [&](const llvm::GlobalValue &value) {
                  return !value.hasName() || !names.count(value.getName());
                });
          }))
    return kernels.emitError("cannot link ") << tools.libdevice;
  for (llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() &&
        function.getName() != "__nvvm_reflect")
      return kernels.emitError("uses the function '")
             << function.getName().drop_front(5)
             << "', which libdevice does not have";
  return success();
}

static std::unique_ptr<llvm::TargetMachine> createMachine(ModuleOp kernels,
                                                          DeviceArch arch) {
  static const bool initialized = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)initialized;
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend) {
    kernels.emitError("no code generator for nvptx64: ") << error;
    return nullptr;
  }
  llvm::TargetOptions options;
  // A product and a sum are rounded one after the other.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(
      triple, arch.str(), kPtxFeature, options, std::nullopt, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    kernels.emitError("cannot create a code generator for ") << arch.str();
  return machine;
}

FailureOr<std::string> blurt::translateToPtx(ModuleOp kernels, DeviceArch arch,
                                             const DeviceTools &tools) {
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(kernels, arch);
  if (!machine)
    return failure();
  registerBuiltinDialectTranslation(*kernels.getContext());
  registerLLVMDialectTranslation(*kernels.getContext());
  registerNVVMDialectTranslation(*kernels.getContext());
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module =
      translateModuleToLLVMIR(kernels, context, "kernels");
  if (!module)
    return kernels.emitError("translation to LLVM IR failed");
  module->setTargetTriple(machine->getTargetTriple());
  module->setDataLayout(machine->createDataLayout());
  if (failed(linkLibdevice(kernels, *module, tools)))
    return failure();

  optimizeModule(*module, *machine, 3);

  SmallString<0> text;
  llvm::raw_svector_ostream os(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, os, nullptr,
                                   llvm::CodeGenFileType::AssemblyFile))
    return kernels.emitError("the code generator cannot write PTX");
  passes.run(*module);
  return text.str().str();
}

//===----------------------------------------------------------------------===//
// ptxas
//===----------------------------------------------------------------------===//

/// Reads what `ptxas -v` says of each kernel.
static void parseReport(StringRef report,
                        std::vector<KernelResources> &resources) {
  llvm::Regex properties("Function properties for ([A-Za-z0-9_$]+)");
  llvm::Regex compiling("Compiling entry function '([A-Za-z0-9_$]+)'");
  llvm::Regex frame("([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, "
                    "([0-9]+) bytes spill loads");
  llvm::Regex used("Used ([0-9]+) registers");
  llvm::Regex shared("([0-9]+) bytes smem");
  SmallVector<StringRef> lines, match;
  report.split(lines, '\n');
  KernelResources *current = nullptr;
  auto number = [](StringRef text) {
    int64_t value = 0;
    text.getAsInteger(10, value);
    return value;
  };
  // "(C7510) Potential Performance Loss: wgmma.mma_async instructions are
  // serialized due to … in the function 'f'" stands anywhere in the report.
  auto findWarnings = [&] {
    for (StringRef line : lines)
      if (line.contains("(C75"))
        for (KernelResources &kernel : resources)
          if (line.contains("'" + kernel.kernel + "'"))
            kernel.warnings.push_back(line.trim().str());
  };
  for (StringRef line : lines) {
    if (compiling.match(line, &match)) {
      current = &resources.emplace_back();
      current->kernel = match[1].str();
      continue;
    }
    if (!current)
      continue;
    if (frame.match(line, &match)) {
      current->stack = number(match[1]);
      current->spillStores = number(match[2]);
      current->spillLoads = number(match[3]);
    }
    if (used.match(line, &match))
      current->registers = number(match[1]);
    if (shared.match(line, &match))
      current->shared = number(match[1]);
  }
  findWarnings();
}

FailureOr<std::string>
blurt::assemblePtx(Location loc, StringRef ptx, DeviceArch arch,
                   const DeviceTools &tools,
                   std::vector<KernelResources> &resources) {
  SmallString<128> source, object, log;
  int fd;
  auto temporary = [&](StringRef suffix, SmallString<128> &path) {
    auto code =
        llvm::sys::fs::createTemporaryFile("blutrain", suffix, fd, path);
    if (code)
      emitError(loc) << "cannot create a temporary file: " << code.message();
    return !code;
  };
  if (!temporary("ptx", source))
    return failure();
  llvm::FileRemover removeSource(source);
  {
    llvm::raw_fd_ostream os(fd, /*shouldClose=*/true);
    os << ptx;
    os.close();
    if (os.has_error()) {
      emitError(loc) << "cannot write '" << source
                     << "': " << os.error().message();
      os.clear_error();
      return failure();
    }
  }
  if (!temporary("cubin", object))
    return failure();
  llvm::sys::Process::SafelyCloseFileDescriptor(fd);
  llvm::FileRemover removeObject(object);
  if (!temporary("log", log))
    return failure();
  llvm::sys::Process::SafelyCloseFileDescriptor(fd);
  llvm::FileRemover removeLog(log);

  std::string option = "-arch=" + arch.str();
  SmallVector<StringRef> arguments{tools.ptxas, option,       "-O3",       "-v",
                                   "-o",        object.str(), source.str()};
  std::optional<StringRef> redirects[] = {StringRef(""), log.str(), log.str()};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(tools.ptxas, arguments, std::nullopt,
                                         redirects, 0, 0, &message);
  auto report = llvm::MemoryBuffer::getFile(log);
  StringRef text = report ? (*report)->getBuffer() : StringRef();
  if (status != 0)
    return emitError(loc) << "ptxas failed for " << arch.str() << ": "
                          << (message.empty() ? text.rtrim() : message);
  parseReport(text, resources);
  auto buffer = llvm::MemoryBuffer::getFile(object);
  if (!buffer)
    return emitError(loc) << "cannot read '" << object
                          << "': " << buffer.getError().message();
  return (*buffer)->getBuffer().str();
}
