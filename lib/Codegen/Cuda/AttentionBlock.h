//===- AttentionBlock.h - what kernels of attention share -----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_CUDA_ATTENTIONBLOCK_H
#define BLUTRAIN_LIB_CODEGEN_CUDA_ATTENTIONBLOCK_H

#include "AttentionKernels.h"

namespace mlir::blurt {

/// Loop over tiles of queries that see a block's keys: from tile `whole` on all
/// of them see all keys.
struct QueryTiles {
  Value begin, whole, end;
};

/// Where a block stands, and which keys its queries see. Grids are
/// tiles × heads × batch.
struct AttentionBlock {
  /// `position` is the operand that holds it, null if there is none.
  AttentionBlock(DeviceBuilder &b, const AttentionShape &shape, Value position);

  /// Rows of an operand with `strides`.
  GlobalRows rows(const RowStrides &strides) const;
  /// Address of its row 0 in this block's batch entry and the given head.
  Value base(Value operand, const RowStrides &strides, Value head) const;
  /// Address of a head's values in lse or delta.
  Value rowScalars(Value operand, Value head) const;
  /// The last key that query `row` sees; may be negative.
  Value lastKey(Value row) const;

  /// Loop over tiles of `size` keys that the queries [first, first + count)
  /// see: those before `full` are seen whole by all of them.
  struct Tiles {
    Value full, end;
  };
  Tiles keyTiles(Value first, int32_t count, int32_t size) const;
  QueryTiles queryTiles(Value firstKey, int32_t count, int32_t size) const;
  /// Starts copying `count` values of each of two rows of scalars, from
  /// `query` on; zeros beyond the last query.
  void startScalars(std::array<Value, 2> from, std::array<Value, 2> to,
                    Value query, int32_t count) const;
  /// Waits for copies that nothing has waited for, where a block may have no
  /// tile to walk, before their memory is used again.
  void finishCopies() const;
  /// Runs `body` for the query heads of this block's key-value head in
  /// ascending order; copies of one head are over when the next begins.
  SmallVector<Value> forQueryHeads(
      SmallVector<Value> carried,
      llvm::function_ref<SmallVector<Value>(Value, SmallVector<Value>)> body)
      const;

  DeviceBuilder &b;
  const AttentionShape &shape;
  Value thread, headBlock, entry;
  Value offset;   ///< last key that query 0 sees; null if all see all
  Value keyLimit; ///< keys that exist
  bool masked;    ///< whether queries see different keys
};

/// How tiles of a loop come into shared memory.
struct TilePipeline {
  int32_t stages;
  /// Starts copying tile `index` to stage `stage`.
  llvm::function_ref<void(Value index, Value stage)> start;
  /// Works on what this thread copied, before others see it. May be null.
  llvm::function_ref<void(Value stage)> arrive;

  using Body = llvm::function_ref<SmallVector<Value>(
      Value index, Value stage, bool masked, ValueRange carried)>;
  /// Starts the first tile, if there are two stages.
  void prologue(DeviceBuilder &b, Value begin) const;
  /// Runs `body` over [begin, middle) and [middle, end), one of them masked.
  SmallVector<Value> run(DeviceBuilder &b, Value begin, Value middle, Value end,
                         bool maskedFirst, SmallVector<Value> carried,
                         Body body) const;
};

/// The emitters of the four kinds of kernels; shapes have been checked.
struct AttentionEmission {
  gpu::GPUModuleOp module;
  Location loc;
  StringRef name;
  const AttentionShape &shape;
  AttentionTiles tiles;
};
DeviceLaunch emitForwardOnTensorCores(const AttentionEmission &emission);
DeviceLaunch emitGradQOnTensorCores(const AttentionEmission &emission);
DeviceLaunch emitGradKVOnTensorCores(const AttentionEmission &emission);
DeviceLaunch emitForwardOnHopper(const AttentionEmission &emission);
DeviceLaunch emitGradQOnHopper(const AttentionEmission &emission);
DeviceLaunch emitGradKVOnHopper(const AttentionEmission &emission);
DeviceLaunch emitForwardOnHopperTF32(const AttentionEmission &emission);
DeviceLaunch emitGradQOnHopperTF32(const AttentionEmission &emission);
DeviceLaunch emitGradKVOnHopperTF32(const AttentionEmission &emission);
DeviceLaunch emitForwardOnCudaCores(const AttentionEmission &emission);
DeviceLaunch emitGradQOnCudaCores(const AttentionEmission &emission);
DeviceLaunch emitGradKVOnCudaCores(const AttentionEmission &emission);
DeviceLaunch emitGradQKVOnCudaCores(const AttentionEmission &emission);

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_CUDA_ATTENTIONBLOCK_H
