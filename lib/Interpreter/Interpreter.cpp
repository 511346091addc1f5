//===- Interpreter.cpp - reference evaluation of blu ----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

using namespace mlir;
using namespace blutrain;

const EvaluatorRegistry &EvaluatorRegistry::get() {
  static const EvaluatorRegistry registry = [] {
    EvaluatorRegistry registry;
    registerAttentionEvaluators(registry);
    registerElementwiseEvaluators(registry);
    registerEmbeddingEvaluators(registry);
    registerLossEvaluators(registry);
    registerMatmulEvaluators(registry);
    registerModelEvaluators(registry);
    registerNormalizationEvaluators(registry);
    registerOptimizerEvaluators(registry);
    registerRandomEvaluators(registry);
    registerReductionEvaluators(registry);
    registerShapeEvaluators(registry);
    registerShardingEvaluators(registry);
    return registry;
  }();
  return registry;
}

bool blutrain::isInterpretable(OperationName name) {
  static const StringRef structure[] = {
      blu::ModelOp::getOperationName(), blu::StepOp::getOperationName(),
      blu::ReturnOp::getOperationName(), blu::YieldOp::getOperationName()};
  return llvm::is_contained(structure, name.getStringRef()) ||
         EvaluatorRegistry::get().find(name);
}

/// Where a diagnostic about a value belongs.
static InFlightDiagnostic emitValueError(Value value) {
  if (Operation *op = value.getDefiningOp())
    return op->emitOpError();
  auto argument = cast<BlockArgument>(value);
  return argument.getOwner()->getParentOp()->emitOpError()
         << "argument " << argument.getArgNumber() << " ";
}

static bool isOfType(const Tensor &tensor, RankedTensorType type) {
  return tensor.elementType == type.getElementType() &&
         blu::shapesMatch(tensor.shape, type.getShape()) &&
         tensor.size() == elementCount(tensor.shape);
}

LogicalResult Evaluation::set(Value result, Tensor tensor) {
  auto type = cast<RankedTensorType>(result.getType());
  if (!isOfType(tensor, type))
    return emitValueError(result)
           << "has a value of type " << tensor.type() << ", expected " << type;
  if (options.round)
    for (double &element : tensor.floats)
      element = roundTo(type.getElementType(), element);
  for (int64_t &element : tensor.ints)
    element = wrapTo(type.getElementType(), element);
  values[result] = std::make_shared<const Tensor>(std::move(tensor));
  return success();
}

FailureOr<SmallVector<Tensor>> Evaluation::run(Block &block,
                                               ArrayRef<Tensor> arguments) {
  for (auto [argument, tensor] : llvm::zip(block.getArguments(), arguments))
    if (failed(set(argument, tensor)))
      return failure();
  for (Operation &op : block.without_terminator()) {
    const auto *evaluator = EvaluatorRegistry::get().find(op.getName());
    if (!evaluator)
      return op.emitOpError("has no evaluator in the interpreter");
    if (failed((*evaluator)(&op, *this)))
      return failure();
  }
  SmallVector<Tensor> results;
  for (Value value : block.getTerminator()->getOperands())
    results.push_back((*this)[value]);
  return results;
}

std::string Evaluation::fullName(StringRef name) const {
  return llvm::join(scopes, "") + name.str();
}

const Tensor *Evaluation::findParameter(StringRef name) const {
  auto it = parameters.find(fullName(name));
  return it == parameters.end() ? nullptr : &it->second;
}

FailureOr<SmallVector<Tensor>>
blutrain::interpret(FunctionOpInterface function, ArrayRef<Tensor> arguments,
                    const ParameterMap &parameters,
                    const InterpreterOptions &options) {
  if (function.getNumArguments() != arguments.size())
    return function.emitOpError()
           << "got " << arguments.size() << " arguments, expected "
           << function.getNumArguments();
  Evaluation evaluation(parameters, options);
  return evaluation.run(function.getFunctionBody().front(), arguments);
}

static void
collectParameters(Block &block, const std::string &scope,
                  SmallVector<std::pair<std::string, RankedTensorType>> &out) {
  for (Operation &op : block) {
    if (auto param = dyn_cast<blu::ParamOp>(op)) {
      out.emplace_back(scope + param.getName().str(), param.getType());
    } else if (auto stack = dyn_cast<blu::StackOp>(op)) {
      for (int64_t i = stack.getFirst(), e = stack.getLast(); i < e; ++i)
        collectParameters(
            *stack.getBodyBlock(),
            scope + stack.getName().str() + "." + std::to_string(i) + ".", out);
    } else {
      for (Region &region : op.getRegions())
        for (Block &inner : region)
          collectParameters(inner, scope, out);
    }
  }
}

SmallVector<std::pair<std::string, RankedTensorType>>
blutrain::parametersOf(FunctionOpInterface function) {
  SmallVector<std::pair<std::string, RankedTensorType>> result;
  collectParameters(function.getFunctionBody().front(), "", result);
  return result;
}
