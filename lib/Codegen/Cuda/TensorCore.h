//===- TensorCore.h - matrix products of a warp ---------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Products by `mma.sync` of 16×8 accumulators: bf16 operands 16 deep, tf32
// operands 8 deep. One step of either is 32 bytes of an operand's row, so that
// `ldmatrix` serves both.
//
// Lane l holds, of a 16×8 accumulator, elements (l/4, 2(l%4)), the one right of
// it, and the two that lie 8 rows below (PTX ISA, "Matrix fragments for
// mma.m16n8k16").
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_CUDA_TENSORCORE_H
#define BLUTRAIN_LIB_CODEGEN_CUDA_TENSORCORE_H

#include "DeviceTile.h"

namespace mlir::blurt {

/// How products are computed.
enum class DeviceCompute {
  F32,  ///< IEEE, on CUDA cores
  TF32, ///< f32 operands rounded to tf32, on tensor cores
  BF16, ///< bf16 operands, on tensor cores
};

/// mTiles × nTiles accumulators of 16×8.
struct Fragment {
  Fragment() = default;
  Fragment(int32_t mTiles, int32_t nTiles, Value fill)
      : mTiles(mTiles), nTiles(nTiles), values(mTiles * nTiles * 4, fill) {}
  Fragment(int32_t mTiles, int32_t nTiles, ValueRange values)
      : mTiles(mTiles), nTiles(nTiles), values(values.begin(), values.end()) {}

  Value &at(int32_t m, int32_t n, int32_t e) {
    return values[(m * nTiles + n) * 4 + e];
  }
  /// Row in the fragment of element e of row tile m, less the lane's.
  static int32_t row(int32_t m, int32_t e) { return 16 * m + 8 * (e / 2); }
  /// Column of element e of column tile n, less the lane's.
  static int32_t column(int32_t n, int32_t e) { return 8 * n + e % 2; }

  int32_t mTiles = 0, nTiles = 0;
  SmallVector<Value> values;
};

class WarpMma {
public:
  WarpMma(DeviceBuilder &b, DeviceCompute compute, Value thread);

  /// Depth of one product.
  int32_t getDepth() const { return isBF16() ? 16 : 8; }
  bool isBF16() const { return compute == DeviceCompute::BF16; }

  /// Where this lane reads operands: A and B from tiles whose rows run along
  /// the depth of the product (A: m×k, B: n×k), or B whose rows run across
  /// (k×n).
  TileCursor cursorA(const TileLayout &layout, Value firstRow);
  TileCursor cursorB(const TileLayout &layout);
  TileCursor cursorAcrossB(const TileLayout &layout);
  /// Where this lane writes the pairs of a fragment.
  TileCursor cursorPairs(const TileLayout &layout, Value firstRow);

  using Operand = SmallVector<Value, 4>;
  Operand loadA(const TileCursor &cursor, Value tile, int32_t m, int32_t step);

  /// sum += A · Bᵀ over `steps`; getA(m, step) gives A's operand.
  void multiply(Fragment &sum, llvm::function_ref<Operand(int32_t, int32_t)> a,
                const TileCursor &cursor, Value tile, int32_t steps);
  /// sum += A · B, with A as rounded from an accumulator.
  void multiplyAcross(Fragment &sum, Fragment &a, const TileCursor &cursor,
                      Value tile);
  /// Writes a fragment's rows into a tile as elements of f32 or bf16.
  void store(Fragment &fragment, const TileCursor &cursor, Value tile);

  Value lane, warp;
  Value row;    ///< of this lane's first element
  Value column; ///< of this lane's first element

private:
  void accumulate(Fragment &sum, int32_t m, int32_t n, ValueRange a,
                  ValueRange b);
  Operand loadMatrices(Value address, bool transposed);

  DeviceBuilder &b;
  DeviceCompute compute;
};

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_CUDA_TENSORCORE_H
