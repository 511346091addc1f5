//===- Allocator.h - Device memory and the caching allocator ----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A Backend is the memory of one device. The CachingAllocator asks it for
// segments and serves blocks from them: requests are rounded to a multiple of
// 512 bytes, those of up to 1 MiB share small segments, larger ones get
// segments of their own class; the smallest free block that fits is taken and
// split; a freed block coalesces with its free neighbours. Segments stay with
// the allocator until `trim`, or until a request would otherwise fail.
//
// Sizes are bytes. Blocks are aligned to 512 bytes as long as the backend's
// segments are. All members may be called from any thread.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_ALLOCATOR_H
#define BLURT_ALLOCATOR_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

namespace blurt {

struct MemoryInfo {
  uint64_t free;  ///< what could be allocated now
  uint64_t total; ///< what the device has, or may use
};

class Backend {
public:
  virtual ~Backend() = default;
  virtual const char *name() const = 0;
  /// `bytes` > 0. Null if the device has not that much; the contents are zero.
  virtual void *allocate(uint64_t bytes) = 0;
  /// `bytes` as given to `allocate`.
  virtual void free(void *address, uint64_t bytes) = 0;
  /// Both ranges are memory of this backend or of the host.
  virtual void copy(void *to, const void *from, uint64_t bytes) = 0;
  virtual void zero(void *address, uint64_t bytes) = 0;
  virtual MemoryInfo memoryInfo() const = 0;
};

/// The host's memory, mapped page-wise. Respects the limit of the control group
/// the process is in, and never lets the kernel overcommit: a request above
/// what is free is refused.
std::unique_ptr<Backend> createHostBackend();

struct AllocatorStats {
  uint64_t allocated = 0;     ///< bytes in live blocks, rounded
  uint64_t requested = 0;     ///< bytes asked for by live blocks
  uint64_t reserved = 0;      ///< bytes in segments
  uint64_t peakAllocated = 0; ///< highest `allocated` so far
  uint64_t peakReserved = 0;  ///< highest `reserved` so far
  uint64_t liveBlocks = 0, freeBlocks = 0, segments = 0;
  uint64_t allocations = 0, frees = 0, splits = 0, merges = 0;
  uint64_t cacheHits = 0; ///< allocations that needed no new segment
};

class CachingAllocator {
public:
  /// The backend outlives the allocator.
  explicit CachingAllocator(Backend &backend) : backend(backend) {}
  /// Gives every segment back, whatever is still live.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator &) = delete;
  CachingAllocator &operator=(const CachingAllocator &) = delete;

  /// A block of at least `bytes` bytes with unspecified contents; 0 counts as
  /// 1. `owner` names it in snapshots and errors. Throws Error (run-time
  /// failure) when memory is out, saying what was asked and what is free.
  void *allocate(uint64_t bytes, const std::string &owner);
  /// Null is ignored; an address that is no live block is a fatal error.
  void deallocate(void *address);
  /// Gives segments without a live block back to the backend.
  void trim();

  AllocatorStats stats() const;
  /// All segments and blocks as a JSON object.
  std::string snapshot() const;

private:
  struct Block {
    std::byte *address;
    uint64_t size;
    uint64_t requested = 0;
    bool live = false;
    bool small = false;
    Block *previous = nullptr, *next = nullptr; ///< neighbours in the segment
    std::string owner = {};
  };
  struct BySize {
    bool operator()(const Block *a, const Block *b) const {
      return a->size != b->size ? a->size < b->size : a->address < b->address;
    }
  };
  using FreeList = std::set<Block *, BySize>;
  struct Segment {
    uint64_t size;
    Block *first;
  };

  FreeList &freeList(bool small) { return small ? freeSmall : freeLarge; }
  Block *takeFree(uint64_t size, bool small);
  Block *addSegment(uint64_t size, bool small);
  void split(Block *block, uint64_t size);
  Block *merge(Block *left, Block *right);
  void trimLocked();

  Backend &backend;
  mutable std::mutex mutex;
  FreeList freeSmall, freeLarge;
  std::unordered_map<void *, Block *> live;
  std::map<std::byte *, Segment> segments;
  AllocatorStats counters;
};

} // namespace blurt

#endif // BLURT_ALLOCATOR_H
