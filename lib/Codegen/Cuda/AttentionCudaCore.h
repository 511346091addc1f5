//===- AttentionCudaCore.h - parts of attention in IEEE f32 ---*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Products by fused multiply-adds, for policies that want f32 throughout. A
// warp's lanes are laneRows × laneColumns. Lane (y, x) of warp w owns the rows
// y + laneRows · (w + warps · i) of a block, i = 0, 1, …, and the columns
// x + laneColumns · j of a tile of scores, or the chunks x + laneColumns · w of
// a row of depth elements: its patch of the product. What all threads hold at
// (i, j) is a cell, so that cells which the causal mask hides cost every warp
// the same nothing.
//
// Lanes are numbered so that of each four one pair shares its row and one its
// column: then a load of 16 bytes a lane passes shared memory in two cycles
// instead of four, whichever operand it reads. Rows are padded so that what
// different lanes read or write lies in different banks.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_CUDA_ATTENTIONCUDACORE_H
#define BLUTRAIN_LIB_CODEGEN_CUDA_ATTENTIONCUDACORE_H

#include "AttentionBlock.h"

namespace mlir::blurt {

/// A thread's part of a product: rows × columns values.
struct Patch {
  Patch() = default;
  Patch(int32_t rows, int32_t columns, Value fill)
      : rows(rows), columns(columns), values(rows * columns, fill) {}
  Patch(int32_t rows, int32_t columns, ValueRange values)
      : rows(rows), columns(columns), values(values.begin(), values.end()) {}
  Value &at(int32_t i, int32_t j) { return values[i * columns + j]; }

  int32_t rows = 0, columns = 0;
  SmallVector<Value> values;
};

/// Which scores of a tile exist.
struct ScoreMask {
  enum Kind {
    All,
    Computed,   ///< known when the kernel runs
    UpToColumn, ///< column + delta ≤ row, in the tile
    FromColumn, ///< row ≤ column + delta
  };
  enum Cell { Hidden, Partial, Whole };

  /// Of the scores in rows [row, row + rows) and columns [column, column +
  /// columns).
  Cell cell(int32_t row, int32_t rows, int32_t column, int32_t columns) const;

  Kind kind = All;
  int32_t delta = 0;
};

struct CoreBlock {
  /// `scoreColumns` of the scores lie in shared memory at a time.
  CoreBlock(DeviceBuilder &b, const AttentionEmission &emission, Value position,
            int32_t scoreColumns);

  Patch zeros(int32_t columns) {
    return Patch(tiles.rowTiles, columns, b.f32(0));
  }
  /// Rows from a thread's row to its next.
  int32_t band() const { return laneRows * tiles.warps; }
  ScoreMask::Cell cell(const ScoreMask &mask, int32_t i, int32_t j) const {
    return mask.cell(band() * i, band(), laneColumns * j, laneColumns);
  }
  /// `value` combined over the lanes of a row.
  Value reduceLanes(Value value,
                    llvm::function_ref<Value(Value, Value)> combine);
  Value row(Value first, int32_t i) {
    return b.add(b.add(first, ownRow), band() * i);
  }

  /// rows · tileᵀ: each of the block's own rows with each of a tile.
  Patch scores(Value rows, Value tile, const ScoreMask &mask);
  /// Stores the columns from `column` on that fit into the tile of scores.
  void storeScores(Patch &p, Value scoreTile, int32_t column);
  /// sum += scores · tile, for the scores from `column` on that lie in the tile
  /// of scores; a warp needs those of its own rows.
  void multiplyAcross(Patch &sum, Value scoreTile, int32_t column, Value tile,
                      const ScoreMask &mask);
  /// The same for scores in registers, a part of the columns at a time.
  void multiplyAcross(Patch &sum, Patch &p, Value scoreTile, Value tile,
                      const ScoreMask &mask);
  /// Stores a patch as wide as the depth.
  void storeRows(Patch &patch, Value operand, const RowStrides &strides,
                 Value head, Value first, int64_t limit);

  DeviceBuilder &b;
  const AttentionShape &shape;
  const AttentionTiles &tiles;
  AttentionBlock block;
  int32_t laneRows, laneColumns;
  Value warp, y, x;
  int32_t rowCount;
  int32_t perThread;   ///< columns of a thread
  int32_t wide;        ///< chunks of depth of a thread
  int32_t depthChunks; ///< chunks that products along the depth take
  int32_t scoreColumns;
  TileLayout rowLayout, tileLayout, scoreLayout;
  Value ownRow;
  TileCursor ownRows, tileRows, tileAcross, scoreWrites, scoreReads;

private:
  /// sum[from … to) += scores · tile over `count` columns.
  void multiplySegment(Patch &sum, int32_t from, int32_t to, Value scores,
                       Value tile, int32_t count);
};

/// Walks key tiles whose two operands, `early` and `late`, have one buffer
/// each: while a tile of one is computed with, one of the other is copied.
/// `body` calls its argument between what needs the early operand alone and
/// what needs the late one.
SmallVector<Value> walkInTurns(
    CoreBlock &c, Value first, llvm::function_ref<void(Value)> early,
    llvm::function_ref<void(Value)> late, SmallVector<Value> carried,
    llvm::function_ref<SmallVector<Value>(Value, const ScoreMask &, ValueRange,
                                          llvm::function_ref<void()>)>
        body);

/// Whether masked tiles lie the same way towards the diagonal in every block,
/// so that it is known which cells of them are hidden.
bool hasFixedDiagonal(const AttentionShape &shape, int32_t rows,
                      int32_t columns);

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_CUDA_ATTENTIONCUDACORE_H
