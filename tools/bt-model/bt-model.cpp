//===- bt-model.cpp - write a model file ----------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Models/Models.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace blutrain;
namespace cl = llvm::cl;

static cl::OptionCategory category("bt-model options");
static cl::SubCommand gpt2("gpt2", "GPT-2: a decoder-only transformer");
static cl::SubCommand mlp("mlp", "a multilayer perceptron that classifies");

static cl::opt<std::string> output("o", cl::desc("Output file (default: -)"),
                                   cl::value_desc("file"), cl::init("-"),
                                   cl::cat(category), cl::sub(gpt2),
                                   cl::sub(mlp));

static cl::opt<std::string>
    preset("preset", cl::desc("Published size: 124m, 355m, 774m or 1558m"),
           cl::value_desc("size"), cl::init("124m"), cl::cat(category),
           cl::sub(gpt2));
static cl::opt<int64_t> layers("layers", cl::desc("Transformer blocks"),
                               cl::value_desc("n"), cl::cat(category),
                               cl::sub(gpt2));
static cl::opt<int64_t> heads("heads", cl::desc("Attention heads a block"),
                              cl::value_desc("n"), cl::cat(category),
                              cl::sub(gpt2));
static cl::opt<int64_t> dim("dim", cl::desc("Width of the residual stream"),
                            cl::value_desc("n"), cl::cat(category),
                            cl::sub(gpt2));
static cl::opt<int64_t> vocab("vocab", cl::desc("Number of tokens"),
                              cl::value_desc("n"), cl::cat(category),
                              cl::sub(gpt2));
static cl::opt<int64_t> context("context",
                                cl::desc("Longest sequence, in tokens"),
                                cl::value_desc("n"), cl::cat(category),
                                cl::sub(gpt2));
static cl::opt<double> dropout("dropout", cl::desc("Rate of dropout"),
                               cl::value_desc("p"), cl::init(0.0),
                               cl::cat(category), cl::sub(gpt2));

static cl::opt<int64_t> inputs("inputs", cl::desc("Numbers an image"),
                               cl::value_desc("n"), cl::cat(category),
                               cl::sub(mlp));
static cl::list<int64_t> hidden("hidden",
                                cl::desc("Widths of the hidden layers"),
                                cl::value_desc("n,n,..."), cl::CommaSeparated,
                                cl::cat(category), cl::sub(mlp));
static cl::opt<int64_t> classes("classes", cl::desc("Number of classes"),
                                cl::value_desc("n"), cl::cat(category),
                                cl::sub(mlp));
static cl::opt<MlpConfig::Activation> activation(
    "activation", cl::desc("Between the layers:"),
    cl::values(clEnumValN(MlpConfig::Activation::Gelu, "gelu", "tanh GELU"),
               clEnumValN(MlpConfig::Activation::Relu, "relu", "max(x, 0)")),
    cl::init(MlpConfig::Activation::Gelu), cl::cat(category), cl::sub(mlp));

static void overrideWith(int64_t &value, const cl::opt<int64_t> &option) {
  if (option.getNumOccurrences())
    value = option;
}

using Module = mlir::OwningOpRef<mlir::ModuleOp>;

static llvm::Expected<Module> buildModule(mlir::MLIRContext &mlirContext) {
  if (gpt2) {
    std::optional<Gpt2Config> config = Gpt2Config::preset(preset);
    if (!config)
      return llvm::createStringError(
          "expected --preset 124m, 355m, 774m or 1558m, got '%s'",
          preset.c_str());
    overrideWith(config->layers, layers);
    overrideWith(config->heads, heads);
    overrideWith(config->dim, dim);
    overrideWith(config->vocab, vocab);
    overrideWith(config->context, context);
    config->dropout = dropout;
    return buildGpt2(mlirContext, *config);
  }
  if (mlp) {
    MlpConfig config;
    overrideWith(config.inputs, inputs);
    overrideWith(config.classes, classes);
    if (hidden.getNumOccurrences())
      config.hidden.assign(hidden.begin(), hidden.end());
    config.activation = activation;
    return buildMlp(mlirContext, config);
  }
  return llvm::createStringError("expected a model, gpt2 or mlp; see --help");
}

/// Writes `text` to `stream`; gives what went wrong, if anything did.
static std::error_code writeText(llvm::raw_fd_ostream &stream,
                                 llvm::StringRef text) {
  stream << text;
  stream.flush();
  std::error_code error = stream.error();
  stream.clear_error();
  return error;
}

/// A regular file is replaced as a whole, by a finished one; anything else that
/// exists (a pipe, a device) is written to.
static std::error_code replaceFile(llvm::StringRef path, llvm::StringRef text) {
  namespace fs = llvm::sys::fs;
  if (path == "-")
    return writeText(llvm::outs(), text);
  fs::file_status status;
  if (!fs::status(path, status) && !fs::is_regular_file(status)) {
    std::error_code error;
    llvm::raw_fd_ostream stream(path, error, fs::CD_OpenExisting);
    return error ? error : writeText(stream, text);
  }
  llvm::Expected<fs::TempFile> file =
      fs::TempFile::create(path + ".tmp-%%%%%%");
  if (!file)
    return llvm::errorToErrorCode(file.takeError());
  llvm::raw_fd_ostream stream(file->FD, /*shouldClose=*/false);
  std::error_code error = writeText(stream, text);
  if (!error)
    error = llvm::errorToErrorCode(file->keep(path));
  if (error)
    llvm::consumeError(file->discard());
  return error;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  for (cl::SubCommand *command : {&cl::SubCommand::getTopLevel(), &gpt2, &mlp})
    cl::HideUnrelatedOptions(category, *command);
  cl::ParseCommandLineOptions(argc, argv, "BluTrain model writer\n");

  auto fail = [](llvm::Error error) {
    llvm::WithColor::error(llvm::errs(), "bt-model")
        << llvm::toString(std::move(error)) << '\n';
    return 1;
  };
  mlir::MLIRContext mlirContext(mlir::MLIRContext::Threading::DISABLED);
  llvm::Expected<Module> module = buildModule(mlirContext);
  if (!module)
    return fail(module.takeError());
  std::string text;
  llvm::raw_string_ostream stream(text);
  (*module)->print(stream);
  if (std::error_code error = replaceFile(output, text))
    return fail(llvm::createStringError(error, "cannot write '%s': %s",
                                        output.c_str(),
                                        error.message().c_str()));
  return 0;
}
