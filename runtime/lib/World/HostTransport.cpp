//===- HostTransport.cpp - Collectives in host memory ---------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A reduce-scatter is an exchange of pieces, all with all, and a sum of what
// came in the order of the ranks: the same bits however the messages arrive.
//
//===----------------------------------------------------------------------===//

#include "blurt/Convert.h"
#include "blurt/Cuda.h"
#include "blurt/Program.h"
#include "blurt/World.h"

#include <algorithm>
#include <cstring>
#include <deque>

using namespace blurt;

namespace {

class HostTransport : public Transport {
public:
  explicit HostTransport(World &world)
      : world(world), isLate(environmentFlag("BLURT_LATE_COLLECTIVES")) {}

  std::string name() const override { return world.channelName(); }

  void start(int32_t number, const blurt_collective &collective,
             void *const *args) override {
    if (!isLate || collective.kind == BLURT_LOCAL_SHARD)
      return run(collective, args);
    late.push_back(
        {number, &collective, {args, args + 2 * collective.num_values}});
  }

  void wait(int32_t number) override {
    // It may have run before a later one that was waited for.
    auto found = std::find_if(late.begin(), late.end(), [&](const Started &s) {
      return s.number == number;
    });
    for (auto left = found == late.end() ? 0 : found - late.begin() + 1;
         left > 0; --left) {
      run(*late.front().collective, late.front().args.data());
      late.pop_front();
    }
  }

private:
  struct Started {
    int32_t number;
    const blurt_collective *collective;
    std::vector<void *> args;
  };

  void run(const blurt_collective &collective, void *const *args) {
    void *const *outs = args + collective.num_values;
    switch (collective.kind) {
    case BLURT_REDUCE_SCATTER:
      return reduceScatter(collective, args, outs);
    case BLURT_ALL_GATHER:
      return allGather(collective, args, outs);
    default:
      for (int32_t v = 0; v < collective.num_values; ++v)
        cut(collective.values[v], static_cast<const std::byte *>(args[v]),
            static_cast<std::byte *>(outs[v]), world.rank());
    }
  }

  /// Elements of `rank`'s piece of a row that are there.
  static uint64_t present(const blurt_collective_value &value, int64_t rank) {
    return uint64_t(
        std::clamp<int64_t>(value.count - rank * value.piece, 0, value.piece));
  }
  static uint64_t pieceBytes(const blurt_collective &collective) {
    uint64_t bytes = 0;
    for (int32_t v = 0; v < collective.num_values; ++v)
      bytes +=
          uint64_t(collective.values[v].batch * collective.values[v].piece) *
          dtypeSize(collective.values[v].dtype);
    return bytes;
  }

  /// Writes `rank`'s pieces of the rows of `from`, with their zeros.
  static void cut(const blurt_collective_value &value, const std::byte *from,
                  std::byte *to, int64_t rank) {
    uint64_t size = dtypeSize(value.dtype);
    uint64_t bytes = present(value, rank) * size;
    uint64_t piece = uint64_t(value.piece) * size;
    for (int64_t row = 0; row < value.batch; ++row) {
      const std::byte *begin =
          from + uint64_t(row * value.count + rank * value.piece) * size;
      if (bytes)
        std::memcpy(to, begin, bytes);
      std::memset(to + bytes, 0, piece - bytes);
      to += piece;
    }
  }

  template <typename T>
  static void add(std::byte *to, const std::byte *from, uint64_t count) {
    auto *sums = reinterpret_cast<T *>(to);
    const auto *terms = reinterpret_cast<const T *>(from);
    for (uint64_t i = 0; i < count; ++i)
      sums[i] += terms[i];
  }
  static void addBf16(std::byte *to, const std::byte *from, uint64_t count) {
    auto *sums = reinterpret_cast<uint16_t *>(to);
    const auto *terms = reinterpret_cast<const uint16_t *>(from);
    for (uint64_t i = 0; i < count; ++i)
      sums[i] = toBf16(fromBf16(sums[i]) + fromBf16(terms[i]));
  }

  /// Sends each other rank its part of `mine` and receives as much from it
  /// into its part of `theirs`; both are cut by rank.
  void exchange(const blurt_collective &collective, const std::byte *mine,
                bool same, std::byte *theirs, uint64_t bytes) {
    std::vector<Channel::Message> messages;
    for (int64_t step = 1; step < world.size(); ++step) {
      int64_t peer = (world.rank() + step) % world.size();
      messages.push_back({peer, same ? mine : mine + uint64_t(peer) * bytes,
                          bytes, theirs + uint64_t(peer) * bytes, bytes});
    }
    world.exchange(messages, collective.source);
  }

  void reduceScatter(const blurt_collective &collective, void *const *args,
                     void *const *outs) {
    uint64_t bytes = pieceBytes(collective);
    auto ranks = uint64_t(world.size());
    sent.resize(bytes * ranks);
    received.resize(bytes * ranks);
    for (int64_t rank = 0; rank < world.size(); ++rank) {
      std::byte *to = sent.data() + uint64_t(rank) * bytes;
      for (int32_t v = 0; v < collective.num_values; ++v) {
        const blurt_collective_value &value = collective.values[v];
        cut(value, static_cast<const std::byte *>(args[v]), to, rank);
        to += uint64_t(value.batch * value.piece) * dtypeSize(value.dtype);
      }
    }
    exchange(collective, sent.data(), false, received.data(), bytes);
    auto own = uint64_t(world.rank()) * bytes;
    std::memcpy(received.data() + own, sent.data() + own, bytes);
    uint64_t at = 0;
    for (int32_t v = 0; v < collective.num_values; ++v) {
      const blurt_collective_value &value = collective.values[v];
      auto count = uint64_t(value.batch * value.piece);
      uint64_t its = count * dtypeSize(value.dtype);
      auto *to = static_cast<std::byte *>(outs[v]);
      std::memcpy(to, received.data() + at, its);
      for (uint64_t rank = 1; rank < ranks; ++rank) {
        const std::byte *from = received.data() + rank * bytes + at;
        if (value.dtype == BLURT_F64)
          add<double>(to, from, count);
        else if (value.dtype == BLURT_F32)
          add<float>(to, from, count);
        else
          addBf16(to, from, count);
      }
      at += its;
    }
  }

  void allGather(const blurt_collective &collective, void *const *args,
                 void *const *outs) {
    uint64_t bytes = pieceBytes(collective);
    sent.resize(bytes);
    received.resize(bytes * uint64_t(world.size()));
    std::byte *at = sent.data();
    for (int32_t v = 0; v < collective.num_values; ++v) {
      const blurt_collective_value &value = collective.values[v];
      uint64_t its =
          uint64_t(value.batch * value.piece) * dtypeSize(value.dtype);
      std::memcpy(at, args[v], its);
      at += its;
    }
    exchange(collective, sent.data(), true, received.data(), bytes);
    std::memcpy(received.data() + uint64_t(world.rank()) * bytes, sent.data(),
                bytes);
    for (int64_t rank = 0; rank < world.size(); ++rank) {
      const std::byte *from = received.data() + uint64_t(rank) * bytes;
      for (int32_t v = 0; v < collective.num_values; ++v) {
        const blurt_collective_value &value = collective.values[v];
        uint64_t size = dtypeSize(value.dtype), there = present(value, rank);
        for (int64_t row = 0; row < value.batch; ++row) {
          if (there)
            std::memcpy(static_cast<std::byte *>(outs[v]) +
                            uint64_t(row * value.count + rank * value.piece) *
                                size,
                        from, there * size);
          from += uint64_t(value.piece) * size;
        }
      }
    }
  }

  World &world;
  bool isLate;
  std::deque<Started> late; ///< started and not run
  std::vector<std::byte> sent, received;
};

} // namespace

std::unique_ptr<Transport> blurt::createHostTransport(World &world) {
  return std::make_unique<HostTransport>(world);
}
