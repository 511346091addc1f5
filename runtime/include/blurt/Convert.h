//===- Convert.h - Element conversion ---------------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_CONVERT_H
#define BLURT_CONVERT_H

#include <bit>
#include <cmath>
#include <cstdint>

namespace blurt {

/// Rounds to nearest, ties to even; a NaN stays a NaN.
inline uint16_t toBf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/// Rounds once: a double next to a tie must not be rounded to float first.
inline uint16_t toBf16(double value) {
  float nearest = static_cast<float>(value);
  // Rounding to odd in float keeps what a second rounding needs to know.
  if (double(nearest) != value && std::isfinite(nearest)) {
    uint32_t bits = std::bit_cast<uint32_t>(nearest);
    bool above = std::abs(double(nearest)) > std::abs(value);
    if (above)
      --bits;
    nearest = std::bit_cast<float>(bits | 1);
  }
  return toBf16(nearest);
}

inline float fromBf16(uint16_t value) {
  return std::bit_cast<float>(uint32_t(value) << 16);
}

/// IEEE binary16; exact.
inline float fromF16(uint16_t value) {
  uint32_t sign = uint32_t(value & 0x8000) << 16;
  uint32_t exponent = value >> 10 & 0x1F, mantissa = value & 0x3FF;
  if (exponent == 0) {
    float magnitude = std::ldexp(float(mantissa), -24);
    return sign ? -magnitude : magnitude;
  }
  uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

} // namespace blurt

#endif // BLURT_CONVERT_H
