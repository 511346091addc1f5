//===- DeviceTile.h - tiles of rows in shared memory ----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A tile is rows of 16-byte chunks in shared memory, laid out so that eight
// rows at one chunk lie in different banks. It is filled from rows in global
// memory by asynchronous copies of chunks, or element by element where
// addresses or strides are not multiples of 16 bytes.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_CUDA_DEVICETILE_H
#define BLUTRAIN_LIB_CODEGEN_CUDA_DEVICETILE_H

#include "DeviceBuilder.h"

namespace mlir::blurt {

struct TileLayout {
  /// Rows of whole 128 bytes are kept as they are and their chunks permuted
  /// (chunk c of row r lies at c ^ (r mod 8)); others, and all if `padded`, are
  /// padded to an odd number of chunks.
  static TileLayout get(int32_t rows, int32_t rowBytes, bool padded = false);

  int32_t bytes() const { return rows * pitch; }

  int32_t rows;
  int32_t chunks; ///< of a row
  int32_t pitch;  ///< bytes from a row to the next
  bool swizzled;
};

/// A thread's place in a tile, from which others are reached by constants.
class TileCursor {
public:
  TileCursor() = default;
  TileCursor(DeviceBuilder &b, const TileLayout &layout, Value row, Value chunk,
             Value byteInChunk = {});

  /// The address `rows` and `chunks` further. In a swizzled tile their lowest
  /// three bits and those of the thread's row and chunk are disjoint.
  Value at(DeviceBuilder &b, Value tile, int32_t rows, int32_t chunks) const;

private:
  TileLayout layout;
  Value offset;
};

/// Rows in global memory; elements of a row lie side by side.
struct GlobalRows {
  Type element; ///< f32 or bf16
  int32_t columns = 0;
  int64_t stride = 0;   ///< elements from a row to the next
  bool chunked = false; ///< 16 bytes can be accessed at a time

  int32_t elementBytes() const { return element.isBF16() ? 2 : 4; }
  int32_t perChunk() const { return 16 / elementBytes(); }
  /// Chunks that hold elements.
  int32_t chunks() const { return (columns + perChunk() - 1) / perChunk(); }
};

/// Copies by all threads of a block from global rows into tiles of a layout.
/// Columns of the tile beyond the row's, and rows beyond a limit, become zero.
class TileCopy {
public:
  TileCopy(DeviceBuilder &b, const TileLayout &layout, const GlobalRows &source,
           Value thread);

  /// Starts copying the rows from `first` on; of them those below `limit` ≥ 1
  /// exist. `base` is the address of row 0.
  void start(Value base, Value tile, Value first, Value limit);
  /// Rounds what this thread copied to tf32, once its copies have arrived.
  void roundTF32(Value tile);

private:
  void forChunks(llvm::function_ref<void(int32_t row)> body);

  DeviceBuilder &b;
  TileLayout layout;
  GlobalRows source;
  TileCursor cursor;
  Value row, chunk;
  Value takesPart; ///< null if all threads do
  int32_t step;    ///< rows that the block copies at a time
};

/// The chunk of a row from column `column` on as f32; zeros beyond the row's
/// columns.
SmallVector<Value> loadColumns(DeviceBuilder &b, const GlobalRows &rows,
                               Value base, Value row, Value column);

/// Writes `values` of a row from column `column` on (a multiple of their
/// number, which is a chunk's or divides it), as far as the row has columns.
void storeColumns(DeviceBuilder &b, const GlobalRows &rows, Value base,
                  Value row, Value column, ArrayRef<Value> values);

/// Copies `count` rows of a tile from `firstInTile` on to the global rows from
/// `first` on that lie below `limit`; by the lanes of one warp.
void storeTileRows(DeviceBuilder &b, const TileLayout &layout, Value tile,
                   Value firstInTile, int32_t count, const GlobalRows &target,
                   Value base, Value first, Value limit, Value lane);

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_CUDA_DEVICETILE_H
