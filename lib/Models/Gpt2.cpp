//===- Gpt2.cpp - GPT-2 as a blu model ------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Models/Models.h"

#include "ModelBuilder.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

static constexpr double epsilon = 1e-5;
static constexpr double initStd = 0.02;
static constexpr int64_t unknown = ShapedType::kDynamic;

std::optional<Gpt2Config> Gpt2Config::preset(StringRef name) {
  auto sized = [](int64_t layers, int64_t heads, int64_t dim) {
    Gpt2Config config;
    config.layers = layers;
    config.heads = heads;
    config.dim = dim;
    return config;
  };
  if (name == "124m")
    return sized(12, 12, 768);
  if (name == "355m")
    return sized(24, 16, 1024);
  if (name == "774m")
    return sized(36, 20, 1280);
  if (name == "1558m")
    return sized(48, 25, 1600);
  return std::nullopt;
}

static llvm::Error check(const Gpt2Config &config) {
  // Token ids are i32, and 4 * dim must not overflow.
  constexpr int64_t largest = std::numeric_limits<int32_t>::max();
  for (auto [what, value] :
       {std::pair("--layers", config.layers),
        std::pair("--heads", config.heads), std::pair("--dim", config.dim),
        std::pair("--vocab", config.vocab),
        std::pair("--context", config.context)}) {
    if (llvm::Error error = checkPositive(what, value))
      return error;
    if (value > largest)
      return llvm::createStringError("expected %s of at most %lld, got %lld",
                                     what, static_cast<long long>(largest),
                                     static_cast<long long>(value));
  }
  if (config.dim % config.heads != 0)
    return llvm::createStringError(
        "expected --dim to be a multiple of --heads (%lld), got %lld",
        static_cast<long long>(config.heads),
        static_cast<long long>(config.dim));
  if (!(config.dropout >= 0 && config.dropout < 1))
    return llvm::createStringError(
        "expected --dropout of at least 0 and less than 1, got %g",
        config.dropout);
  return llvm::Error::success();
}

namespace {

/// Builds the parts of GPT-2. `names` is the prefix that parameters have in
/// weight files.
class Gpt2Builder : public ModelBuilder {
public:
  Gpt2Builder(MLIRContext &context, const Gpt2Config &config)
      : ModelBuilder(context, "gpt2", arguments(context)), config(config) {}

  llvm::Expected<OwningOpRef<ModuleOp>> build();

private:
  static SmallVector<NamedType> arguments(MLIRContext &context) {
    Type ids = RankedTensorType::get({unknown, unknown},
                                     IntegerType::get(&context, 32));
    return {{"tokens", ids}, {"targets", ids}};
  }

  Value dropout(Value x) {
    return DropoutOp::create(*this, x, /*key=*/Value(),
                             getF64FloatAttr(config.dropout));
  }

  Value layerNorm(Value x, StringRef name, StringRef prefix) {
    std::string local = name.str(), exported = (prefix + name).str();
    Value weight =
        param(local + ".weight", {config.dim}, ones(), exported + ".weight");
    Value bias =
        param(local + ".bias", {config.dim}, zeros(), exported + ".bias");
    return LayerNormOp::create(*this, x, weight, bias,
                               getF64FloatAttr(epsilon));
  }

  /// An affine map inside a block. Weight files hold its matrix as (in, out).
  Value linear(Value x, StringRef name, int64_t in, int64_t out, double std) {
    std::string local = name.str(), exported = "h.{i}." + local;
    Value weight = param(local + ".weight", {out, in}, normal(std),
                         exported + ".weight", /*transpose=*/true);
    Value bias = param(local + ".bias", {out}, zeros(), exported + ".bias");
    return LinearOp::create(*this, x, weight, bias);
  }

  Value attention(Value x);
  Value mlp(Value x);
  Value block(Value x);

  const Gpt2Config &config;
};

} // namespace

/// B×T×d -> B×T×d: heads attend, their results are projected.
Value Gpt2Builder::attention(Value x) {
  int64_t d = config.dim, headDim = d / config.heads;
  Value qkv = linear(x, "attn.c_attn", d, 3 * d, initStd);
  auto parts = SplitOp::create(*this, qkv, /*dim=*/2, ArrayRef{d, d, d});
  SmallVector<Value> heads;
  for (Value part : parts.getParts())
    heads.push_back(ReshapeOp::create(
        *this, part, ArrayRef<int64_t>{0, 0, config.heads, -1}));
  auto attention = AttentionOp::create(
      *this, heads[0], heads[1], heads[2],
      getF64FloatAttr(1.0 / std::sqrt(double(headDim))), getUnitAttr());
  Value joined = ReshapeOp::create(*this, attention.getResult(),
                                   ArrayRef<int64_t>{0, 0, -1});
  // The residual stream adds up 2L branches: their projections start smaller.
  double std = initStd / std::sqrt(2.0 * double(config.layers));
  return linear(joined, "attn.c_proj", d, d, std);
}

Value Gpt2Builder::mlp(Value x) {
  int64_t d = config.dim;
  Value hidden = linear(x, "mlp.c_fc", d, 4 * d, initStd);
  Value active = GeluOp::create(*this, hidden, GeluKind::Tanh);
  double std = initStd / std::sqrt(2.0 * double(config.layers));
  return linear(active, "mlp.c_proj", 4 * d, d, std);
}

Value Gpt2Builder::block(Value x) {
  Value attended = attention(layerNorm(x, "ln_1", "h.{i}."));
  x = AddOp::create(*this, x, dropout(attended));
  Value mapped = mlp(layerNorm(x, "ln_2", "h.{i}."));
  return AddOp::create(*this, x, dropout(mapped));
}

llvm::Expected<OwningOpRef<ModuleOp>> Gpt2Builder::build() {
  getModel()->setAttr("blu.vocab_size", getI64IntegerAttr(config.vocab));
  getModel()->setAttr("blu.context", getI64IntegerAttr(config.context));
  getModel()->setAttr("blu.heads", getI64IntegerAttr(config.heads));
  Value tokens = argument(0), targets = argument(1);

  Value wte = param("wte.weight", {config.vocab, config.dim}, normal(initStd),
                    "wte.weight");
  Value wpe = param("wpe.weight", {config.context, config.dim}, normal(initStd),
                    "wpe.weight");
  Value positions =
      PositionsOp::create(*this, tokens, /*position=*/Value(), /*dim=*/1);
  Value embedded =
      AddOp::create(*this, EmbeddingOp::create(*this, wte, tokens).getResult(),
                    EmbeddingOp::create(*this, wpe, positions).getResult());

  auto stack = StackOp::create(*this, "block", 0, config.layers,
                               /*reverse=*/false, dropout(embedded),
                               /*slices=*/ValueRange(),
                               /*collectedTypes=*/TypeRange());
  {
    InsertionGuard guard(*this);
    setInsertionPointToStart(stack.getBodyBlock());
    YieldOp::create(*this, block(stack.getCarryArg(0)));
  }

  Value final = layerNorm(stack.getResult(0), "ln_f", "");
  Value logits = LinearOp::create(*this, final, wte, /*bias=*/Value());
  constexpr uint64_t ignoreIndex = -100;
  Value loss =
      CrossEntropyOp::create(*this, logits, targets, ignoreIndex,
                             LossReduction::Mean, /*classes=*/IntegerAttr());
  Value tokenLoss =
      CrossEntropyOp::create(*this, logits, targets, ignoreIndex,
                             LossReduction::None, /*classes=*/IntegerAttr());
  return finish(
      {{"loss", loss}, {"token_loss", tokenLoss}, {"logits", logits}});
}

llvm::Expected<OwningOpRef<ModuleOp>>
blutrain::buildGpt2(MLIRContext &context, const Gpt2Config &config) {
  if (llvm::Error error = check(config))
    return std::move(error);
  return Gpt2Builder(context, config).build();
}
