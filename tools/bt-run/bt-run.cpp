//===- bt-run.cpp - interpret a model or step -----------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Interpreter/Binding.h"
#include "blutrain/Interpreter/Interpreter.h"
#include "blutrain/Pipelines/Registration.h"

#include "Blu/Blu.h"

#include "mlir/IR/AsmState.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace blutrain;

namespace cl = llvm::cl;

static cl::opt<std::string> moduleName(cl::Positional, cl::init("-"),
                                       cl::desc("<module in the blu dialect>"));
static cl::opt<std::string>
    entryName("entry", cl::value_desc("name"),
              cl::desc("model or step to run; not needed if there is one"));
static cl::opt<std::string>
    inputsName("inputs", cl::value_desc("file"),
               cl::desc("safetensors with arguments and parameters by name"));
static cl::opt<std::string>
    outputsName("outputs", cl::value_desc("file"),
                cl::desc("safetensors to write the results to"));
static cl::opt<bool> printResults("print", cl::desc("print the results"));
static cl::opt<bool>
    roundResults("round",
                 cl::desc("round the result of each op to its element type"));

static LogicalResult fail(const Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return failure();
}

/// The model or step that is to run.
static FailureOr<FunctionOpInterface> findEntry(ModuleOp module) {
  SmallVector<FunctionOpInterface> entries;
  for (Operation &op : *module.getBody())
    if (isa<blu::ModelOp, blu::StepOp>(op))
      entries.push_back(cast<FunctionOpInterface>(op));
  std::string names;
  for (FunctionOpInterface entry : entries) {
    if (entry.getName() == entryName)
      return entry;
    names += (names.empty() ? "'" : ", '") + entry.getName().str() + "'";
  }
  if (entries.empty())
    return fail(Twine(moduleName) + ": expected a blu.model or blu.step");
  if (!entryName.empty())
    return fail("--entry: no model or step '" + Twine(entryName) +
                "', there are: " + names);
  if (entries.size() > 1)
    return fail("--entry: expected one of " + Twine(names));
  return entries.front();
}

static void print(StringRef name, const Tensor &tensor) {
  llvm::outs() << name << " : " << tensor.type() << " = [";
  for (int64_t i = 0; i < tensor.size(); ++i) {
    llvm::outs() << (i ? ", " : "");
    if (tensor.isFloat())
      llvm::outs() << llvm::format("%.17g", tensor.floats[i]);
    else
      llvm::outs() << tensor.ints[i];
  }
  llvm::outs() << "]\n";
}

static LogicalResult runMain() {
  std::string message;
  auto buffer = openInputFile(moduleName, &message);
  if (!buffer)
    return fail(message);
  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  if (!module)
    return failure();
  auto entry = findEntry(*module);
  if (failed(entry))
    return failure();

  StoredTensors stored;
  if (!inputsName.empty())
    if (std::string error = readTensorFile(inputsName, stored); !error.empty())
      return fail(error);
  auto inputs = bindInputs(*entry, stored);
  if (failed(inputs))
    return failure();
  InterpreterOptions options;
  options.round = roundResults;
  auto results =
      interpret(*entry, inputs->arguments, inputs->parameters, options);
  if (failed(results))
    return failure();

  std::vector<std::pair<std::string, StoredTensor>> outputs;
  for (const auto &[name, tensor] : nameResults(*entry, *results)) {
    if (printResults)
      print(name, tensor);
    outputs.emplace_back(name, store(tensor, roundResults));
  }
  if (!outputsName.empty())
    if (std::string error = writeTensorFile(outputsName, outputs);
        !error.empty())
      return fail(error);
  return success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(
      argc, argv,
      "BluTrain reference interpreter\n\n"
      "Evaluates a blu.model or blu.step in f64, one op at a time. Inputs are "
      "found by\nname: a model's arguments and parameters, a step's arguments "
      "by their name or\nROLE:NAME. Results are printed or written by name.\n");
  return failed(runMain());
}
