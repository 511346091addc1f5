//===- AllocatorTest.cpp --------------------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Allocator.h"
#include "TestFiles.h"

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

using namespace blurt;

namespace {

/// A device of fixed size on top of the host.
class LimitedBackend final : public Backend {
public:
  explicit LimitedBackend(uint64_t total) : total(total) {}
  ~LimitedBackend() override { EXPECT_EQ(used, 0u) << "segments leaked"; }
  const char *name() const override { return "limited"; }
  void *allocate(uint64_t bytes) override {
    if (used + bytes > total)
      return nullptr;
    used += bytes;
    ++calls;
    return std::aligned_alloc(4096, bytes);
  }
  void free(void *address, uint64_t bytes) override {
    used -= bytes;
    std::free(address);
  }
  void copy(void *to, const void *from, uint64_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void zero(void *address, uint64_t bytes) override {
    std::memset(address, 0, bytes);
  }
  MemoryInfo memoryInfo() const override { return {total - used, total}; }

  uint64_t total, used = 0;
  int calls = 0;
};

constexpr uint64_t MiB = 1 << 20;

/// Adds up the snapshot and compares it with the statistics.
void checkSnapshot(const CachingAllocator &allocator) {
  auto snapshot = nlohmann::json::parse(allocator.snapshot());
  AllocatorStats stats = allocator.stats();
  uint64_t live = 0, free = 0, liveBlocks = 0, freeBlocks = 0;
  for (const auto &segment : snapshot["segments"]) {
    uint64_t offset = 0;
    bool previousFree = false;
    for (const auto &block : segment["blocks"]) {
      ASSERT_EQ(block["offset"], offset);
      uint64_t size = block["size"];
      ASSERT_EQ(size % 512, 0u);
      bool isFree = block["state"] == "free";
      ASSERT_FALSE(isFree && previousFree) << "free neighbours not merged";
      (isFree ? free : live) += size;
      ++(isFree ? freeBlocks : liveBlocks);
      offset += size;
      previousFree = isFree;
    }
    ASSERT_EQ(segment["size"], offset);
  }
  EXPECT_EQ(live, stats.allocated);
  EXPECT_EQ(live + free, stats.reserved);
  EXPECT_EQ(liveBlocks, stats.liveBlocks);
  EXPECT_EQ(freeBlocks, stats.freeBlocks);
  EXPECT_EQ(snapshot["segments"].size(), stats.segments);
}

} // namespace

TEST(CachingAllocator, RandomOperationsKeepInvariants) {
  LimitedBackend backend(uint64_t(512) * MiB);
  CachingAllocator allocator(backend);
  std::mt19937_64 random(1);
  std::map<std::byte *, std::pair<uint64_t, int>> live;
  uint64_t requested = 0;
  for (int i = 0; i < 4000; ++i) {
    if (live.size() < 40 && random() % 5 < 3) {
      // Every class: small, medium, large.
      uint64_t limit =
          std::array<uint64_t, 3>{4096, 3 * MiB, 12 * MiB}[random() % 3];
      uint64_t bytes = random() % limit;
      auto *address =
          static_cast<std::byte *>(allocator.allocate(bytes, "test"));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(address) % 512, 0u);
      auto next = live.lower_bound(address);
      if (next != live.end()) {
        ASSERT_LE(address + bytes, next->first);
      }
      if (next != live.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second.first,
                  address);
      }
      int tag = int(random() % 256);
      if (bytes) {
        address[0] = address[bytes - 1] = std::byte(tag);
      }
      live[address] = {bytes, tag};
      requested += bytes;
    } else if (!live.empty()) {
      auto it = std::next(live.begin(), long(random() % live.size()));
      auto [bytes, tag] = it->second;
      if (bytes) {
        EXPECT_EQ(it->first[0], std::byte(tag));
        EXPECT_EQ(it->first[bytes - 1], std::byte(tag));
      }
      requested -= bytes;
      allocator.deallocate(it->first);
      live.erase(it);
    }
    ASSERT_EQ(allocator.stats().requested, requested);
    ASSERT_EQ(allocator.stats().liveBlocks, live.size());
    if (i % 50 == 0) {
      ASSERT_NO_FATAL_FAILURE(checkSnapshot(allocator));
    }
    if (i % 1000 == 999)
      allocator.trim();
  }
  for (auto &[address, unused] : live)
    allocator.deallocate(address);
  AllocatorStats stats = allocator.stats();
  EXPECT_EQ(stats.allocated, 0u);
  EXPECT_EQ(stats.allocations, stats.frees);
  EXPECT_GT(stats.splits, 100u);
  EXPECT_GT(stats.merges, 100u);
  EXPECT_GT(stats.cacheHits, stats.allocations / 2);
  allocator.trim();
  EXPECT_EQ(backend.used, 0u);
}

TEST(CachingAllocator, TakesTheBestFit) {
  LimitedBackend backend(uint64_t(512) * MiB);
  CachingAllocator allocator(backend);
  // Separate segments, so that the blocks cannot merge.
  void *large = allocator.allocate(40 * MiB, "large");
  void *middle = allocator.allocate(20 * MiB, "middle");
  void *other = allocator.allocate(30 * MiB, "other");
  for (void *p : {large, middle, other})
    allocator.deallocate(p);
  EXPECT_EQ(allocator.allocate(19 * MiB + 1, "again"), middle);
  EXPECT_EQ(allocator.allocate(25 * MiB, "again"), other);
  EXPECT_EQ(backend.calls, 3);
}

TEST(CachingAllocator, SplitsAndCoalesces) {
  LimitedBackend backend(uint64_t(512) * MiB);
  CachingAllocator allocator(backend);
  auto *a = static_cast<std::byte *>(allocator.allocate(1000, "a"));
  auto *b = static_cast<std::byte *>(allocator.allocate(1000, "b"));
  auto *c = static_cast<std::byte *>(allocator.allocate(1000, "c"));
  EXPECT_EQ(b, a + 1024);
  EXPECT_EQ(c, b + 1024);
  allocator.deallocate(a);
  allocator.deallocate(c);
  EXPECT_EQ(allocator.stats().freeBlocks, 2u);
  allocator.deallocate(b);
  EXPECT_EQ(allocator.stats().freeBlocks, 1u);
  EXPECT_EQ(allocator.allocate(3000, "abc"), a);
}

TEST(CachingAllocator, TrimsTheCacheBeforeGivingUp) {
  LimitedBackend backend(64 * MiB);
  CachingAllocator allocator(backend);
  void *a = allocator.allocate(30 * MiB, "a");
  void *b = allocator.allocate(30 * MiB, "b");
  allocator.deallocate(a);
  allocator.deallocate(b);
  // Fits only once both cached segments are gone.
  void *c = allocator.allocate(60 * MiB, "c");
  EXPECT_EQ(allocator.stats().segments, 1u);
  allocator.deallocate(c);
}

TEST(CachingAllocator, OutOfMemorySaysWhatIsFree) {
  LimitedBackend backend(64 * MiB);
  CachingAllocator allocator(backend);
  void *kept = allocator.allocate(40 * MiB, "kept");
  EXPECT_ERROR(allocator.allocate(30 * MiB, "the arena"), ExitFailure,
               "out of limited memory: the arena asks for 30.00 MiB, free are "
               "24.00 MiB of 64.00 MiB; this program holds 40.00 MiB");
  EXPECT_ERROR(allocator.allocate(UINT64_MAX, "the arena"), ExitFailure,
               "out of limited memory");
  // The failure left the allocator usable.
  allocator.deallocate(allocator.allocate(20 * MiB, "rest"));
  allocator.deallocate(kept);
  checkSnapshot(allocator);
}

TEST(CachingAllocator, SnapshotNamesOwners) {
  LimitedBackend backend(64 * MiB);
  CachingAllocator allocator(backend);
  allocator.allocate(100, "first");
  auto snapshot = nlohmann::json::parse(allocator.snapshot());
  const auto &block = snapshot["segments"][0]["blocks"][0];
  EXPECT_EQ(block["owner"], "first");
  EXPECT_EQ(block["requested"], 100);
  EXPECT_EQ(block["size"], 512);
  EXPECT_EQ(snapshot["peak_reserved"], 2 * MiB);
}

TEST(CachingAllocatorDeathTest, UnknownAddressIsFatal) {
  LimitedBackend backend(64 * MiB);
  CachingAllocator allocator(backend);
  auto *address = static_cast<std::byte *>(allocator.allocate(1000, "a"));
  EXPECT_DEATH(allocator.deallocate(address + 512), "no live block");
}

TEST(HostBackend, AllocatesZeroedMemoryAndRefusesTooMuch) {
  std::unique_ptr<Backend> backend = createHostBackend();
  MemoryInfo info = backend->memoryInfo();
  EXPECT_GT(info.free, 0u);
  EXPECT_GE(info.total, info.free);
  EXPECT_EQ(backend->allocate(info.total * 2), nullptr);
  auto *p = static_cast<std::byte *>(backend->allocate(MiB));
  ASSERT_NE(p, nullptr);
  EXPECT_EQ(p[MiB - 1], std::byte(0));
  std::memset(p, 1, MiB);
  backend->copy(p, p + 100, 100);
  backend->zero(p, MiB / 2);
  EXPECT_EQ(p[0], std::byte(0));
  EXPECT_EQ(p[MiB / 2], std::byte(1));
  backend->free(p, MiB);
}
