//===- ModelBuilder.h - what the builders of models share -------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_MODELS_MODELBUILDER_H
#define BLUTRAIN_LIB_MODELS_MODELBUILDER_H

#include "Blu/Blu.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/Error.h"

namespace blutrain {

/// A name and a type: an argument of the model.
struct NamedType {
  llvm::StringRef name;
  mlir::Type type;
};

/// A name and a value: a result of the model.
struct NamedValue {
  llvm::StringRef name;
  mlir::Value value;
};

/// Builds one `blu.model` in f32. Ops are created through it; their result
/// types are inferred.
class ModelBuilder : public mlir::ImplicitLocOpBuilder {
public:
  /// Opens a model and inserts at its beginning.
  ModelBuilder(mlir::MLIRContext &context, llvm::StringRef name,
               llvm::ArrayRef<NamedType> arguments);

  /// Returns the results from the model, closes and verifies it.
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
  finish(llvm::ArrayRef<NamedValue> results);

  mlir::blu::ModelOp getModel() { return model; }
  mlir::Value argument(unsigned i) {
    return model.getBodyBlock()->getArgument(i);
  }

  /// `exportName` is the name in weight files; `transpose` the layout there.
  mlir::Value param(llvm::StringRef name, llvm::ArrayRef<int64_t> shape,
                    mlir::Attribute init, llvm::StringRef exportName,
                    bool transpose = false);

  mlir::Attribute zeros();
  mlir::Attribute ones();
  mlir::Attribute normal(double std);

  mlir::RankedTensorType f32Tensor(llvm::ArrayRef<int64_t> shape);
  mlir::RankedTensorType i32Tensor(llvm::ArrayRef<int64_t> shape);

private:
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::blu::ModelOp model;
};

/// `expected WHAT of at least 1, got VALUE`.
llvm::Error checkPositive(llvm::StringRef what, int64_t value);

} // namespace blutrain

#endif // BLUTRAIN_LIB_MODELS_MODELBUILDER_H
