//===- HostBackend.cpp - Memory of the host -------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Allocator.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sys/mman.h>

using namespace blurt;

namespace {

/// The first number of a file, if it has one ("max" is none).
bool readNumber(const char *path, uint64_t &value) {
  std::ifstream file(path);
  return bool(file >> value);
}

class HostBackend final : public Backend {
public:
  const char *name() const override { return "host"; }

  void *allocate(uint64_t bytes) override {
    if (bytes > memoryInfo().free)
      return nullptr;
    void *address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
      return nullptr;
    // A hint: without huge pages the program only runs slower.
    ::madvise(address, bytes, MADV_HUGEPAGE);
    return address;
  }

  void free(void *address, uint64_t bytes) override {
    ::munmap(address, bytes);
  }

  void copy(void *to, const void *from, uint64_t bytes) override {
    std::memmove(to, from, bytes);
  }

  void zero(void *address, uint64_t bytes) override {
    std::memset(address, 0, bytes);
  }

  MemoryInfo memoryInfo() const override {
    MemoryInfo info{0, 0};
    std::ifstream file("/proc/meminfo");
    std::string key, unit;
    for (uint64_t value; file >> key >> value;) {
      if (key == "MemTotal:")
        info.total = value * 1024;
      else if (key == "MemAvailable:")
        info.free = value * 1024;
      std::getline(file, unit);
    }
    uint64_t limit, used;
    if (readNumber("/sys/fs/cgroup/memory.max", limit) &&
        readNumber("/sys/fs/cgroup/memory.current", used)) {
      info.total = std::min(info.total, limit);
      info.free = std::min(info.free, limit > used ? limit - used : 0);
    }
    return info;
  }
};

} // namespace

std::unique_ptr<Backend> blurt::createHostBackend() {
  return std::make_unique<HostBackend>();
}
