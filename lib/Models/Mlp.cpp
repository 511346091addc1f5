//===- Mlp.cpp - a multilayer perceptron as a blu model -------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Models/Models.h"

#include "ModelBuilder.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

static llvm::Error check(const MlpConfig &config) {
  if (llvm::Error error = checkPositive("--inputs", config.inputs))
    return error;
  for (int64_t width : config.hidden)
    if (llvm::Error error = checkPositive("each --hidden width", width))
      return error;
  return checkPositive("--classes", config.classes);
}

llvm::Expected<OwningOpRef<ModuleOp>>
blutrain::buildMlp(MLIRContext &context, const MlpConfig &config) {
  if (llvm::Error error = check(config))
    return std::move(error);
  constexpr int64_t unknown = ShapedType::kDynamic;
  Type image = RankedTensorType::get({unknown, config.inputs},
                                     Float32Type::get(&context));
  Type label = RankedTensorType::get({unknown}, IntegerType::get(&context, 32));
  ModelBuilder b(context, "mlp", {{"image", image}, {"label", label}});

  Value x = b.argument(0);
  int64_t in = config.inputs;
  // Variance 2/in keeps the variance of activations (He et al.,
  // arXiv 1502.01852).
  auto linear = [&](size_t number, int64_t out) {
    std::string name = "fc" + std::to_string(number);
    Value weight =
        b.param(name + ".weight", {out, in},
                b.normal(std::sqrt(2.0 / double(in))), name + ".weight");
    Value bias = b.param(name + ".bias", {out}, b.zeros(), name + ".bias");
    x = LinearOp::create(b, x, weight, bias);
    in = out;
  };
  for (auto [i, width] : llvm::enumerate(config.hidden)) {
    linear(i + 1, width);
    if (config.activation == MlpConfig::Activation::Gelu)
      x = GeluOp::create(b, x, GeluKind::Tanh);
    else
      x = ReluOp::create(b, x);
  }
  linear(config.hidden.size() + 1, config.classes);
  constexpr uint64_t ignoreIndex = -100;
  Value loss =
      CrossEntropyOp::create(b, x, b.argument(1), ignoreIndex,
                             LossReduction::Mean, /*classes=*/IntegerAttr());
  return b.finish({{"loss", loss}, {"logits", x}});
}
