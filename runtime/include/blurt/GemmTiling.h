//===- GemmTiling.h - Cutting a matrix product into tiles -------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A product C[m×n] = op(A)·op(B) is cut into tiles of C, each one library call
// over the whole of k on one thread. The cut depends on the shape alone, never
// on the number of threads, so neither does any bit of the result.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_GEMMTILING_H
#define BLURT_GEMMTILING_H

#include <algorithm>
#include <cstdint>

namespace blurt {

struct GemmTiling {
  int64_t tileM, tileN;
  int64_t countM, countN;
  int64_t tasks() const { return countM * countN; }

  /// A cut into tiles of at most `m` by `n`, of nearly equal size, rounded up
  /// to the register blocks that the kernels of the library work in.
  static GemmTiling withTiles(int64_t m, int64_t n, int64_t tileM,
                              int64_t tileN) {
    auto even = [](int64_t extent, int64_t tile, int64_t block) {
      int64_t count = std::max<int64_t>((extent + tile - 1) / tile, 1);
      int64_t size = (extent + count - 1) / count;
      return (size + block - 1) / block * block;
    };
    GemmTiling tiling;
    tiling.tileM = even(m, tileM, 48);
    tiling.tileN = even(n, tileN, 48);
    tiling.countM = (m + tiling.tileM - 1) / tiling.tileM;
    tiling.countN = (n + tiling.tileN - 1) / tiling.tileN;
    return tiling;
  }

  /// The cut that `blurt_gemm_*` uses: about eight tiles over the whole batch,
  /// so that a few threads have equal shares, in tiles of at least 128×128
  /// (below that, packing operands outweighs multiplying them) and at most
  /// 512×512.
  static GemmTiling forShape(int64_t batch, int64_t m, int64_t n, int64_t k) {
    constexpr int64_t kTiles = 8, kLeast = 128, kMost = 512;
    int64_t tileM = std::min(m, kMost), tileN = std::min(n, kMost);
    auto tasks = [&] {
      return batch * ((m + tileM - 1) / tileM) * ((n + tileN - 1) / tileN);
    };
    while (tasks() < kTiles && std::max(tileM, tileN) >= 2 * kLeast) {
      int64_t &longer = tileM >= tileN ? tileM : tileN;
      longer = (longer + 1) / 2;
    }
    return withTiles(m, n, tileM, tileN);
  }

  /// Tiles worth giving to a thread: about 100,000 multiply-adds.
  int64_t grain(int64_t k) const {
    int64_t work = std::max<int64_t>(tileM * tileN * k, 1);
    return std::max<int64_t>(100'000 / work, 1);
  }
};

} // namespace blurt

#endif // BLURT_GEMMTILING_H
