//===- ShardingOps.cpp - collectives, as obvious as they get --------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include "Blu/Sharding.h"

using namespace mlir;
using namespace blutrain;

/// What the devices bring to `op`: their values of its inputs.
template <typename OpTy>
static FailureOr<std::vector<std::vector<Tensor>>> meet(OpTy op,
                                                        Evaluation &e) {
  Meeting *meeting = e.getOptions().meeting;
  if (!meeting || meeting->size() != int64_t(op.getSize()))
    return op.emitOpError("is met by ")
           << (meeting ? meeting->size() : 1) << " devices, expected "
           << op.getSize();
  std::vector<Tensor> mine;
  for (Value input : op.getInputs())
    mine.push_back(e[input]);
  return meeting->exchange(e.getOptions().device, op, std::move(mine));
}

static Tensor sumOver(const std::vector<std::vector<Tensor>> &all, size_t i) {
  Tensor sum = all[0][i];
  for (size_t device = 1; device < all.size(); ++device)
    for (int64_t k = 0; k < sum.size(); ++k)
      sum.floats[k] += all[device][i].floats[k];
  return sum;
}

/// Calls `body(position in the whole, in the piece)` for what is there of the
/// piece of `device`.
static void forPiece(RankedTensorType whole, RankedTensorType piece,
                     int64_t device,
                     function_ref<void(int64_t, int64_t)> body) {
  int64_t rows = piece.getRank() == 2 ? piece.getDimSize(0) : 1;
  int64_t count = whole.getNumElements() / std::max<int64_t>(rows, 1);
  int64_t size = piece.getNumElements() / std::max<int64_t>(rows, 1);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t k = 0; k < size; ++k)
      if (device * size + k < count)
        body(row * count + device * size + k, row * size + k);
}

static Tensor pieceOf(const Tensor &whole, Value result, int64_t device) {
  auto type = cast<RankedTensorType>(result.getType());
  Tensor piece(type.getShape(), type.getElementType());
  forPiece(whole.type(), type, device, [&](int64_t from, int64_t to) {
    piece.copyElement(to, whole, from);
  });
  return piece;
}

static LogicalResult evaluateAllReduce(blu::AllReduceOp op, Evaluation &e) {
  auto all = meet(op, e);
  if (failed(all))
    return failure();
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    if (failed(e.set(result, sumOver(*all, i))))
      return failure();
  return success();
}

static LogicalResult evaluateReduceScatter(blu::ReduceScatterOp op,
                                           Evaluation &e) {
  auto all = meet(op, e);
  if (failed(all))
    return failure();
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    if (failed(e.set(result,
                     pieceOf(sumOver(*all, i), result, e.getOptions().device))))
      return failure();
  return success();
}

static LogicalResult evaluateAllGather(blu::AllGatherOp op, Evaluation &e) {
  auto all = meet(op, e);
  if (failed(all))
    return failure();
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    auto type = cast<RankedTensorType>(result.getType());
    Tensor whole(type.getShape(), type.getElementType());
    for (auto [device, tensors] : llvm::enumerate(*all))
      forPiece(type, tensors[i].type(), int64_t(device),
               [&, &from = tensors[i]](int64_t to, int64_t at) {
                 whole.copyElement(to, from, at);
               });
    if (failed(e.set(result, std::move(whole))))
      return failure();
  }
  return success();
}

static LogicalResult evaluateLocalShard(blu::LocalShardOp op, Evaluation &e) {
  for (auto [input, result] : llvm::zip_equal(op.getInputs(), op.getResults()))
    if (failed(e.set(result, pieceOf(e[input], result, e.getOptions().device))))
      return failure();
  return success();
}

static uint64_t mix(uint64_t x) {
  uint64_t z = x + 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

/// x with `y = x ^ x >> bits`.
static uint64_t unshift(uint64_t y, int bits) {
  uint64_t x = y;
  for (int known = bits; known < 64; known += bits)
    x = y ^ (x >> bits);
  return x;
}

/// The number with `mix(x) = y`.
static uint64_t unmix(uint64_t y) {
  uint64_t z = unshift(y, 31) * 0x319642B2D24D8EC3;
  z = unshift(z, 27) * 0x96DE1B173F119089;
  return unshift(z, 30) - 0x9E3779B97F4A7C15;
}

static LogicalResult evaluateShiftKey(blu::ShiftKeyOp op, Evaluation &e) {
  uint64_t key = e[op.getKey()].ints[0], offset = e[op.getOffset()].ints[0];
  return e.set(op, Tensor::scalar(op.getType().getElementType(),
                                  int64_t(unmix(mix(key) + offset))));
}

void blutrain::registerShardingEvaluators(EvaluatorRegistry &registry) {
  registry.add<blu::AllReduceOp>(evaluateAllReduce);
  registry.add<blu::ReduceScatterOp>(evaluateReduceScatter);
  registry.add<blu::AllGatherOp>(evaluateAllGather);
  registry.add<blu::LocalShardOp>(evaluateLocalShard);
  registry.add<blu::ShiftKeyOp>(evaluateShiftKey);
}
