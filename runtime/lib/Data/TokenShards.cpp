//===- TokenShards.cpp - Token streams from shard files -------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/TokenShards.h"
#include "blurt/Error.h"
#include "blurt/Hash.h"
#include "blurt/Random.h"

#include <algorithm>
#include <cstring>
#include <glob.h>

using namespace blurt;

namespace {

constexpr uint64_t kHeaderBytes = 1024;
constexpr int32_t kMagicGpt2 = 20240520, kVersionGpt2 = 1;
constexpr int32_t kMagicLlama3 = 20240801, kVersionLlama3 = 7;

std::vector<std::string> expandPattern(const std::string &flag,
                                       const std::string &pattern) {
  glob_t matches;
  int status =
      ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &matches);
  std::vector<std::string> paths;
  if (status == 0)
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  ::globfree(&matches);
  if (status == GLOB_ABORTED)
    throw badInput(flag + ": cannot read a folder of '" + pattern + "'");
  if (status == GLOB_NOSPACE)
    throw failure(flag + ": out of memory while matching '" + pattern + "'");
  if (paths.empty())
    throw badInput(flag + ": no file matches '" + pattern + "'");
  // By bytes: the order must not depend on the user's language.
  std::sort(paths.begin(), paths.end());
  return paths;
}

int32_t headerWord(const MappedFile &file, int index) {
  int32_t word;
  std::memcpy(&word, file.data() + 4 * index, 4);
  return word;
}

} // namespace

TokenStream::TokenStream(const std::string &flag, const std::string &pattern,
                         int64_t vocab)
    : vocab(vocab) {
  for (const std::string &path : expandPattern(flag, pattern)) {
    MappedFile file(path);
    if (file.size() < kHeaderBytes)
      throw badInput(path + ": expected a token file with a header of " +
                     std::to_string(kHeaderBytes) + " bytes, got " +
                     std::to_string(file.size()) + " bytes");
    int32_t magic = headerWord(file, 0), version = headerWord(file, 1);
    if (magic != kMagicGpt2 && magic != kMagicLlama3)
      throw badInput(path + ": expected a token file with magic number " +
                     std::to_string(kMagicGpt2) + " or " +
                     std::to_string(kMagicLlama3) + ", got " +
                     std::to_string(magic));
    int32_t expected = magic == kMagicGpt2 ? kVersionGpt2 : kVersionLlama3;
    if (version != expected)
      throw badInput(path + ": expected token file version " +
                     std::to_string(expected) + ", got " +
                     std::to_string(version));
    unsigned width = magic == kMagicGpt2 ? 2 : 4;
    uint64_t count = static_cast<uint32_t>(headerWord(file, 2));
    uint64_t bytes = kHeaderBytes + count * width;
    if (file.size() != bytes)
      throw badInput(path + ": expected " + std::to_string(bytes) +
                     " bytes for the " + std::to_string(count) +
                     " tokens of the header, got " +
                     std::to_string(file.size()) + " bytes: the file is " +
                     (file.size() < bytes ? "truncated" : "too long"));
    if (!shards.empty() && shards.front().width != width)
      throw badInput(path + ": expected " +
                     std::to_string(8 * shards.front().width) +
                     "-bit tokens as in " + shards.front().file.path() +
                     ", got " + std::to_string(8 * width) + "-bit tokens");
    shards.push_back({std::move(file), total, count, width});
    total += count;
  }
  if (total == 0)
    throw badInput(flag + ": the shards of '" + pattern + "' hold no token");
}

template <typename Word>
static int64_t copyTokens(const std::byte *from, uint64_t count, uint64_t limit,
                          int32_t *out) {
  for (uint64_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, from + i * sizeof(Word), sizeof(Word));
    if (word >= limit)
      return static_cast<int64_t>(i);
    out[i] = static_cast<int32_t>(word);
  }
  return -1;
}

const TokenStream::Shard &TokenStream::shardAt(uint64_t at) const {
  return *std::prev(
      std::upper_bound(shards.begin(), shards.end(), at,
                       [](uint64_t p, const Shard &s) { return p < s.begin; }));
}

void TokenStream::prefetch(uint64_t position, uint64_t count) const {
  while (count > 0) {
    uint64_t at = position % total;
    const Shard &shard = shardAt(at);
    uint64_t first = at - shard.begin;
    uint64_t some = std::min(count, shard.count - first);
    shard.file.prefetch(kHeaderBytes + first * shard.width, some * shard.width);
    position += some;
    count -= some;
  }
}

void TokenStream::read(uint64_t position, uint64_t count, int32_t *out) const {
  // Ids are handed on as int32, whatever the vocabulary.
  uint64_t limit = vocab > 0 ? uint64_t(vocab) : uint64_t(1) << 31;
  while (count > 0) {
    uint64_t at = position % total;
    const Shard *shard = &shardAt(at);
    uint64_t first = at - shard->begin;
    uint64_t some = std::min(count, shard->count - first);
    const std::byte *from =
        shard->file.data() + kHeaderBytes + first * shard->width;
    int64_t bad = shard->width == 2
                      ? copyTokens<uint16_t>(from, some, limit, out)
                      : copyTokens<uint32_t>(from, some, limit, out);
    if (bad >= 0) {
      uint32_t id = 0;
      std::memcpy(&id, from + uint64_t(bad) * shard->width, shard->width);
      throw badInput(shard->file.path() + ": token " +
                     std::to_string(first + uint64_t(bad)) +
                     ": expected an id below the vocabulary size " +
                     std::to_string(limit) + ", got " + std::to_string(id));
    }
    position += some;
    count -= some;
    out += some;
  }
}

std::string TokenStream::digest() const {
  constexpr uint64_t kSamples = 64, kSampleBytes = 4096;
  uint64_t hash = 0;
  for (const Shard &shard : shards) {
    hash = xxh64(&shard.count, sizeof(shard.count), hash);
    uint64_t bytes = shard.file.size();
    for (uint64_t i = 0; i < kSamples; ++i) {
      uint64_t some = std::min(kSampleBytes, bytes);
      uint64_t at = (bytes - some) / (kSamples - 1) * i;
      if (i + 1 == kSamples)
        at = bytes - some;
      hash = xxh64(shard.file.data() + at, some, hash);
    }
  }
  return hexString(hash);
}

BatchReader::BatchReader(const std::string &flag, const TokenStream &stream,
                         int64_t rows, int64_t length)
    : stream(stream), rows(uint64_t(rows)), length(uint64_t(length)) {
  uint64_t need = this->rows * this->length + 1;
  if (stream.size() < need)
    throw badInput(flag + ": expected at least " + std::to_string(need) +
                   " tokens for one batch of " + std::to_string(rows) +
                   " sequences of " + std::to_string(length) + ", got " +
                   std::to_string(stream.size()));
}

uint64_t BatchReader::batchesPerPass() const {
  return (stream.size() - 1) / (rows * length);
}

uint64_t BatchReader::windowAt(uint64_t drawn) const {
  if (!shuffled)
    return drawn;
  uint64_t windows = (stream.size() - 1) / length;
  return permuted(shuffleSeed, drawn / windows, drawn % windows, windows);
}

void BatchReader::prefetch(uint64_t first) const {
  if (!shuffled)
    return stream.prefetch(first * length, rows * length + 1);
  for (uint64_t row = 0; row < rows; ++row)
    stream.prefetch(windowAt(first + row) * length, length + 1);
}

void BatchReader::readFrom(uint64_t first, int32_t *inputs,
                           int32_t *targets) const {
  for (uint64_t row = 0; row < rows; ++row) {
    uint64_t begin = windowAt(first + row) * length;
    int32_t *in = inputs + row * length, *out = targets + row * length;
    stream.read(begin, length, in);
    std::copy_n(in + 1, length - 1, out);
    stream.read(begin + length, 1, out + length - 1);
  }
}
