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
#include <cmath>
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
    tiling.tileM = even(m, tileM, 16);
    tiling.tileN = even(n, tileN, 16);
    tiling.countM = (m + tiling.tileM - 1) / tiling.tileM;
    tiling.countN = (n + tiling.tileN - 1) / tiling.tileN;
    return tiling;
  }

  /// The cut that `blurt_gemm_*` uses: a tile for every 2^26
  /// multiply-adds of the whole batch, but at least four, so that a few threads
  /// have equal shares; of 32,768 elements or more, below which packing the
  /// operands outweighs multiplying them, and 262,144 or fewer.
  static GemmTiling forShape(int64_t batch, int64_t m, int64_t n, int64_t k) {
    double area = double(m) * double(n);
    double wanted = std::max(4.0, double(batch) * area * double(k) / 0x1p26) /
                    double(batch);
    double pieces = std::max(area / 262144, std::min(wanted, area / 32768));
    // Each row of tiles packs all of op(B) once more and each column of tiles
    // all of op(A), which costs more than twice as much an element.
    double bestCost = 0;
    GemmTiling best{};
    for (int64_t countM = 1; countM <= std::max(std::ceil(pieces), 1.0);
         ++countM) {
      auto countN = int64_t(std::ceil(std::max(pieces / double(countM), 1.0)));
      double cost =
          0.4 * double(countM) * double(n) + double(countN) * double(m);
      if (best.tileM && cost >= bestCost)
        continue;
      bestCost = cost;
      best =
          withTiles(m, n, (m + countM - 1) / countM, (n + countN - 1) / countN);
    }
    return best;
  }

  /// Tiles worth giving to a thread: about 100,000 multiply-adds.
  int64_t grain(int64_t k) const {
    int64_t work = std::max<int64_t>(tileM * tileN * k, 1);
    return std::max<int64_t>(100'000 / work, 1);
  }
};

} // namespace blurt

#endif // BLURT_GEMMTILING_H
