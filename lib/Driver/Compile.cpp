//===- Compile.cpp - model file to executable -----------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Driver/Compile.h"

#include "blutrain/Codegen/Device.h"
#include "blutrain/Codegen/Object.h"
#include "blutrain/Driver/VerifyPlan.h"
#include "blutrain/Pipelines/Registration.h"
#include "blutrain/Transforms/Plan.h"

#include "Blu/Blu.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace blutrain;

namespace {

raw_ostream &error() { return llvm::WithColor::error(llvm::errs()); }
raw_ostream &note() { return llvm::WithColor::note(llvm::errs()); }

/// A file that appears under its name only when it is complete.
class AtomicFile {
public:
  explicit AtomicFile(StringRef path) : path(path) {}
  ~AtomicFile() {
    if (!temporary.empty())
      llvm::sys::fs::remove(temporary);
  }

  LogicalResult open() {
    // Renaming over a device or a pipe would replace it: it is written to.
    llvm::sys::fs::file_status status;
    if (!llvm::sys::fs::status(path, status) &&
        status.type() != llvm::sys::fs::file_type::regular_file &&
        status.type() != llvm::sys::fs::file_type::directory_file) {
      auto code = llvm::sys::fs::openFileForWrite(
          path, fd, llvm::sys::fs::CD_OpenExisting);
      if (!code)
        return success();
      error() << "cannot write '" << path << "': " << code.message() << "\n";
      return failure();
    }
    if (auto code = llvm::sys::fs::createUniqueFile(path + ".tmp-%%%%%%", fd,
                                                    temporary)) {
      error() << "cannot write '" << path << "': " << code.message() << "\n";
      temporary.clear();
      return failure();
    }
    return success();
  }

  int descriptor() const { return fd; }
  /// Empty if `path` is a device or a pipe.
  StringRef temporaryPath() const { return temporary; }

  LogicalResult write(llvm::function_ref<void(raw_ostream &)> print) {
    llvm::raw_fd_ostream os(fd, /*shouldClose=*/true);
    print(os);
    os.close();
    if (!os.has_error())
      return success();
    error() << "cannot write '" << path << "': " << os.error().message()
            << "\n";
    os.clear_error();
    return failure();
  }

  LogicalResult keep() {
    if (temporary.empty())
      return success();
    if (auto code = llvm::sys::fs::rename(temporary, path)) {
      error() << "cannot write '" << path << "': " << code.message() << "\n";
      return failure();
    }
    temporary.clear();
    return success();
  }

private:
  std::string path;
  SmallString<128> temporary;
  int fd = -1;
};

LogicalResult writeFile(StringRef path,
                        llvm::function_ref<void(raw_ostream &)> print) {
  if (path == "-") {
    print(llvm::outs());
    llvm::outs().flush();
    if (!llvm::outs().has_error())
      return success();
    error() << "cannot write standard output: "
            << llvm::outs().error().message() << "\n";
    llvm::outs().clear_error();
    return failure();
  }
  AtomicFile file(path);
  return failure(failed(file.open()) || failed(file.write(print)) ||
                 failed(file.keep()));
}

void printModule(ModuleOp module, raw_ostream &os) {
  OpPrintingFlags flags;
  flags.enableDebugInfo(/*enable=*/true, /*prettyForm=*/false);
  module.print(os, flags);
  os << "\n";
}

LogicalResult checkOptions(const CompileOptions &options) {
  const StageOptions &stages = options.stages;
  auto oneOf = [](StringRef flag, StringRef value,
                  std::initializer_list<StringRef> allowed) {
    if (llvm::is_contained(allowed, value))
      return success();
    error() << flag << ": expected "
            << llvm::join(allowed.begin(), allowed.end(), ", ") << ", got '"
            << value << "'\n";
    return failure();
  };
  auto within = [](StringRef flag, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most)
      return success();
    error() << flag << ": expected a number from " << least << " to " << most
            << ", got " << value << "\n";
    return failure();
  };
  auto archs = [&]() {
    for (StringRef name : stages.archs)
      if (failed(blurt::DeviceArch::parse(name))) {
        error() << "--arch: expected sm_80 to sm_121, or one with an 'a', got '"
                << name << "'\n";
        return failure();
      }
    return success();
  };
  auto combinations = [&]() {
    if (stages.target != "cuda")
      return success();
    if (stages.precision == "fp64") {
      error() << "--precision: expected fp32, fp32tc, tf32 or bf16 with "
                 "--target cuda, got 'fp64'\n";
      return failure();
    }
    if (stages.precision == "fp32tc" &&
        (stages.archs.size() != 1 || stages.archs[0] != "sm_90a")) {
      error() << "--precision: fp32tc has kernels for sm_90a alone; expected "
                 "--arch sm_90a, got '"
              << llvm::join(stages.archs, ",") << "'\n";
      return failure();
    }
    if (stages.debugMemory) {
      error() << "--debug-memory: expected --target cpu, got 'cuda'\n";
      return failure();
    }
    return success();
  };
  // Negative: as written in the model. Not a number is none of these.
  auto dropout = [&]() {
    if (stages.dropout < 1)
      return success();
    error() << "--dropout: expected a rate from 0 to below 1, got "
            << llvm::format("%g", stages.dropout) << "\n";
    return failure();
  };
  auto precision = [&]() {
    if (stages.target != "cpu")
      return oneOf("--precision", stages.precision,
                   {"fp64", "fp32", "fp32tc", "tf32", "bf16"});
    if (stages.precision != "tf32" && stages.precision != "fp32tc")
      return oneOf("--precision", stages.precision, {"fp64", "fp32", "bf16"});
    error() << "--precision: " << stages.precision
            << " needs tensor cores, which --target cpu does "
               "not have; expected fp64, fp32 or bf16\n";
    return failure();
  };
  auto mesh = [&]() {
    if (stages.zero != 0 && stages.mesh.empty()) {
      error() << "--zero: needs --mesh\n";
      return failure();
    }
    if (!stages.layout.empty() && stages.mesh.empty()) {
      error() << "--layout: needs --mesh\n";
      return failure();
    }
    if (stages.vjp && !stages.mesh.empty()) {
      error() << "--mesh: not supported with --vjp\n";
      return failure();
    }
    if (!stages.link.empty())
      if (auto link =
              LinkModel::parse(stages.link, LinkModel::getDefault("cpu"));
          !link) {
        error() << "--link: " << llvm::toString(link.takeError()) << "\n";
        return failure();
      }
    return within("--zero", stages.zero, 0, 3);
  };
  return failure(
      failed(oneOf("--target", stages.target, {"cpu", "cuda"})) ||
      failed(precision()) || failed(archs()) || failed(combinations()) ||
      failed(oneOf("--optimizer", stages.optimizer, {"adamw", "sgd"})) ||
      failed(oneOf("--remat", stages.remat, {"none", "cheap", "full"})) ||
      failed(within("--batch", stages.batch, 0, INT32_MAX)) ||
      failed(within("--seq", stages.seq, 0, INT32_MAX)) ||
      failed(within("--accum", stages.microbatches, 1, INT32_MAX)) ||
      failed(
          within("--loss-head-bytes", stages.lossHeadBytes, -1, INT64_MAX)) ||
      failed(within("--pad-vocab", stages.padVocab, -1, INT32_MAX)) ||
      failed(dropout()) || failed(mesh()));
}

/// What the program table says of the program as a whole, from the model and
/// the options; stages pass it on.
void describeProgram(ModuleOp module, const CompileOptions &options) {
  Builder b(module.getContext());
  NamedAttrList metadata;
  StringRef name = "program";
  for (blu::ModelOp model : module.getOps<blu::ModelOp>()) {
    name = model.getSymName();
    for (StringRef key : {"vocab_size", "context", "heads"})
      if (auto value = model->getAttrOfType<IntegerAttr>(("blu." + key).str()))
        metadata.set(key, b.getStringAttr(Twine(value.getInt())));
  }
  metadata.set("source", b.getStringAttr(llvm::sys::path::filename(
                             options.input == "-" ? "stdin" : options.input)));
  if (!options.stages.mesh.empty()) {
    metadata.set("mesh", b.getStringAttr(options.stages.mesh));
    metadata.set("zero", b.getStringAttr(Twine(options.stages.zero)));
  }
  if (options.stages.debugNonfinite)
    metadata.set("debug_nonfinite", b.getStringAttr("1"));
  if (!options.stages.paramGroups.empty())
    metadata.set("param_groups",
                 b.getStringAttr(llvm::join(options.stages.paramGroups, " ")));
  NamedAttrList program;
  program.set("name", b.getStringAttr(name));
  program.set("target", b.getStringAttr(options.stages.target));
  program.set("precision", b.getStringAttr(options.stages.precision));
  program.set("optimizer", b.getStringAttr(options.stages.optimizer));
  program.set("metadata", metadata.getDictionary(module.getContext()));
  module->setAttr("blurt.program", program.getDictionary(module.getContext()));
}

/// Operations of the products of a model of static shapes, a multiply and an
/// add counted as two: of linear maps, and of attention where its mask lets
/// queries see keys.
double countProductOps(blu::ModelOp model) {
  double all = 0;
  model.walk([&](Operation *op) {
    double ops = 0;
    auto shapeOf = [](Value value) {
      return cast<RankedTensorType>(value.getType()).getShape();
    };
    auto elements = [&](Value value) {
      return double(cast<RankedTensorType>(value.getType()).getNumElements());
    };
    if (auto linear = dyn_cast<blu::LinearOp>(op)) {
      ops = 2 * elements(linear.getResult()) *
            double(shapeOf(linear.getInput()).back());
    } else if (auto matmul = dyn_cast<blu::MatmulOp>(op)) {
      ArrayRef<int64_t> lhs = shapeOf(matmul.getLhs());
      size_t contracted =
          lhs.size() - (lhs.size() > 1 && matmul.getTransA() ? 2 : 1);
      ops = 2 * elements(matmul.getResult()) * double(lhs[contracted]);
    } else if (auto attention = dyn_cast<blu::AttentionOp>(op)) {
      ArrayRef<int64_t> q = shapeOf(attention.getQ());
      double rows = double(q[1]), keys = double(shapeOf(attention.getK())[1]);
      double seen = attention.getCausal() ? keys - (rows - 1) / 2 : keys;
      ops = 4 * elements(attention.getQ()) * seen;
    }
    for (Operation *at = op; ops > 0 && at != model; at = at->getParentOp())
      if (auto stack = dyn_cast<blu::StackOp>(at))
        ops *= double(stack.getCount());
    all += ops;
  });
  return all;
}

/// What a program tells about how much it does, once its shapes are known.
void describeWork(ModuleOp module) {
  auto program = module->getAttrOfType<DictionaryAttr>("blurt.program");
  auto before =
      program ? program.getAs<DictionaryAttr>("metadata") : DictionaryAttr();
  auto model = module.lookupSymbol<blu::ModelOp>("train");
  if (!before || !model)
    return;
  Builder b(module.getContext());
  NamedAttrList metadata(before), all(program);
  metadata.set("product_ops",
               b.getStringAttr(Twine(uint64_t(countProductOps(model)))));
  all.set("metadata", metadata.getDictionary(module.getContext()));
  module->setAttr("blurt.program", all.getDictionary(module.getContext()));
}

/// Runs one stage. On failure says how to see it again.
LogicalResult runStage(Stage stage, ModuleOp module,
                       const CompileOptions &options, PlanReport &report) {
  PassManager manager(module->getContext());
  buildStage(stage, manager, options.stages, &report);
  if (succeeded(manager.run(module)))
    return success();
  note() << "stage '" << stringifyStage(stage)
         << "' failed; reproduce with: " << options.commandLine
         << " --compile-to=" << stringifyStage(stage) << "\n";
  return failure();
}

LogicalResult emitExecutable(ModuleOp module, const CompileOptions &options) {
  auto target = blurt::CpuTarget::host(options.cpu, options.features);
  AtomicFile executable(options.output);
  if (failed(executable.open()))
    return failure();
  if (executable.temporaryPath().empty()) {
    error() << "cannot write '" << options.output
            << "': expected a regular file\n";
    return failure();
  }
  llvm::sys::Process::SafelyCloseFileDescriptor(executable.descriptor());

  SmallString<128> object;
  int fd;
  if (auto code =
          llvm::sys::fs::createTemporaryFile("blutrain", "o", fd, object)) {
    error() << "cannot create a temporary object file: " << code.message()
            << "\n";
    return failure();
  }
  llvm::FileRemover removeObject(object);
  {
    llvm::raw_fd_ostream os(fd, /*shouldClose=*/true);
    blurt::ObjectOptions dumps;
    std::string ir;
    llvm::raw_string_ostream irStream(ir);
    SmallString<0> assembly;
    llvm::raw_svector_ostream assemblyStream(assembly);
    if (options.saveTemps) {
      dumps.llvmIR = &irStream;
      dumps.assembly = &assemblyStream;
    }
    if (failed(blurt::emitObject(module, target, os, dumps)))
      return failure();
    os.close();
    if (os.has_error()) {
      error() << "cannot write '" << object << "': " << os.error().message()
              << "\n";
      os.clear_error();
      return failure();
    }
    if (options.saveTemps &&
        (failed(writeFile(options.output + ".ll",
                          [&](raw_ostream &o) { o << ir; })) ||
         failed(writeFile(options.output + ".s",
                          [&](raw_ostream &o) { o << assembly; }))))
      return failure();
  }
  blurt::LinkOptions link;
  link.linker = options.linker;
  link.runtimeFolder = options.runtimeFolder;
  if (failed(blurt::linkExecutable(object, executable.temporaryPath(), link,
                                   llvm::errs())))
    return failure();
  return executable.keep();
}

/// What a program for CUDA takes of the device outside the arena. Only the
/// images have a size that is known here.
void addReserves(ModuleOp module, PlanReport &report) {
  auto add = [&](Twine name, Twine note, std::optional<int64_t> bytes = {}) {
    report.reserves.push_back({name.str(), note.str(), bytes});
  };
  add("context", "the driver's, and what other processes hold");
  auto device = module->getAttrOfType<DictionaryAttr>("blurt.device");
  auto images = device ? device.getAs<ArrayAttr>("images") : ArrayAttr();
  if (!images)
    add("kernels", "one image is loaded; there are none before stage kernel");
  else
    for (auto image : images.getAsRange<DictionaryAttr>()) {
      auto number = [&](StringRef key) {
        return cast<IntegerAttr>(image.get(key)).getInt();
      };
      bool isPtx = number("kind") == 1;
      add("kernels (" + Twine(isPtx ? "compute_" : "sm_") +
              Twine(number("arch")) + (number("specific") ? "a)" : ")"),
          isPtx ? "text, compiled by the driver; loaded if no other image fits"
                : "size of the image; only the one that fits the device best "
                  "is loaded",
          isPtx ? std::nullopt : std::optional<int64_t>(number("size")));
    }
  auto gemms = device ? device.getAs<ArrayAttr>("gemms") : ArrayAttr();
  if (!gemms || !gemms.empty())
    add("cuBLASLt", "its kernels load when they are first used; its workspace "
                    "is in the arena");
  add("graphs", "one for each entry that is called twice");
  add("events and streams", "the runtime's");
}

LogicalResult compileModule(ModuleOp module, const CompileOptions &options) {
  if (options.from == Stage::Input)
    describeProgram(module, options);
  PlanReport report;
  bool planned = false;
  Stage last = options.to.value_or(Stage::LLVM);
  for (int i = int(options.from) + 1; i <= int(last); ++i) {
    Stage stage = Stage(i);
    OwningOpRef<ModuleOp> whole;
    if (stage == Stage::Shard && options.verifyPlan)
      whole = module.clone();
    if (failed(runStage(stage, module, options, report)))
      return failure();
    if (whole && failed(verifyPlan(*whole, module)))
      return failure();
    if (stage == Stage::Blu)
      describeWork(module);
    planned |= stage == Stage::Plan;
    if (options.dumpStages.empty())
      continue;
    SmallString<128> path(options.dumpStages);
    llvm::sys::path::append(path,
                            Twine(i) + "-" + stringifyStage(stage) + ".mlir");
    if (failed(
            writeFile(path, [&](raw_ostream &os) { printModule(module, os); })))
      return failure();
  }
  if (options.stages.target == "cuda")
    addReserves(module, report);
  if (!options.report.empty()) {
    if (!planned) {
      error() << "--report: expected stage 'plan' to be among those that run\n";
      return failure();
    }
    if (failed(writeFile(options.report, [&](raw_ostream &os) {
          writePlanReport(report, options.report, os);
        })))
      return failure();
  }
  if (options.to)
    return writeFile(options.output,
                     [&](raw_ostream &os) { printModule(module, os); });
  if (failed(emitExecutable(module, options)))
    return failure();
  if (planned)
    llvm::outs() << options.output << ": arena " << report.peakBytes
                 << " bytes, of which state " << report.stateBytes << "\n";
  return success();
}

} // namespace

int blutrain::compile(const CompileOptions &options) {
  if (failed(checkOptions(options)))
    return 1;
  if (!options.dumpStages.empty())
    if (auto code = llvm::sys::fs::create_directories(options.dumpStages)) {
      error() << "--dump-stages: cannot create '" << options.dumpStages
              << "': " << code.message() << "\n";
      return 1;
    }
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> buffer =
      openInputFile(options.input, &message);
  if (!buffer) {
    error() << message << "\n";
    return 1;
  }
  auto sources = std::make_shared<llvm::SourceMgr>();
  sources->AddNewSourceBuffer(std::move(buffer), SMLoc());

  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  // The location says where; a whole program behind it would hide the error.
  context.printOpOnDiagnostic(false);
  SourceMgrDiagnosticHandler diagnostics(*sources, &context);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  if (!module)
    return 1;
  return failed(compileModule(*module, options)) ? 1 : 0;
}
