//===- Interpreter.h - reference evaluation of blu --------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Evaluates a `blu.model` or `blu.step` one op at a time: what compiled code is
// tested against. Each op is the loop nest of its definition, sums run in plain
// order, and every float is a double whatever its type says.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_INTERPRETER_INTERPRETER_H
#define BLUTRAIN_INTERPRETER_INTERPRETER_H

#include "blutrain/Interpreter/Tensor.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

#include <map>
#include <string>
#include <vector>

namespace blutrain {

/// Where the devices of a mesh, a thread each, meet for collectives.
class Meeting {
public:
  virtual ~Meeting() = default;
  virtual int64_t size() const = 0;
  /// What everybody brings to `op`, in the order of the devices; waits for all
  /// of them. Fails if one of them has left, or is at an op that does something
  /// else.
  virtual mlir::FailureOr<std::vector<std::vector<Tensor>>>
  exchange(int64_t device, mlir::Operation *op, std::vector<Tensor> mine) = 0;
};

struct InterpreterOptions {
  /// Round each float result of an op, and each argument and parameter, to its
  /// element type.
  bool round = false;
  /// With `device`, for programs of several devices.
  Meeting *meeting = nullptr;
  int64_t device = 0;
};

/// Parameters of a model by full name: those inside stacks are
/// `STACK.ITERATION.NAME`, iterations numbered from the stack's `first`.
using ParameterMap = std::map<std::string, Tensor>;

/// The results of `function` on `arguments`. Unknown extents in its types are
/// whatever the arguments have. Fails after a diagnostic at the op at fault.
mlir::FailureOr<llvm::SmallVector<Tensor>>
interpret(mlir::FunctionOpInterface function, llvm::ArrayRef<Tensor> arguments,
          const ParameterMap &parameters = {},
          const InterpreterOptions &options = {});

/// Full names and types of the parameters of a model, in the order in which it
/// reads them.
llvm::SmallVector<std::pair<std::string, mlir::RankedTensorType>>
parametersOf(mlir::FunctionOpInterface function);

/// Whether `interpret` knows the op: it has an evaluator, or is part of the
/// structure that the interpreter walks.
bool isInterpretable(mlir::OperationName name);

} // namespace blutrain

#endif // BLUTRAIN_INTERPRETER_INTERPRETER_H
