//===- StepUtils.h - arguments and results of steps -------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_AUTODIFF_STEPUTILS_H
#define BLUTRAIN_AUTODIFF_STEPUTILS_H

#include "Blu/Blu.h"
#include "mlir/IR/BuiltinOps.h"

namespace blutrain {

/// `{name = …, role = …}`, what `blu.tensor` says at the least.
mlir::DictionaryAttr tensorInfo(mlir::MLIRContext *context,
                                llvm::StringRef name, llvm::StringRef role);

/// What `blu.tensor` says of a tensor that goes with a parameter and is laid
/// out as it is: a moment, a gradient.
mlir::DictionaryAttr likeParameter(mlir::blu::StepOp step,
                                   mlir::Value parameter, llvm::StringRef role);

/// Name and role of an argument, empty where it has none.
llvm::StringRef argumentName(mlir::blu::StepOp step, unsigned i);
llvm::StringRef argumentRole(mlir::blu::StepOp step, unsigned i);

/// The argument of that role and name, or null.
mlir::Value findArgument(mlir::blu::StepOp step, llvm::StringRef role,
                         llvm::StringRef name);

struct StepGradient {
  unsigned result;
  mlir::BlockArgument param;
  mlir::Value value;
  bool isStacked; ///< dim 0 is the iteration of a stack
};

/// The results of role `gradient`, each with its parameter. Fails, with an
/// error at the step, if there is none of that name.
mlir::FailureOr<llvm::SmallVector<StepGradient>>
getGradients(mlir::blu::StepOp step);

/// Appends an argument.
mlir::Value addArgument(mlir::blu::StepOp step, mlir::Type type,
                        mlir::DictionaryAttr info);

/// The scalar of that name, appended if the step does not have it yet.
mlir::Value getScalar(mlir::blu::StepOp step, llvm::StringRef name,
                      mlir::Type elementType);

/// Appends a result with the given attribute, `blu.tensor` or `blu.donates`.
void addResult(mlir::blu::StepOp step, mlir::Value value,
               mlir::NamedAttribute attribute);
void addOutput(mlir::blu::StepOp step, mlir::Value value, llvm::StringRef name,
               llvm::StringRef role = "output");
void addDonation(mlir::blu::StepOp step, mlir::Value value, unsigned argument);

/// The output of that name, or null.
mlir::Value findOutput(mlir::blu::StepOp step, llvm::StringRef name);

/// Steps of the module that run as `program`.
llvm::SmallVector<mlir::blu::StepOp> findSteps(mlir::ModuleOp module,
                                               mlir::blu::Program program);

/// Turns a model of static shapes into a step: parameters become arguments.
llvm::FailureOr<mlir::blu::StepOp> materializeState(mlir::blu::ModelOp model,
                                                    mlir::blu::Program program);

/// `stack` with more stacked operands; its body's new arguments are the last.
mlir::blu::StackOp addSlices(mlir::blu::StackOp stack,
                             llvm::ArrayRef<mlir::Value> operands);

} // namespace blutrain

#endif // BLUTRAIN_AUTODIFF_STEPUTILS_H
