//===- Hash.cpp - Checksums of bytes --------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Hash.h"

#include <bit>
#include <cstdio>
#include <cstring>

using namespace blurt;

namespace {

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F,
                   kPrime3 = 0x165667B19E3779F9, kPrime4 = 0x85EBCA77C2B2AE63,
                   kPrime5 = 0x27D4EB2F165667C5;

template <typename Word> uint64_t load(const unsigned char *from) {
  Word word;
  std::memcpy(&word, from, sizeof(Word));
  return word;
}

uint64_t mix(uint64_t lane, uint64_t input) {
  return std::rotl(lane + input * kPrime2, 31) * kPrime1;
}

} // namespace

uint64_t blurt::xxh64(const void *data, uint64_t bytes, uint64_t seed) {
  auto *at = static_cast<const unsigned char *>(data);
  uint64_t left = bytes, hash = seed + kPrime5;
  if (left >= 32) {
    uint64_t lanes[] = {seed + kPrime1 + kPrime2, seed + kPrime2, seed,
                        seed - kPrime1};
    for (; left >= 32; left -= 32)
      for (uint64_t &lane : lanes) {
        lane = mix(lane, load<uint64_t>(at));
        at += 8;
      }
    hash = std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) +
           std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (uint64_t lane : lanes)
      hash = (hash ^ mix(0, lane)) * kPrime1 + kPrime4;
  }
  hash += bytes;
  for (; left >= 8; left -= 8, at += 8)
    hash = std::rotl(hash ^ mix(0, load<uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (left >= 4) {
    hash = std::rotl(hash ^ (load<uint32_t>(at) * kPrime1), 23) * kPrime2 +
           kPrime3;
    left -= 4;
    at += 4;
  }
  for (; left > 0; --left, ++at)
    hash = std::rotl(hash ^ (*at * kPrime5), 11) * kPrime1;
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

std::string blurt::hexString(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(value));
  return text;
}
