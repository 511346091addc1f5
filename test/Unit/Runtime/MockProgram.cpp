//===- MockProgram.cpp - A hand-written compiled model --------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Stands in for bt-compile's output, where BLURT_MOCK_NAN_STEP=N and the like
// make step N a bad one: a bigram model over 256 byte tokens, whose
// logits are row `token` of one 256×256 parameter, trained by AdamW. A second
// parameter, stacked and exported transposed, takes no part in the loss and
// sees only weight decay. Variants by macro:
//
//   MOCK_PAIRS         inputs `left` and `right`
//   MOCK_BAD_SCALAR    the train entry reads a scalar nobody knows
//   MOCK_PLAIN         no gradients, no generation, no `clip`
//   MOCK_SGD           says that its optimizer is sgd
//   MOCK_USE_RETIRED   a debug build that reads a retired buffer
//   MOCK_DEBUG         a debug build that does not
//   MOCK_HUGE          a plan that no machine has the memory for
//   MOCK_CUDA          for CUDA, with the same steps as kernels that FakeCuda
//                      finds here, and a product that a kernel checks
//   MOCK_RANKS         for three devices, with collectives whose results nobody
//                      reads
//
//===----------------------------------------------------------------------===//

#include "FakeKernel.h"
#include "blurt/blurt.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace {

constexpr int64_t kVocab = 256, kMicro = 2, kBatch = 2, kSeq = 8, kChunk = 4;
constexpr int64_t kTokens = kMicro * kBatch * kSeq;
constexpr uint64_t kTableBytes = kVocab * kVocab * 4;

enum Offset : uint64_t {
  Table = 0,
  Scale = Table + kTableBytes,
  Moment1 = Scale + 3 * 64,
  Moment2 = Moment1 + kTableBytes,
  Cache = Moment2 + kTableBytes,
  StateEnd = Cache + 64,
  Tokens = StateEnd,
  Targets = Tokens + 128,
  Loss = Targets + 128,
  GradNorm = Loss + 64,
  Applied = GradNorm + 64,
  Scalars = Applied + 64,
  Gradient = Scalars + 16 * 64,
  ScaleGradient = Gradient + kTableBytes,
  TrainEnd = ScaleGradient + 3 * 64,
  Position = StateEnd + 64,
  Logits = Position + 64,
  GenerateEnd = Logits + kChunk * kVocab * 4,
  Counter = TrainEnd,
  MatrixA = Counter + 64,
  MatrixB = MatrixA + 64,
  MatrixC = MatrixB + 64,
  Bias = MatrixC + 64,
  Workspace = Bias + 64,
  Counters = Workspace + 4096,
  CudaEnd = Counters + 64
};
enum Scalar {
  Lr,
  Beta1,
  Beta2,
  Eps,
  WeightDecay,
  Clip,
  Step,
  Seed,
  LossLimit,
  NormLimit,
  Extra
};
constexpr uint64_t scalarAt(Scalar s) { return Scalars + 64 * uint64_t(s); }

template <typename T> T *at(void *arena, uint64_t offset) {
  return reinterpret_cast<T *>(static_cast<std::byte *>(arena) + offset);
}
double scalar(void *arena, Scalar s) { return *at<double>(arena, scalarAt(s)); }

/// log softmax of a row at `index`, and the softmax itself.
double rowLoss(const float *row, int32_t index, double *softmax) {
  double most = *std::max_element(row, row + kVocab), sum = 0;
  for (int64_t v = 0; v < kVocab; ++v)
    sum += softmax[v] = std::exp(row[v] - most);
  for (int64_t v = 0; v < kVocab; ++v)
    softmax[v] /= sum;
  return -(row[index] - most - std::log(sum));
}

/// Rows [begin, end) of the gradient: every task owns its rows.
void gradientRows(void *const *args, int64_t begin, int64_t end) {
  auto *table = static_cast<const float *>(args[0]);
  auto *tokens = static_cast<const int32_t *>(args[1]);
  auto *targets = static_cast<const int32_t *>(args[2]);
  auto *gradient = static_cast<float *>(args[3]);
  double softmax[kVocab];
  for (int64_t row = begin; row < end; ++row) {
    float *out = gradient + row * kVocab;
    std::fill(out, out + kVocab, 0.0f);
    for (int64_t i = 0; i < kTokens; ++i) {
      if (tokens[i] != row)
        continue;
      rowLoss(table + row * kVocab, targets[i], softmax);
      for (int64_t v = 0; v < kVocab; ++v)
        out[v] += float((softmax[v] - (v == targets[i])) / double(kTokens));
    }
  }
}

double meanLoss(void *arena, int64_t count) {
  double softmax[kVocab], sum = 0;
  auto *tokens = at<int32_t>(arena, Tokens),
       *targets = at<int32_t>(arena, Targets);
  for (int64_t i = 0; i < count; ++i)
    sum += rowLoss(at<float>(arena, Table) + tokens[i] * kVocab, targets[i],
                   softmax);
  return sum / double(count);
}

/// Whether the variable names this step, counted from 1.
bool isStep(const char *variable, int64_t number) {
  const char *value = std::getenv(variable);
  return value && std::atoll(value) == number;
}

[[maybe_unused]] void train(void *ctx, void *arena) {
#if defined(MOCK_DEBUG) || defined(MOCK_USE_RETIRED)
  blurt_debug_use(ctx, at<void>(arena, Tokens), 4 * kTokens,
                  "op 'gather' operand 0");
#endif
  *at<float>(arena, Loss) = float(meanLoss(arena, kTokens));
  auto *gradient = at<float>(arena, Gradient);
  void *args[] = {at<void>(arena, Table), at<void>(arena, Tokens),
                  at<void>(arena, Targets), gradient};
#if defined(MOCK_CUDA)
  gradientRows(args, 0, kVocab);
#else
  blurt_parallel(ctx, gradientRows, args, kVocab, 16);
#endif
  double norm = 0;
  for (int64_t i = 0; i < kVocab * kVocab; ++i)
    norm += double(gradient[i]) * gradient[i];
  norm = std::sqrt(norm);
  int64_t number = *at<int64_t>(arena, scalarAt(Step));
  if (isStep("BLURT_MOCK_NAN_STEP", number))
    *at<float>(arena, Loss) = gradient[0] = NAN;
  if (isStep("BLURT_MOCK_INFINITE_STEP", number))
    norm = INFINITY;
  if (isStep("BLURT_MOCK_HIGH_STEP", number))
    *at<float>(arena, Loss) += 50;
  *at<double>(arena, GradNorm) = norm;
#if defined(MOCK_DEBUG)
  blurt_debug_finite(ctx, gradient, kTableBytes, "scatter at mock.mlir:1", 4);
  blurt_debug_finite(ctx, at<void>(arena, Loss), 4, "mean at mock.mlir:2", 4);
  blurt_debug_finite(ctx, at<void>(arena, GradNorm), 8, "norm at mock.mlir:3",
                     8);
#endif
#if defined(MOCK_DEBUG) || defined(MOCK_USE_RETIRED)
  blurt_debug_define(ctx, at<void>(arena, Loss), 4, "op 'mean' result 0");
  blurt_debug_define(ctx, at<void>(arena, GradNorm), 8, "op 'norm' result 0");
  blurt_debug_define(ctx, at<void>(arena, Applied), 1, "op 'guard' result 0");
  blurt_debug_define(ctx, at<void>(arena, Gradient), TrainEnd - Gradient,
                     "op 'scatter' result 0");
  blurt_debug_retire(ctx, at<void>(arena, Tokens), 4 * kTokens, "tokens");
#endif
#if defined(MOCK_USE_RETIRED)
  blurt_debug_use(ctx, at<void>(arena, Tokens), 4 * kTokens,
                  "op 'again' operand 1");
#endif
#if defined(MOCK_PLAIN)
  double clip = 0;
#else
  double clip = scalar(arena, Clip);
  double loss = double(*at<float>(arena, Loss));
  bool applied = loss > -INFINITY && loss < scalar(arena, LossLimit) &&
                 norm < scalar(arena, NormLimit);
  *at<uint8_t>(arena, Applied) = applied;
  if (!applied)
    return;
#endif
  double factor = clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
  double lr = scalar(arena, Lr), b1 = scalar(arena, Beta1),
         b2 = scalar(arena, Beta2);
  double step = double(number);
  float *table = at<float>(arena, Table), *m = at<float>(arena, Moment1),
        *v = at<float>(arena, Moment2);
  for (int64_t i = 0; i < kVocab * kVocab; ++i) {
    double g = gradient[i] * factor;
    m[i] = float(b1 * m[i] + (1 - b1) * g);
    v[i] = float(b2 * v[i] + (1 - b2) * g * g);
    double update =
        m[i] / (1 - std::pow(b1, step)) /
        (std::sqrt(v[i] / (1 - std::pow(b2, step))) + scalar(arena, Eps));
    table[i] -= float(lr * (update + scalar(arena, WeightDecay) * table[i]));
  }
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t j = 0; j < 6; ++j) {
      at<float>(arena, ScaleGradient + 64 * uint64_t(i))[j] = 0;
      at<float>(arena, Scale + 64 * uint64_t(i))[j] *=
          float(1 - lr * scalar(arena, WeightDecay));
    }
}

[[maybe_unused]] void eval(void *ctx, void *arena) {
  *at<double>(arena, Loss) = meanLoss(arena, kBatch * kSeq);
#if defined(MOCK_DEBUG)
  blurt_debug_define(ctx, at<void>(arena, Loss), 8, "op 'mean' result 0");
#endif
}

[[maybe_unused]] void logits(void *arena, int64_t count) {
  int64_t position = *at<int64_t>(arena, Position);
  float *cache = at<float>(arena, Cache);
  // The cache counts the tokens seen; a wrong position shows in the output.
  bool expected = position == int64_t(cache[0]);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t v = 0; v < kVocab; ++v)
      at<float>(arena, Logits)[i * kVocab + v] =
          expected
              ? at<float>(arena,
                          Table)[at<int32_t>(arena, Tokens)[i] * kVocab + v]
              : NAN;
}
[[maybe_unused]] void prefill(void *, void *arena) {
  logits(arena, kChunk);
  int32_t *tokens = at<int32_t>(arena, Tokens);
  // Zero is the padding; prompts in the tests hold none.
  at<float>(arena, Cache)[0] += float(
      std::count_if(tokens, tokens + kChunk, [](int32_t t) { return t; }));
}
[[maybe_unused]] void decode(void *, void *arena) {
  logits(arena, 1);
  at<float>(arena, Cache)[0] += 1;
}

#if defined(MOCK_CUDA)
constexpr int64_t kRows = 2, kColumns = 3, kDepth = 4;
constexpr int64_t kCounted = (int64_t(7) << 32) + 5;

void operands(void *const *args) {
  for (int64_t i = 0; i < kRows * kDepth; ++i)
    at<float>(args[0], 0)[i] = float(i);
  for (int64_t i = 0; i < kDepth * kColumns; ++i)
    at<float>(args[1], 0)[i] = float(1 + i % 5);
  for (int64_t i = 0; i < kColumns; ++i)
    at<float>(args[2], 0)[i] = float(100 * i);
}

/// Spoils the loss if the product or the counter is not what it should be.
void check(void *const *args) {
  void *arena = args[0];
  bool right = *at<int64_t>(arena, Counter) == kCounted;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kColumns; ++j) {
      float sum = at<float>(arena, Bias)[j];
      for (int64_t k = 0; k < kDepth; ++k)
        sum += at<float>(arena, MatrixA)[i * kDepth + k] *
               at<float>(arena, MatrixB)[k * kColumns + j];
      right &= at<float>(arena, MatrixC)[i * kColumns + j] == sum;
    }
  if (!right)
    *at<float>(arena, Loss) = NAN;
}

enum Kernel { Operands, Train, Check, Eval, Prefill, Decode };

void trainEntry(void *ctx, void *arena) {
  blurt_device_store_i64(ctx, at<void>(arena, Counter), kCounted);
  void *const matrices[] = {at<void>(arena, MatrixA), at<void>(arena, MatrixB),
                            at<void>(arena, Bias)};
  blurt_launch(ctx, Operands, matrices);
  blurt_device_product(ctx, 0, matrices[0], matrices[1],
                       at<void>(arena, MatrixC), matrices[2]);
  blurt_launch(ctx, Train, &arena);
#if defined(MOCK_RANKS)
  void *const whole[] = {at<void>(arena, Gradient), at<void>(arena, Gradient)};
  blurt_collective_run(ctx, 0, whole);
#endif
  blurt_debug_finite(ctx, at<void>(arena, Gradient), kTableBytes,
                     "scatter at mock.mlir:1", 4);
  blurt_launch(ctx, Check, &arena);
#if defined(MOCK_RANKS)
  blurt_collective_run(ctx, 1, whole);
#endif
  blurt_debug_finite(ctx, at<void>(arena, Loss), 4, "mean at mock.mlir:2", 4);
}
void evalEntry(void *ctx, void *arena) { blurt_launch(ctx, Eval, &arena); }
void prefillEntry(void *ctx, void *arena) {
  blurt_launch(ctx, Prefill, &arena);
}
void decodeEntry(void *ctx, void *arena) { blurt_launch(ctx, Decode, &arena); }
#define MOCK_ENTRY(name) name##Entry
#else
#define MOCK_ENTRY(name) name
#endif

const int64_t kTableShape[] = {kVocab, kVocab}, kScaleShape[] = {2, 3};
[[maybe_unused]] const int64_t kTrainShape[] = {kMicro, kBatch, kSeq},
                               kEvalShape[] = {kBatch, kSeq};
[[maybe_unused]] const int64_t kChunkShape[] = {1, kChunk},
                               kOneShape[] = {1, 1};
[[maybe_unused]] const int64_t kChunkLogits[] = {1, kChunk, kVocab},
                               kOneLogits[] = {1, 1, kVocab};
[[maybe_unused]] const int64_t kCacheShape[] = {16};

blurt_tensor tensor(const char *name, blurt_role role, blurt_dtype dtype,
                    int32_t rank, const int64_t *shape, uint64_t offset) {
  return {name, name, role, dtype, rank, 0, shape, offset, 0,
          0,    0,    0,    0,     0,    0, 0,     0,      nullptr};
}
blurt_tensor param(blurt_tensor t, const char *exported, int32_t transpose,
                   blurt_init_kind init, double a, double b) {
  t.export_name = exported;
  t.export_transpose = transpose;
  t.init_kind = init;
  t.decay = 1;
  t.init_a = a;
  t.init_b = b;
  return t;
}
blurt_tensor stacked(blurt_tensor t) {
  t.stack_count = 3;
  t.stack_first = 1;
  t.stack_stride = 64;
  return t;
}
blurt_tensor scalarTensor(const char *name, Scalar s, blurt_dtype dtype) {
  return tensor(name, BLURT_SCALAR, dtype, 0, nullptr, scalarAt(s));
}

const blurt_tensor kState[] = {
    param(tensor("table", BLURT_PARAM, BLURT_F32, 2, kTableShape, Table),
          "wte.weight", 0, BLURT_INIT_NORMAL, 0, 0.02),
    stacked(param(tensor("block.{i}.scale", BLURT_PARAM, BLURT_F32, 2,
                         kScaleShape, Scale),
                  "h.{i}.scale.weight", 1, BLURT_INIT_UNIFORM, 1, 2)),
    tensor("table", BLURT_MOMENT1, BLURT_F32, 2, kTableShape, Moment1),
    tensor("table", BLURT_MOMENT2, BLURT_F32, 2, kTableShape, Moment2)};

const blurt_tensor kTrain[] = {
#if defined(MOCK_PAIRS)
    tensor("left", BLURT_INPUT, BLURT_F32, 2, kEvalShape, Tokens),
    tensor("right", BLURT_INPUT, BLURT_I32, 2, kEvalShape, Targets),
#else
    tensor("tokens", BLURT_INPUT, BLURT_I32, 3, kTrainShape, Tokens),
    tensor("targets", BLURT_INPUT, BLURT_I32, 3, kTrainShape, Targets),
#endif
    tensor("loss", BLURT_OUTPUT, BLURT_F32, 0, nullptr, Loss),
    tensor("grad_norm", BLURT_OUTPUT, BLURT_F64, 0, nullptr, GradNorm),
    scalarTensor("lr", Lr, BLURT_F64),
    scalarTensor("beta1", Beta1, BLURT_F64),
    scalarTensor("beta2", Beta2, BLURT_F64),
    scalarTensor("eps", Eps, BLURT_F64),
    scalarTensor("weight_decay", WeightDecay, BLURT_F64),
    scalarTensor("step", Step, BLURT_I64),
    scalarTensor("seed", Seed, BLURT_I64),
#if defined(MOCK_BAD_SCALAR)
    scalarTensor("rho", Extra, BLURT_F64),
#endif
#if !defined(MOCK_PLAIN)
    scalarTensor("clip", Clip, BLURT_F64),
    scalarTensor("loss_limit", LossLimit, BLURT_F64),
    scalarTensor("norm_limit", NormLimit, BLURT_F64),
    tensor("applied", BLURT_OUTPUT, BLURT_I1, 0, nullptr, Applied),
    param(tensor("table", BLURT_GRADIENT, BLURT_F32, 2, kTableShape, Gradient),
          "wte.weight", 0, BLURT_INIT_ZEROS, 0, 0),
    stacked(param(tensor("block.{i}.scale", BLURT_GRADIENT, BLURT_F32, 2,
                         kScaleShape, ScaleGradient),
                  "h.{i}.scale.weight", 1, BLURT_INIT_ZEROS, 0, 0)),
#endif
};

const blurt_tensor kEval[] = {
    tensor("tokens", BLURT_INPUT, BLURT_I32, 2, kEvalShape, Tokens),
    tensor("targets", BLURT_INPUT, BLURT_I32, 2, kEvalShape, Targets),
    tensor("loss", BLURT_OUTPUT, BLURT_F64, 0, nullptr, Loss)};

[[maybe_unused]] const blurt_tensor kPrefill[] = {
    tensor("tokens", BLURT_INPUT, BLURT_I32, 2, kChunkShape, Tokens),
    tensor("position", BLURT_SCALAR, BLURT_I64, 0, nullptr, Position),
    tensor("cache", BLURT_CACHE, BLURT_F32, 1, kCacheShape, Cache),
    tensor("logits", BLURT_OUTPUT, BLURT_F32, 3, kChunkLogits, Logits)};
[[maybe_unused]] const blurt_tensor kDecode[] = {
    tensor("tokens", BLURT_INPUT, BLURT_I32, 2, kOneShape, Tokens),
    tensor("position", BLURT_SCALAR, BLURT_I64, 0, nullptr, Position),
    tensor("cache", BLURT_CACHE, BLURT_F32, 1, kCacheShape, Cache),
    tensor("logits", BLURT_OUTPUT, BLURT_F32, 3, kOneLogits, Logits)};

#if defined(MOCK_CUDA)
constexpr uint64_t kTrainPeak = CudaEnd;
#elif defined(MOCK_HUGE)
constexpr uint64_t kTrainPeak = uint64_t(1) << 50;
#else
constexpr uint64_t kTrainPeak = TrainEnd;
#endif

const blurt_entry kEntries[] = {
    {"train", MOCK_ENTRY(train), kTrainPeak, kBatch, kSeq, kMicro,
     int32_t(std::size(kTrain)), kTrain},
    {"eval", MOCK_ENTRY(eval), TrainEnd, kBatch, kSeq, 1,
     int32_t(std::size(kEval)), kEval},
#if !defined(MOCK_PLAIN)
    {"prefill", MOCK_ENTRY(prefill), GenerateEnd, 1, kChunk, 1,
     int32_t(std::size(kPrefill)), kPrefill},
    {"decode", MOCK_ENTRY(decode), GenerateEnd, 1, 1, 1,
     int32_t(std::size(kDecode)), kDecode},
#endif
};

#if defined(MOCK_CUDA)
constexpr blurt_device_kernel kernel(const char *symbol, const char *source,
                                     uint32_t args, uint32_t shared = 0,
                                     uint64_t bytes = 0, uint64_t flops = 0) {
  return {symbol, source, {4, 1, 1}, {128, 1, 1}, shared, args,
          0,      0,      nullptr,   bytes,       flops};
}
const blurt_device_kernel kKernels[] = {
    kernel("mock_operands", "fill at mock.mlir:1:1", 3, 60 * 1024),
    kernel("mock_train", "step at mock.mlir:2:1", 1, 0, 2'000'000, 8'000'000),
    kernel("mock_check", "check at mock.mlir:3:1", 1),
    kernel("mock_eval", "loss at mock.mlir:4:1", 1),
    kernel("mock_prefill", "logits at mock.mlir:5:1", 1),
    kernel("mock_decode", "logits at mock.mlir:6:1", 1)};
constexpr blurt_image image(int32_t kind, int32_t arch, int32_t specific,
                            const char *text, uint64_t size) {
  return {kind, arch, specific, 0, size, text, kKernels};
}
#define MOCK_IMAGE(kind, arch, specific, text)                                 \
  image(kind, arch, specific, text, sizeof(text))
const blurt_image kImages[] = {
    MOCK_IMAGE(BLURT_IMAGE_CUBIN, 80, 0, "cubin sm_80"),
    MOCK_IMAGE(BLURT_IMAGE_CUBIN, 89, 0, "cubin sm_89"),
    MOCK_IMAGE(BLURT_IMAGE_CUBIN, 90, 1, "cubin sm_90a"),
    MOCK_IMAGE(BLURT_IMAGE_PTX, 80, 0, "ptx compute_80")};
const blurt_device_gemm kProducts[] = {{"linear at mock.mlir:7:1",
                                        BLURT_COMPUTE_F32,
                                        BLURT_EPILOGUE_BIAS,
                                        BLURT_F32,
                                        BLURT_F32,
                                        BLURT_F32,
                                        0,
                                        0,
                                        0,
                                        1,
                                        kRows,
                                        kColumns,
                                        kDepth,
                                        kDepth,
                                        kColumns,
                                        kColumns,
                                        0,
                                        0,
                                        0,
                                        64,
                                        64,
                                        64,
                                        0}};
const blurt_device_code kDevice = {int32_t(std::size(kImages)),
                                   int32_t(std::size(kKernels)),
                                   int32_t(std::size(kProducts)),
                                   0,
                                   kImages,
                                   kProducts,
                                   Workspace,
                                   4096,
                                   Counters};
constexpr const char *kTarget = "cuda";
constexpr const blurt_device_code *kDeviceCode = &kDevice;
#else
constexpr const char *kTarget = "cpu";
constexpr const blurt_device_code *kDeviceCode = nullptr;
#endif

#if defined(MOCK_SGD)
constexpr const char *kOptimizer = "sgd";
#else
constexpr const char *kOptimizer = "adamw";
#endif

const blurt_key_value kMetadata[] = {
#if defined(MOCK_CUDA) || defined(MOCK_DEBUG)
    {"debug_nonfinite", "1"},
#endif
    {"vocab_size", "256"},
    {"context", "24"}};

#if defined(MOCK_RANKS)
constexpr int64_t kDevices = 3;
const blurt_collective_value kValue[] = {{1, 3 * 64, 64, BLURT_F32, 0},
                                         {1, 3, 1, BLURT_F64, 0}};
const blurt_collective kCollectives[] = {
    {BLURT_REDUCE_SCATTER, 1, kDevices, "dp", "reduce_scatter at mock.mlir:8:1",
     kValue},
    {BLURT_ALL_GATHER, 1, kDevices, "dp", "all_gather at mock.mlir:9:1",
     kValue + 1}};
constexpr int32_t kNumCollectives = 2;
#else
constexpr int64_t kDevices = 1;
constexpr const blurt_collective *kCollectives = nullptr;
constexpr int32_t kNumCollectives = 0;
#endif

} // namespace

extern "C" const blurt_program blurt_program_main = {
    BLURT_ABI_VERSION,
    int32_t(std::size(kEntries)),
    "mock",
    kTarget,
    "fp32",
    kOptimizer,
    "00c0ffee",
    kEntries,
    kState,
    int32_t(std::size(kState)),
    int32_t(std::size(kMetadata)),
    kMetadata,
    StateEnd,
    kTrainPeak,
    kDeviceCode,
    kNumCollectives,
    0,
    kDevices,
    kCollectives};

#if defined(MOCK_CUDA)
extern "C" {
extern const FakeKernel mock_operands, mock_train, mock_check, mock_eval,
    mock_prefill, mock_decode;
const FakeKernel mock_operands = {operands, 3};
const FakeKernel mock_train = {
    [](void *const *args) {
      train(nullptr, args[0]);
      at<uint64_t>(args[0], Counters)[BLURT_COUNTER_BF16_PRODUCTS] += 2;
      at<uint64_t>(args[0], Counters)[BLURT_COUNTER_RECOMPUTED_ROWS] += 16;
    },
    1};
const FakeKernel mock_check = {check, 1};
const FakeKernel mock_eval = {[](void *const *args) { eval(nullptr, args[0]); },
                              1};
const FakeKernel mock_prefill = {
    [](void *const *args) { prefill(nullptr, args[0]); }, 1};
const FakeKernel mock_decode = {
    [](void *const *args) { decode(nullptr, args[0]); }, 1};
}
#endif
