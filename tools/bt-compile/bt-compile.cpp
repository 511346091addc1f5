//===- bt-compile.cpp - model file to executable --------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Driver/Compile.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"

using namespace blutrain;
namespace cl = llvm::cl;

static cl::OptionCategory category("bt-compile options");

template <typename T>
static auto flag(const char *name, const char *text, T &value,
                 const char *valueName) {
  return std::make_unique<cl::opt<T, true>>(
      llvm::StringRef(name), cl::desc(text), cl::location(value),
      cl::init(T(value)), cl::value_desc(valueName), cl::cat(category));
}

/// Bytes: a number, with an optional suffix KiB, MiB or GiB.
static bool parseBytes(llvm::StringRef text, int64_t &bytes) {
  int64_t scale = 1;
  for (auto [suffix, factor] :
       {std::pair("KiB", int64_t(1) << 10), std::pair("MiB", int64_t(1) << 20),
        std::pair("GiB", int64_t(1) << 30)})
    if (text.consume_back(suffix))
      scale = factor;
  double number;
  // The comparison is false for a NaN.
  if (text.trim().getAsDouble(number) ||
      !(number > 0 && number * double(scale) < 0x1p63))
    return false;
  bytes = int64_t(number * double(scale));
  return true;
}

static std::optional<Stage> parseStage(const char *name,
                                       const std::string &value) {
  std::optional<Stage> stage = symbolizeStage(value);
  if (!stage)
    llvm::WithColor::error(llvm::errs())
        << name
        << ": expected blu, grad, shard, fuse, plan, kernel or llvm, got '"
        << value << "'\n";
  return stage;
}

/// A word as a shell reads it back.
static std::string quoted(llvm::StringRef word) {
  constexpr llvm::StringLiteral plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+,./:";
  if (!word.empty() && word.find_first_not_of(plain) == llvm::StringRef::npos)
    return word.str();
  std::string text = "'";
  for (char c : word)
    text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

/// The command line without --compile-to, which the reproducer sets.
static std::string commandLine(int argc, char **argv) {
  std::string line = quoted(argv[0]);
  for (int i = 1; i < argc; ++i) {
    llvm::StringRef word = argv[i];
    llvm::StringRef name = word.ltrim('-');
    if (word != name && name == "compile-to")
      ++i;
    else if (word == name || !name.starts_with("compile-to="))
      line += " " + quoted(word);
  }
  return line;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  CompileOptions options;
  StageOptions &stages = options.stages;
  std::string to, from, memoryLimit;

  cl::opt<std::string, true> input(cl::Positional, cl::desc("MODEL.mlir"),
                                   cl::location(options.input), cl::init("-"),
                                   cl::cat(category));
  auto output = flag("o", "executable, or MLIR with --compile-to",
                     options.output, "FILE");
  auto target = flag("target", "cpu or cuda", stages.target, "NAME");
  cl::list<std::string> archs(
      "arch",
      cl::desc("architectures of CUDA kernels (default: sm_80,sm_89,sm_90a)"),
      cl::CommaSeparated, cl::value_desc("LIST"), cl::cat(category));
  auto toolkit = flag("cuda-toolkit",
                      "folder of the CUDA toolkit (default: CUDA_HOME, PATH, "
                      "/usr/local/cuda)",
                      stages.cudaToolkit, "DIR");
  auto batch =
      flag("batch", "sequences (samples) a microbatch", stages.batch, "N");
  auto seq = flag("seq", "tokens a sequence", stages.seq, "N");
  auto accum = flag("accum", "microbatches a step", stages.microbatches, "N");
  auto precision = flag("precision", "fp64, fp32, fp32tc, tf32 or bf16",
                        stages.precision, "POLICY");
  auto optimizer = flag("optimizer", "adamw or sgd", stages.optimizer, "NAME");
  cl::list<std::string> paramGroups(
      "param-group",
      cl::desc(
          "multiply learning rate and weight decay of the parameters whose "
          "name matches a glob pattern, PATTERN:lr=FACTOR:decay=FACTOR"),
      cl::value_desc("GROUP"), cl::cat(category));
  auto dropout = flag("dropout", "rate of every dropout of the model",
                      stages.dropout, "P");
  auto remat = flag("remat",
                    "what the backward pass computes again: none, cheap "
                    "(norms and activations), full (stack iterations)",
                    stages.remat, "WHAT");
  auto lossHead = flag("loss-head-bytes",
                       "most bytes of logits at a time in training; 0: all",
                       stages.lossHeadBytes, "N");
  auto padVocab =
      flag("pad-vocab",
           "compute a number of logits that is a multiple of this (default: 64 "
           "on cuda); 0: as many as there are classes",
           stages.padVocab, "N");
  auto limit =
      flag("memory-limit", "refuse a plan with a larger arena (KiB, MiB, GiB)",
           memoryLimit, "BYTES");
  auto mesh = flag("mesh",
                   "devices of the program, by named axes: dp=4 for four "
                   "replicas that share a batch",
                   stages.mesh, "AXES");
  auto zero = flag("zero",
                   "what the replicas of a mesh share instead of each having "
                   "all of it: nothing (0), optimizer state (1), gradients "
                   "too (2), parameters too (3)",
                   stages.zero, "STAGE");
  auto layout = flag("layout",
                     "JSON file that says how tensors are cut where it is not "
                     "as by default (docs/Distribution.md)",
                     stages.layout, "FILE");
  auto link = flag("link",
                   "expected speed between devices for the report, "
                   "latency_us=N,gb_per_s=N (default: 10 and 350 on cuda, 20 "
                   "and 4 on cpu)",
                   stages.link, "MODEL");
  auto verifyPlan =
      flag("verify-plan",
           "run the program of the mesh and that of one device in the "
           "interpreter, in f64, and compare; for small shapes",
           options.verifyPlan, "");
  auto report = flag(
      "report", "write the plan report, as JSON or, for FILE.html, as a page",
      options.report, "FILE");
  auto compileTo = flag("compile-to", "stop after a stage", to, "STAGE");
  auto compileFrom =
      flag("compile-from", "the input is what this stage left", from, "STAGE");
  auto dump = flag("dump-stages", "write the IR after each stage into a folder",
                   options.dumpStages, "DIR");
  auto cpu = flag("cpu", "CPU to generate code for, as of clang -mcpu",
                  options.cpu, "NAME");
  auto features =
      flag("features", "its features, +a,-b", options.features, "LIST");
  auto linker = flag("linker", "C++ driver that links (default: c++)",
                     options.linker, "PROGRAM");
  auto runtime =
      flag("runtime", "folder of libblurt.a", options.runtimeFolder, "DIR");
  auto vjp = flag("vjp",
                  "compile the model's vector-Jacobian product instead of "
                  "training (for tests)",
                  stages.vjp, "");
  auto debugMemory =
      flag("debug-memory", "check every access against the memory plan",
           stages.debugMemory, "");
  auto debugNonfinite =
      flag("debug-nonfinite",
           "let train --debug-nonfinite find the operation that made a value "
           "that is not finite",
           stages.debugNonfinite, "");
  auto saveTemps = flag("save-temps", "keep FILE.ll, FILE.s and FILE.ARCH.ptx",
                        options.saveTemps, "");

  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv, "BluTrain compiler: a model file to a native executable\n");

  options.commandLine = commandLine(argc, argv);
  if (archs.getNumOccurrences())
    stages.archs.assign(archs.begin(), archs.end());
  stages.paramGroups.assign(paramGroups.begin(), paramGroups.end());
  if (options.saveTemps)
    stages.ptxFile = options.output;
  auto complain = [](const llvm::Twine &message) {
    llvm::WithColor::error(llvm::errs()) << message << "\n";
    return 1;
  };
  if (!memoryLimit.empty() && !parseBytes(memoryLimit, stages.memoryLimit))
    return complain("--memory-limit: expected a positive number with KiB, MiB, "
                    "GiB or nothing behind it, got '" +
                    memoryLimit + "'");
  for (auto [name, opt, value] :
       {std::tuple("--batch", batch.get(), stages.batch),
        std::tuple("--seq", seq.get(), stages.seq)})
    if (opt->getNumOccurrences() && value < 1)
      return complain(llvm::Twine(name) + ": expected at least 1, got " +
                      std::to_string(value));
  if (dropout->getNumOccurrences() && stages.dropout < 0)
    return complain("--dropout: expected a rate from 0 to below 1, got " +
                    llvm::formatv("{0}", stages.dropout).str());
  if (mesh->getNumOccurrences() && stages.mesh.empty())
    return complain("--mesh: expected axes and their sizes, dp=4");
  if (!from.empty()) {
    std::optional<Stage> stage = parseStage("--compile-from", from);
    if (!stage)
      return 1;
    options.from = *stage;
  }
  if (!to.empty()) {
    options.to = parseStage("--compile-to", to);
    if (!options.to)
      return 1;
    if (int(*options.to) < int(options.from))
      return complain("--compile-to: expected '" + from +
                      "' or a later stage, got '" + to + "'");
  }
  if (options.output.empty()) {
    if (!options.to)
      return complain("-o: expected the name of the executable");
    options.output = "-";
  }
  return compile(options);
}
