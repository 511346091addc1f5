//===- Packing.h - offsets for buffers with known lifetimes -----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Dynamic storage allocation, offline: every buffer has a size and a closed
// interval of time, two buffers whose intervals meet may not overlap in space,
// and the highest end is to be small. Knows nothing of IR.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_ANALYSIS_PACKING_H
#define BLUTRAIN_ANALYSIS_PACKING_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace blutrain {

/// A buffer that is live at every time t with begin <= t <= end.
struct PackingRequest {
  int64_t bytes;
  int64_t begin;
  int64_t end;
};

struct PackingOptions {
  /// Offsets are multiples of this; sizes are rounded up to it.
  int64_t alignment = 64;
  /// Seed of the local search; equal inputs give equal results.
  uint64_t seed = 1;
  /// Bound on the work of the local search, in interval comparisons.
  int64_t searchBudget = 100'000'000;
};

struct PackingResult {
  llvm::SmallVector<int64_t> offsets;
  /// The highest end of any buffer.
  int64_t peak = 0;
  /// The largest sum of (rounded) sizes live at one time: no packing is lower.
  int64_t lowerBound = 0;
};

/// Finds an offset for each request. Several greedy orders are tried; if none
/// reaches the lower bound, a seeded local search reorders the buffers that
/// stick out, within the budget.
PackingResult packBuffers(llvm::ArrayRef<PackingRequest> requests,
                          const PackingOptions &options = {});

/// The largest sum of sizes, rounded up to `alignment`, that are live at once.
int64_t packingLowerBound(llvm::ArrayRef<PackingRequest> requests,
                          int64_t alignment);

} // namespace blutrain

#endif // BLUTRAIN_ANALYSIS_PACKING_H
