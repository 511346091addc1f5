//===- Random.h - Counter-based random numbers ------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy
// as 1, 2, 3", SC 2011) and the distributions drawn from it. A number is a pure
// function of (seed, stream name, index): there is no state, so threads, order
// and sharding change no bit.
//
// One Philox block gives two numbers of 64 bits. Number i of a stream is half
// i % 2 of block i / 2; the two normals of a block are one Box-Muller pair.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_RANDOM_H
#define BLURT_RANDOM_H

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace blurt {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    uint64_t a = uint64_t(0xD2511F53) * counter[0];
    uint64_t b = uint64_t(0xCD9E8D57) * counter[2];
    counter = {uint32_t(b >> 32) ^ counter[1] ^ key[0], uint32_t(b),
               uint32_t(a >> 32) ^ counter[3] ^ key[1], uint32_t(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// 64-bit FNV-1a.
constexpr uint64_t hashName(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (char c : name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

/// The numbers of one named stream of a seed.
class RandomStream {
public:
  RandomStream(uint64_t seed, std::string_view name)
      : key{uint32_t(seed), uint32_t(seed >> 32)}, stream(hashName(name)) {}

  PhiloxCounter block(uint64_t index) const {
    return philox4x32({uint32_t(index), uint32_t(index >> 32), uint32_t(stream),
                       uint32_t(stream >> 32)},
                      key);
  }

  uint64_t bits(uint64_t index) const {
    PhiloxCounter words = block(index / 2);
    return index % 2 ? join(words[2], words[3]) : join(words[0], words[1]);
  }

  /// In [0, 1), a multiple of 2^-53.
  double uniform(uint64_t index) const { return unit(bits(index)); }

  /// The two standard normals of numbers 2·pair and 2·pair + 1.
  std::array<double, 2> normalPair(uint64_t pair) const {
    PhiloxCounter words = block(pair);
    // 1 - u lies in (0, 1]: the logarithm is finite.
    double radius =
        std::sqrt(-2.0 * std::log(1.0 - unit(join(words[0], words[1]))));
    double angle = 6.283185307179586476925 * unit(join(words[2], words[3]));
    return {radius * std::cos(angle), radius * std::sin(angle)};
  }

  double normal(uint64_t index) const {
    return normalPair(index / 2)[index % 2];
  }

private:
  static uint64_t join(uint32_t low, uint32_t high) {
    return uint64_t(high) << 32 | low;
  }
  static double unit(uint64_t bits) { return double(bits >> 11) * 0x1p-53; }

  PhiloxKey key;
  uint64_t stream;
};

/// Position `index` of a permutation of [0, count) chosen by (seed, epoch): a
/// Feistel network over the smallest even number of bits that holds `count`,
/// walked until it lands inside. Needs no table.
inline uint64_t permuted(uint64_t seed, uint64_t epoch, uint64_t index,
                         uint64_t count) {
  int half = 1;
  while (half < 31 && (uint64_t(1) << (2 * half)) < count)
    ++half;
  uint64_t mask = (uint64_t(1) << half) - 1;
  do {
    uint64_t left = index >> half, right = index & mask;
    for (uint32_t round = 0; round < 6; ++round) {
      PhiloxCounter words = philox4x32(
          {uint32_t(right), round, uint32_t(epoch), uint32_t(epoch >> 32)},
          {uint32_t(seed), uint32_t(seed >> 32)});
      uint64_t next = left ^ (words[0] & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= count);
  return index;
}

} // namespace blurt

#endif // BLURT_RANDOM_H
