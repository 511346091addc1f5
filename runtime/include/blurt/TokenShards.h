//===- TokenShards.h - Token streams from shard files -----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Shards are llm.c token files: 256 little-endian int32 (magic, version, count)
// and then the tokens, uint16 (magic 20240520, version 1) or uint32 (20240801,
// 7). The shards of a pattern, in name order, are one stream of tokens; reading
// past its end goes on at its start.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_TOKENSHARDS_H
#define BLURT_TOKENSHARDS_H

#include "blurt/File.h"

#include <cstdint>
#include <string>
#include <vector>

namespace blurt {

class TokenStream {
public:
  /// Maps every file that the glob `pattern` matches. `vocab` is the number of
  /// token ids, 0 for no check. `flag` is the option at fault in errors.
  TokenStream(const std::string &flag, const std::string &pattern,
              int64_t vocab);

  /// Tokens in all shards.
  uint64_t size() const { return total; }
  size_t shardCount() const { return shards.size(); }
  /// Hex digits that tell other data from this: of the sizes of the shards and
  /// of samples of their tokens.
  std::string digest() const;

  /// Writes tokens [position, position + count) to `out`, the stream repeating
  /// without end. Throws Error if an id is not below `vocab`, naming file,
  /// position in the file, and id.
  void read(uint64_t position, uint64_t count, int32_t *out) const;

  /// Asks the system to bring tokens [position, position + count) into memory,
  /// and returns at once.
  void prefetch(uint64_t position, uint64_t count) const;

private:
  struct Shard {
    MappedFile file;
    uint64_t begin; ///< position of its first token in the stream
    uint64_t count;
    unsigned width; ///< bytes a token
  };

  const Shard &shardAt(uint64_t at) const;

  std::vector<Shard> shards;
  uint64_t total = 0;
  int64_t vocab;
};

/// Cuts a stream into batches of `rows` windows of `length` inputs, the targets
/// being the inputs shifted by one: batch b takes windows [b·rows, (b+1)·rows),
/// window w is tokens [w·length, (w+1)·length] of the endless stream. Shuffled,
/// the w-th window drawn is a permutation's, a new one for each pass over the
/// windows that lie inside the stream.
class BatchReader {
public:
  /// Throws Error if the stream is shorter than one batch. The stream outlives
  /// the reader.
  BatchReader(const std::string &flag, const TokenStream &stream, int64_t rows,
              int64_t length);

  void shuffle(uint64_t seed) {
    shuffled = true;
    shuffleSeed = seed;
  }

  /// Whole batches in one pass over the stream.
  uint64_t batchesPerPass() const;

  /// Writes rows × length inputs and as many targets.
  void read(uint64_t batch, int32_t *inputs, int32_t *targets) const {
    readFrom(batch * rows, inputs, targets);
  }
  /// The same for a batch that begins with the `window`-th window drawn.
  void readFrom(uint64_t window, int32_t *inputs, int32_t *targets) const;
  /// Asks the system to bring that batch into memory, and returns at once.
  void prefetch(uint64_t window) const;

private:
  /// The window of the stream that is drawn as the `drawn`-th.
  uint64_t windowAt(uint64_t drawn) const;

  const TokenStream &stream;
  uint64_t rows, length;
  bool shuffled = false;
  uint64_t shuffleSeed = 0;
};

} // namespace blurt

#endif // BLURT_TOKENSHARDS_H
