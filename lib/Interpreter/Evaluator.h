//===- Evaluator.h - how ops register their evaluation ----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Each op family has one file, named as in dialects/Blu, that registers one
// evaluator an op. An evaluator reads the op's operands from an Evaluation and
// sets its results there.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_INTERPRETER_EVALUATOR_H
#define BLUTRAIN_LIB_INTERPRETER_EVALUATOR_H

#include "blutrain/Interpreter/Interpreter.h"

#include "Blu/Blu.h"
#include "Blu/BluSupport.h"

#include <functional>
#include <memory>

namespace blutrain {

/// The values of one run of a function, by SSA value.
class Evaluation {
public:
  Evaluation(const ParameterMap &parameters, const InterpreterOptions &options)
      : parameters(parameters), options(options) {}

  /// The value of an operand.
  const Tensor &operator[](mlir::Value value) const {
    return *values.find(value)->second;
  }
  /// Gives a result its value, rounded if the options say so. Fails after a
  /// diagnostic if it is not of the result's type.
  mlir::LogicalResult set(mlir::Value result, Tensor tensor);

  /// Runs a block and returns the operands of its terminator.
  mlir::FailureOr<llvm::SmallVector<Tensor>>
  run(mlir::Block &block, llvm::ArrayRef<Tensor> arguments);

  /// The value of a parameter where the run stands, or null.
  const Tensor *findParameter(llvm::StringRef name) const;
  /// The name of a parameter, with the stacks around it.
  std::string fullName(llvm::StringRef name) const;

  const InterpreterOptions &getOptions() const { return options; }

  /// Stacks, and their iterations, that the run is in: `block.0.`, ….
  llvm::SmallVector<std::string> scopes;

private:
  const ParameterMap &parameters;
  const InterpreterOptions &options;
  llvm::DenseMap<mlir::Value, std::shared_ptr<const Tensor>> values;
};

class EvaluatorRegistry {
public:
  using Evaluator =
      std::function<mlir::LogicalResult(mlir::Operation *, Evaluation &)>;

  template <typename Op>
  void add(mlir::LogicalResult (*evaluate)(Op, Evaluation &)) {
    table[Op::getOperationName()] = [=](mlir::Operation *op, Evaluation &e) {
      return evaluate(llvm::cast<Op>(op), e);
    };
  }
  const Evaluator *find(mlir::OperationName name) const {
    auto it = table.find(name.getStringRef());
    return it == table.end() ? nullptr : &it->second;
  }
  /// All evaluators.
  static const EvaluatorRegistry &get();

private:
  llvm::StringMap<Evaluator> table;
};

void registerAttentionEvaluators(EvaluatorRegistry &registry);
void registerElementwiseEvaluators(EvaluatorRegistry &registry);
void registerEmbeddingEvaluators(EvaluatorRegistry &registry);
void registerLossEvaluators(EvaluatorRegistry &registry);
void registerMatmulEvaluators(EvaluatorRegistry &registry);
void registerModelEvaluators(EvaluatorRegistry &registry);
void registerNormalizationEvaluators(EvaluatorRegistry &registry);
void registerOptimizerEvaluators(EvaluatorRegistry &registry);
void registerRandomEvaluators(EvaluatorRegistry &registry);
void registerReductionEvaluators(EvaluatorRegistry &registry);
void registerShapeEvaluators(EvaluatorRegistry &registry);
void registerShardingEvaluators(EvaluatorRegistry &registry);

/// Zeros of the element type of `like`.
inline Tensor zerosFor(mlir::Value like, llvm::ArrayRef<int64_t> shape) {
  return Tensor(
      shape,
      llvm::cast<mlir::RankedTensorType>(like.getType()).getElementType());
}

/// A shape as rows of its last dim: their number and their length.
inline std::pair<int64_t, int64_t> asRows(llvm::ArrayRef<int64_t> shape) {
  return {elementCount(shape.drop_back()), shape.back()};
}

} // namespace blutrain

#endif // BLUTRAIN_LIB_INTERPRETER_EVALUATOR_H
