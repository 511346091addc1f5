//===- SplitProducts.h - products of operands in pieces ---------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// How a product of the policy `fp32tc` lies in the workspace of the plan. Each
// operand is scaled by powers of two, one for every row of A and every column
// of B, and written as planes of 16-bit pieces that add up to its elements;
// where one tile for each processor would leave processors idle, the depth is
// cut, and partial products are summed up in order.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_ANALYSIS_SPLITPRODUCTS_H
#define BLUTRAIN_ANALYSIS_SPLITPRODUCTS_H

#include "Blurt/BlurtDialect.h"

namespace blutrain {

/// A is `rows` × `depth` with m rows, B transposed with n.
struct SplitOperand {
  /// Depth of which one maximum is taken, where it does not lie along memory.
  static constexpr int64_t kChunk = 256;
  static constexpr int64_t kMaxPlanes = 3;

  bool along = true; ///< memory runs along the depth, else along the rows
  int64_t batch = 1, rows = 1, depth = 1;

  int64_t outer() const { return along ? rows : depth; }
  int64_t inner() const { return along ? depth : rows; }
  /// Elements from one line of a plane to the next: what tensor maps ask for,
  /// and blocks of 64 rows.
  int64_t pitch() const { return llvm::alignTo(inner(), along ? 8 : 64); }
  int64_t chunks() const {
    return along ? 1 : int64_t(llvm::divideCeil(depth, kChunk));
  }
  int64_t planeBytes() const { return 2 * outer() * pitch(); }
  int64_t maximaBytes() const { return 4 * batch * chunks() * rows; }
  /// Elements from a batch entry's scales to the next one's.
  int64_t scalePitch() const { return int64_t(llvm::alignTo(rows, 2)); }
  /// A pair of factors that scale, and a pair that undoes it, for every row.
  int64_t scaleBytes() const { return 2 * 8 * batch * scalePitch(); }
};

struct SplitProduct {
  static constexpr int64_t kTileRows = 128, kTileColumns = 192;
  /// Depth that partial products are multiples of.
  static constexpr int64_t kDepth = 64;
  static constexpr int64_t kProcessors = 132; ///< of an H100 or H200

  /// Below it sums in f32 err less than two pieces of fp16 do.
  static constexpr int64_t kLeastHalfDepth = 512;
  /// At most so deep is a sum in registers: errors grow with its length.
  static constexpr int64_t kMostPartDepth = 4096;

  int64_t batch = 1, m = 1, n = 1, k = 1;
  SplitOperand a, b;

  /// Whether it is made of bf16 pieces whatever its operands are.
  bool alwaysBfloat() const { return k < kLeastHalfDepth; }

  /// In how many parts of the depth, of `partDepth` but for the last one.
  int64_t parts = 1, partDepth = 0;
  /// Bytes from the begin of the workspace.
  int64_t flag = 0, maximaA = 0, maximaB = 0, scalesA = 0, scalesB = 0,
          planesA = 0, planesB = 0, partials = 0;
  int64_t bytes = 0; ///< of the workspace in all

  int64_t tiles() const {
    return batch * int64_t(llvm::divideCeil(m, kTileRows)) *
           int64_t(llvm::divideCeil(n, kTileColumns));
  }
  /// Lays out what the extents and operands say.
  void layOut();
};

/// Bytes of the workspace that `op`, which is split, needs at most, however its
/// operands come to lie in memory.
int64_t getSplitWorkspaceBytes(mlir::blurt::GemmOp op);

} // namespace blutrain

#endif // BLUTRAIN_ANALYSIS_SPLITPRODUCTS_H
