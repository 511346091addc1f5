//===- Hash.h - Checksums of bytes ------------------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_HASH_H
#define BLURT_HASH_H

#include <cstdint>
#include <string>

namespace blurt {

/// XXH64 of a range of bytes: several gigabytes a second, and other tools
/// compute it too. It finds damage, not malice.
uint64_t xxh64(const void *data, uint64_t bytes, uint64_t seed = 0);

/// 16 lowercase hex digits.
std::string hexString(uint64_t value);

} // namespace blurt

#endif // BLURT_HASH_H
