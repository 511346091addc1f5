//===- Models.h - models built in code --------------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// What `bt-model` writes. A builder checks its configuration, then returns a
// module that holds one verified `blu.model` with batch and sequence unknown.
// The same configuration always gives the same text.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_MODELS_MODELS_H
#define BLUTRAIN_MODELS_MODELS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <optional>

namespace blutrain {

/// GPT-2 (Radford et al., 2019) as Hugging Face and llm.c compute it.
struct Gpt2Config {
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t dim = 768;
  int64_t vocab = 50257;
  int64_t context = 1024;
  /// Rate of the three kinds of dropout: after the embedding and on both
  /// residual branches. At 0 the ops are markers, for `bt-compile --dropout`.
  double dropout = 0.0;

  /// The published sizes: 124m, 355m, 774m, 1558m.
  static std::optional<Gpt2Config> preset(llvm::StringRef name);
};

/// A classifier of flat images: linear layers with an activation in between.
struct MlpConfig {
  enum class Activation { Gelu, Relu };
  int64_t inputs = 784;
  llvm::SmallVector<int64_t> hidden = {256, 128};
  int64_t classes = 10;
  Activation activation = Activation::Gelu;
};

/// Fails with a message of the form `expected …, got …`.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
buildGpt2(mlir::MLIRContext &context, const Gpt2Config &config);
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
buildMlp(mlir::MLIRContext &context, const MlpConfig &config);

} // namespace blutrain

#endif // BLUTRAIN_MODELS_MODELS_H
