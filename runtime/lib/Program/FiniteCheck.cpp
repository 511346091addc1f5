//===- FiniteCheck.cpp - Who made a value that is not finite --------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/FiniteCheck.h"
#include "blurt/Context.h"
#include "blurt/Convert.h"
#include "blurt/Error.h"
#include "blurt/blurt.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace blurt;

template <typename T> static T loadAs(const std::byte *from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

void FiniteCheck::look(const void *from, uint64_t bytes, const char *what,
                       int64_t width) {
  uint64_t run = ++runs[what];
  if (!text.empty())
    return;
  host.resize(bytes);
  copy(from, host.data(), bytes);
  uint64_t count = bytes / uint64_t(width);
  for (uint64_t i = 0; i < count; ++i) {
    const std::byte *at = host.data() + i * uint64_t(width);
    double value = width == 8   ? loadAs<double>(at)
                   : width == 4 ? double(loadAs<float>(at))
                                : double(fromBf16(loadAs<uint16_t>(at)));
    if (std::isfinite(value))
      continue;
    text = std::string("'") + what + "'";
    if (run > 1)
      text += ", run " + std::to_string(run) + " in the step";
    text += ": element " + std::to_string(i) + " of " + std::to_string(count) +
            " is " + std::to_string(value);
    return;
  }
}

void blurt_debug_finite(void *ctx, const void *ptr, uint64_t bytes,
                        const char *what, int64_t width) {
  FiniteCheck *check = static_cast<Context *>(ctx)->finiteCheck;
  if (!check)
    return;
  // Nothing can be thrown through compiled code.
  try {
    check->look(ptr, bytes, what, width);
  } catch (const std::exception &error) {
    std::fflush(stdout);
    std::fprintf(stderr, "error: %s\n", error.what());
    std::_Exit(ExitFailure);
  }
}
