//===- ShadowMemory.cpp - Checks of a debug program's memory --------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/ShadowMemory.h"
#include "blurt/Context.h"
#include "blurt/Error.h"
#include "blurt/blurt.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace blurt;

uint64_t ShadowMemory::offsetOf(const void *address, uint64_t bytes,
                                const char *what) const {
  auto at = reinterpret_cast<uintptr_t>(address);
  auto base = reinterpret_cast<uintptr_t>(arena);
  if (at < base || bytes > shadow.size() || at - base > shadow.size() - bytes)
    throw failure(std::string("memory check: ") + what + ": " +
                  std::to_string(bytes) + " bytes at " +
                  (at < base ? "an address below the arena"
                             : "offset " + std::to_string(at - base)) +
                  " lie outside the arena of " + std::to_string(shadow.size()) +
                  " bytes");
  return at - base;
}

void ShadowMemory::define(const void *address, uint64_t bytes,
                          const char *what) {
  uint64_t begin = offsetOf(address, bytes, what);
  uint8_t *range = shadow.data() + begin;
  live += static_cast<uint64_t>(std::count(range, range + bytes, Dead));
  std::memset(range, Written, bytes);
  highestLive = std::max(highestLive, live);
  highestEnd = std::max(highestEnd, begin + bytes);
}

void ShadowMemory::use(const void *address, uint64_t bytes,
                       const char *what) const {
  uint64_t begin = offsetOf(address, bytes, what);
  const uint8_t *range = shadow.data() + begin;
  const uint8_t *bad = std::find(range, range + bytes, Dead);
  if (bad != range + bytes)
    throw failure(std::string("memory check: ") + what + ": reads offset " +
                  std::to_string(begin + uint64_t(bad - range)) +
                  ", which was never written or is retired; the operand is "
                  "bytes [" +
                  std::to_string(begin) + ", " + std::to_string(begin + bytes) +
                  ") of the arena");
}

void ShadowMemory::retire(void *address, uint64_t bytes, const char *what) {
  uint64_t begin = offsetOf(address, bytes, what);
  uint8_t *range = shadow.data() + begin;
  live -= static_cast<uint64_t>(std::count(range, range + bytes, Written));
  std::memset(range, Dead, bytes);
  if (poison)
    poison(address, bytes);
  else
    std::memset(address, 0xFF, bytes);
}

void ShadowMemory::forget(uint64_t begin) {
  auto from = shadow.begin() + static_cast<std::ptrdiff_t>(begin);
  live -= static_cast<uint64_t>(std::count(from, shadow.end(), Written));
  std::fill(from, shadow.end(), Dead);
}

namespace {

/// The callbacks cannot throw through compiled code.
template <typename Fn> void checked(void *ctx, Fn &&fn) {
  try {
    fn(static_cast<Context *>(ctx)->shadow());
  } catch (const std::exception &error) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", error.what());
    std::_Exit(ExitFailure);
  }
}

} // namespace

void blurt_debug_define(void *ctx, const void *ptr, uint64_t bytes,
                        const char *what) {
  checked(ctx, [&](ShadowMemory &s) { s.define(ptr, bytes, what); });
}

void blurt_debug_use(void *ctx, const void *ptr, uint64_t bytes,
                     const char *what) {
  checked(ctx, [&](ShadowMemory &s) { s.use(ptr, bytes, what); });
}

void blurt_debug_retire(void *ctx, void *ptr, uint64_t bytes,
                        const char *what) {
  checked(ctx, [&](ShadowMemory &s) { s.retire(ptr, bytes, what); });
}
