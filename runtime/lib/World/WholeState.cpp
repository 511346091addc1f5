//===- WholeState.cpp - State without its cuts ----------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/WholeState.h"

#include <algorithm>

using namespace blurt;

static uint64_t alignedEnd(uint64_t end) {
  return (end + BLURT_ALIGNMENT - 1) / BLURT_ALIGNMENT * BLURT_ALIGNMENT;
}

static uint64_t rowsOf(const blurt_tensor &t) {
  return uint64_t(std::max<int64_t>(1, t.stack_count));
}

WholeState::WholeState(const blurt_program &program)
    : original(program), whole(program) {
  uint64_t end = 0;
  for (const blurt_tensor &t : stateOf(program)) {
    blurt_tensor &its = tensors.emplace_back(t);
    if (t.shards > 0) {
      cut = true;
      its.rank = int32_t(t.shard_rank);
      its.shape = t.shard_shape;
      its.shards = 0;
    }
    its.offset = end;
    its.stack_stride = uint64_t(elementCount(its)) * dtypeSize(its.dtype);
    end = alignedEnd(end + rowsOf(its) * its.stack_stride);
  }
  whole.state = tensors.data();
  whole.state_bytes = end;
}

/// Row i of a piece lies at i times this, in bytes; there are that many bytes
/// of it in the whole for rank `rank`.
static uint64_t pieceBytes(const blurt_tensor &piece) {
  return uint64_t(elementCount(piece)) * dtypeSize(piece.dtype);
}
static uint64_t presentBytes(const blurt_tensor &piece,
                             const blurt_tensor &whole, int64_t rank) {
  int64_t size = elementCount(piece);
  return uint64_t(
             std::clamp<int64_t>(elementCount(whole) - rank * size, 0, size)) *
         dtypeSize(piece.dtype);
}

void WholeState::collect(World *world, const Arena &from,
                         std::vector<std::byte> &to) {
  bool leads = !world || world->leads();
  int64_t ranks = world ? world->size() : 1;
  to.resize(leads ? whole.state_bytes : 0);
  std::vector<std::byte> mine, all;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const blurt_tensor &piece = original.state[i], &its = tensors[i];
    uint64_t bytes = pieceBytes(piece), rows = rowsOf(piece);
    mine.resize(bytes * rows);
    for (uint64_t row = 0; row < rows; ++row)
      from.read(piece.offset + row * piece.stack_stride,
                mine.data() + row * bytes, bytes);
    if (piece.shards == 0) {
      if (leads)
        std::copy(mine.begin(), mine.end(),
                  to.begin() + std::ptrdiff_t(its.offset));
      continue;
    }
    std::vector<Channel::Message> messages;
    if (leads) {
      all.resize(mine.size() * uint64_t(ranks));
      std::copy(mine.begin(), mine.end(), all.begin());
      for (int64_t rank = 1; rank < ranks; ++rank)
        messages.push_back({rank, nullptr, 0,
                            all.data() + uint64_t(rank) * mine.size(),
                            mine.size()});
    } else {
      messages.push_back({0, mine.data(), mine.size(), nullptr, 0});
    }
    world->exchange(messages,
                    std::string("collecting the state '") + piece.name + "'");
    for (int64_t rank = 0; leads && rank < ranks; ++rank)
      for (uint64_t row = 0; row < rows; ++row)
        std::copy_n(all.data() + (uint64_t(rank) * rows + row) * bytes,
                    presentBytes(piece, its, rank),
                    to.data() + its.offset + row * its.stack_stride +
                        uint64_t(rank) * bytes);
  }
}

void WholeState::distribute(const World *world,
                            const std::vector<std::byte> &from,
                            const Arena &to) const {
  int64_t rank = world ? world->rank() : 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const blurt_tensor &piece = original.state[i], &its = tensors[i];
    bool isCut = piece.shards > 0;
    uint64_t present =
        isCut ? presentBytes(piece, its, rank) : pieceBytes(piece);
    for (uint64_t row = 0; row < rowsOf(piece); ++row)
      if (present)
        to.write(piece.offset + row * piece.stack_stride,
                 from.data() + its.offset + row * its.stack_stride +
                     (isCut ? uint64_t(rank) * pieceBytes(piece) : 0),
                 present);
  }
}
