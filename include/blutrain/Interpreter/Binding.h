//===- Binding.h - arguments and results by name ----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Names of a function's tensors: those of a `blu.model` are its `blu.name`s and
// the full names of its parameters, those of a `blu.step` the names in its
// `blu.tensor`s. Moments, caches and gradients, and what else is not unique, go
// by `ROLE:NAME`. A tensor of a stack, `block.{i}.weight` with all iterations
// along dim 0, goes by the names of its iterations, `block.0.weight`, ….
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_INTERPRETER_BINDING_H
#define BLUTRAIN_INTERPRETER_BINDING_H

#include "blutrain/Interpreter/Interpreter.h"
#include "blutrain/Interpreter/TensorFile.h"

namespace blutrain {

/// What a function runs on.
struct Inputs {
  llvm::SmallVector<Tensor> arguments;
  ParameterMap parameters;
};

/// Finds the inputs of `function` among `tensors`; others are left alone. Any
/// float dtype serves a float tensor, any integer dtype that holds its values
/// an integer tensor. Fails after a diagnostic that names the tensor.
mlir::FailureOr<Inputs> bindInputs(mlir::FunctionOpInterface function,
                                   const StoredTensors &tensors);

/// The results with their names. A donated argument's new value goes by the
/// argument's name. Moments, caches and gradients are always named with their
/// role, as the command `call` of a program does.
llvm::SmallVector<std::pair<std::string, Tensor>>
nameResults(mlir::FunctionOpInterface function, llvm::ArrayRef<Tensor> results);

/// As it is to be stored: floats in f64, or in their element type if they were
/// rounded to it.
StoredTensor store(const Tensor &tensor, bool isRounded);

} // namespace blutrain

#endif // BLUTRAIN_INTERPRETER_BINDING_H
