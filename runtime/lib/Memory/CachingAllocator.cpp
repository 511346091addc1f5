//===- CachingAllocator.cpp - Blocks from cached segments -----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Allocator.h"
#include "blurt/Error.h"
#include "blurt/File.h"

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

using namespace blurt;

namespace {

constexpr uint64_t kQuantum = 512;
constexpr uint64_t kSmallLimit = uint64_t(1) << 20;
constexpr uint64_t kSmallSegment = uint64_t(2) << 20;
constexpr uint64_t kMediumLimit = uint64_t(10) << 20;
constexpr uint64_t kMediumSegment = uint64_t(20) << 20;
constexpr uint64_t kLargeQuantum = uint64_t(2) << 20;

uint64_t roundUp(uint64_t value, uint64_t quantum) {
  return (value + quantum - 1) / quantum * quantum;
}

uint64_t segmentSize(uint64_t size, bool small) {
  if (small)
    return kSmallSegment;
  return size < kMediumLimit ? kMediumSegment : roundUp(size, kLargeQuantum);
}

/// What must be left over to be worth a block of its own. A large block keeps
/// a tail of up to 1 MiB, which a later request of nearly its size will want.
uint64_t splitLimit(bool small) { return small ? kQuantum : kSmallLimit; }

} // namespace

CachingAllocator::~CachingAllocator() {
  for (auto &[address, segment] : segments) {
    for (Block *block = segment.first; block;) {
      Block *next = block->next;
      delete block;
      block = next;
    }
    backend.free(address, segment.size);
  }
}

CachingAllocator::Block *CachingAllocator::takeFree(uint64_t size, bool small) {
  FreeList &list = freeList(small);
  Block probe{nullptr, size};
  auto found = list.lower_bound(&probe);
  if (found == list.end())
    return nullptr;
  Block *block = *found;
  list.erase(found);
  --counters.freeBlocks;
  return block;
}

CachingAllocator::Block *CachingAllocator::addSegment(uint64_t size,
                                                      bool small) {
  auto *address = static_cast<std::byte *>(backend.allocate(size));
  if (!address)
    return nullptr;
  auto *block = new Block{address, size};
  block->small = small;
  segments[address] = {size, block};
  counters.reserved += size;
  counters.peakReserved = std::max(counters.peakReserved, counters.reserved);
  ++counters.segments;
  return block;
}

void CachingAllocator::split(Block *block, uint64_t size) {
  uint64_t rest = block->size - size;
  if (rest < splitLimit(block->small))
    return;
  auto *tail = new Block{block->address + size, rest};
  tail->small = block->small;
  tail->previous = block;
  tail->next = block->next;
  if (tail->next)
    tail->next->previous = tail;
  block->next = tail;
  block->size = size;
  freeList(tail->small).insert(tail);
  ++counters.freeBlocks;
  ++counters.splits;
}

CachingAllocator::Block *CachingAllocator::merge(Block *left, Block *right) {
  left->size += right->size;
  left->next = right->next;
  if (left->next)
    left->next->previous = left;
  delete right;
  ++counters.merges;
  return left;
}

void *CachingAllocator::allocate(uint64_t bytes, const std::string &owner) {
  std::lock_guard<std::mutex> lock(mutex);
  // A request that rounding would overflow is out of memory like any other.
  bool possible = bytes <= UINT64_MAX - kMediumSegment;
  uint64_t size =
      possible ? roundUp(std::max<uint64_t>(bytes, 1), kQuantum) : 0;
  bool small = size <= kSmallLimit;
  Block *block = possible ? takeFree(size, small) : nullptr;
  if (block)
    ++counters.cacheHits;
  else if (possible)
    block = addSegment(segmentSize(size, small), small);
  if (!block && possible) {
    // Cached segments may be what is missing; then try again, without rounding
    // the segment up to its class.
    trimLocked();
    block = addSegment(segmentSize(size, small), small);
    if (!block)
      block = addSegment(size, small);
  }
  if (!block) {
    MemoryInfo info = backend.memoryInfo();
    throw failure("out of " + std::string(backend.name()) + " memory: " +
                  owner + " asks for " + formatBytes(bytes) + ", free are " +
                  formatBytes(info.free) + " of " + formatBytes(info.total) +
                  "; this program holds " + formatBytes(counters.allocated));
  }
  split(block, size);
  block->live = true;
  block->requested = bytes;
  block->owner = owner;
  live[block->address] = block;
  counters.allocated += block->size;
  counters.requested += bytes;
  counters.peakAllocated = std::max(counters.peakAllocated, counters.allocated);
  ++counters.allocations;
  ++counters.liveBlocks;
  return block->address;
}

void CachingAllocator::deallocate(void *address) {
  if (!address)
    return;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = live.find(address);
  if (found == live.end()) {
    std::fprintf(stderr, "error: deallocating %p, which is no live block\n",
                 address);
    std::abort();
  }
  Block *block = found->second;
  live.erase(found);
  block->live = false;
  counters.allocated -= block->size;
  counters.requested -= block->requested;
  ++counters.frees;
  --counters.liveBlocks;
  FreeList &list = freeList(block->small);
  if (Block *next = block->next; next && !next->live) {
    list.erase(next);
    --counters.freeBlocks;
    merge(block, next);
  }
  if (Block *previous = block->previous; previous && !previous->live) {
    list.erase(previous);
    --counters.freeBlocks;
    block = merge(previous, block);
  }
  list.insert(block);
  ++counters.freeBlocks;
}

void CachingAllocator::trimLocked() {
  for (auto it = segments.begin(); it != segments.end();) {
    Block *block = it->second.first;
    if (block->live || block->next) {
      ++it;
      continue;
    }
    freeList(block->small).erase(block);
    --counters.freeBlocks;
    --counters.segments;
    counters.reserved -= it->second.size;
    backend.free(it->first, it->second.size);
    delete block;
    it = segments.erase(it);
  }
}

void CachingAllocator::trim() {
  std::lock_guard<std::mutex> lock(mutex);
  trimLocked();
}

AllocatorStats CachingAllocator::stats() const {
  std::lock_guard<std::mutex> lock(mutex);
  return counters;
}

std::string CachingAllocator::snapshot() const {
  std::lock_guard<std::mutex> lock(mutex);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const auto &[address, segment] : segments) {
    nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
    for (const Block *block = segment.first; block; block = block->next) {
      nlohmann::ordered_json item;
      item["offset"] = uint64_t(block->address - address);
      item["size"] = block->size;
      item["state"] = block->live ? "live" : "free";
      if (block->live) {
        item["requested"] = block->requested;
        item["owner"] = block->owner;
      }
      blocks.push_back(std::move(item));
    }
    all.push_back({{"size", segment.size},
                   {"class", segment.first->small ? "small" : "large"},
                   {"blocks", std::move(blocks)}});
  }
  nlohmann::ordered_json result;
  result["backend"] = backend.name();
  result["allocated"] = counters.allocated;
  result["requested"] = counters.requested;
  result["reserved"] = counters.reserved;
  result["peak_allocated"] = counters.peakAllocated;
  result["peak_reserved"] = counters.peakReserved;
  result["segments"] = std::move(all);
  return result.dump();
}
