//===- ShadowMemory.h - Checks of a debug program's memory ------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// One shadow byte for every byte of the arena says whether it is dead, or live
// and written. A program built with --debug-memory reports what each operation
// defines, uses and retires; reading what was never written or already retired
// is a run-time failure that names the operand. Retired ranges are filled with
// 0xFF, which is a NaN in every floating-point dtype.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_SHADOWMEMORY_H
#define BLURT_SHADOWMEMORY_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace blurt {

class ShadowMemory {
public:
  /// Covers `bytes` bytes at `arena`; all of it starts dead.
  ShadowMemory(std::byte *arena, uint64_t bytes)
      : arena(arena), shadow(bytes, Dead) {}

  /// How to fill a range that the host must not touch with 0xFF.
  void setPoison(std::function<void(void *, uint64_t)> fill) {
    poison = std::move(fill);
  }

  /// The range is written from now on.
  void define(const void *address, uint64_t bytes, const char *what);
  /// Throws Error (run-time failure) unless all of the range was written.
  void use(const void *address, uint64_t bytes, const char *what) const;
  /// Poisons the range; it is dead from now on.
  void retire(void *address, uint64_t bytes, const char *what);

  /// Everything from byte `begin` of the arena on is dead again; nothing is
  /// poisoned.
  void forget(uint64_t begin);

  /// Most bytes that were live at once, and the end of the highest byte ever
  /// live.
  uint64_t peakLive() const { return highestLive; }
  uint64_t highWater() const { return highestEnd; }

private:
  enum State : uint8_t { Dead = 0, Written = 1 };
  uint64_t offsetOf(const void *address, uint64_t bytes,
                    const char *what) const;

  std::byte *arena;
  std::function<void(void *, uint64_t)> poison;
  std::vector<uint8_t> shadow;
  uint64_t live = 0, highestLive = 0, highestEnd = 0;
};

} // namespace blurt

#endif // BLURT_SHADOWMEMORY_H
