//===- AttentionHopper.h - attention by wgmma -----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A warpgroup owns 64 rows, of queries or of keys, and walks tiles of 64 rows
// of the other side. As in FlashAttention-3 (Shah et al. 2024) scores go from
// accumulators to operands in registers; unlike there, softmax and products
// overlap between several small blocks on a multiprocessor, not within one.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_CUDA_ATTENTIONHOPPER_H
#define BLUTRAIN_LIB_CODEGEN_CUDA_ATTENTIONHOPPER_H

#include "AttentionBlock.h"
#include "WarpgroupMma.h"

namespace mlir::blurt {

/// What the kernels share.
struct HopperBlock {
  static constexpr int32_t kRows = 64; ///< of a warpgroup, and of a tile
  using Values = SmallVector<Value>;

  HopperBlock(DeviceBuilder &b, const AttentionEmission &emission);

  int32_t elementBytes() const { return mma.isBF16() ? 2 : 4; }
  /// A tile of `count` rows as deep as heads are.
  SlabLayout layout(int32_t count) const {
    return {count, int32_t(shape.depth) * elementBytes()};
  }
  Fragment zeros() { return Fragment(1, shape.depth / 8, b.f32(0)); }
  /// Row h (0 or 1) of this lane, in all rows.
  Value row(Value first, int32_t h) {
    return b.add(b.add(first, lanes.row), b.add(b.mul(lanes.warp, 16), 8 * h));
  }
  /// A row's value in lse or delta; any row's if there is none.
  Value rowScalar(Value scalars, Value row) {
    Value inside = b.min(row, shape.queries - 1);
    return b.load(b.getF32Type(), b.advance(scalars, b.wideOffset(inside, 4)),
                  4);
  }
  /// Writes the block's rows through `tile`, which nobody else uses.
  void storeRows(const Values &fragment, Value tile, Value operand,
                 const RowStrides &strides, Value head, Value first,
                 int64_t limit);
  void release(Value barrier);

  /// P = 2^(factor · s - shift), and 0 where `sees` says no.
  void exponentials(Values &scores,
                    llvm::function_ref<Value(int32_t column, int32_t e)> shift,
                    llvm::function_ref<Value(int32_t column, int32_t e)> sees);

  DeviceBuilder &b;
  const AttentionShape &shape;
  const AttentionTiles &tiles;
  AttentionBlock block;
  WarpMma lanes;
  WarpgroupMma mma;
  int32_t groups; ///< warpgroups
  double factor;  ///< scale · log2 e
};

/// Softmax of a warpgroup's rows over tiles in turn (Milakov and Gimelshein
/// 2018). What was summed is scaled to a new maximum only where that exceeds
/// the old one by 2^8, for all rows of a warp at once (FlashAttention-4's
/// conditional rescaling).
struct HopperSoftmax {
  explicit HopperSoftmax(HopperBlock &t, Value first);

  using Values = SmallVector<Value>;
  /// The output so far, and for two rows the maximum that it is scaled to and
  /// this lane's part of the sum of exponentials.
  struct State {
    Values out, maxima, sums;
  };
  State begin();
  Values pack(const State &state);
  State unpack(ValueRange values);
  /// Turns scores into exponentials.
  void add(State &state, Values &scores, Value firstKey, bool masked);
  /// Divides by the sums and stores lse.
  void finish(State &state, Value first, Value lse);

  HopperBlock &t;
  DeviceBuilder &b;
  bool scaleFirst;
  double factor;
  Values lastKeys;
};

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_CUDA_ATTENTIONHOPPER_H
