//===- Arena.h - The arena as the host reaches it ---------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// An arena is memory of the host, or of a device whose addresses the host must
// not touch: there everything goes through copies of its Backend, which return
// when they are done.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_ARENA_H
#define BLURT_ARENA_H

#include "blurt/Allocator.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace blurt {

class Arena {
public:
  /// Memory of the host.
  Arena(std::byte *base) : base(base) {}
  /// Memory that only `backend` reaches; it outlives this object.
  Arena(std::byte *base, Backend &backend) : base(base), backend(&backend) {}

  /// Null if the host must not touch it.
  std::byte *host() const { return backend ? nullptr : base; }

  void write(uint64_t offset, const void *from, uint64_t bytes) const {
    copy(base + offset, from, bytes);
  }
  void read(uint64_t offset, void *to, uint64_t bytes) const {
    copy(to, base + offset, bytes);
  }
  void zero(uint64_t offset, uint64_t bytes) const {
    if (backend)
      backend->zero(base + offset, bytes);
    else
      std::memset(base + offset, 0, bytes);
  }

private:
  void copy(void *to, const void *from, uint64_t bytes) const {
    if (!bytes)
      return;
    if (backend)
      backend->copy(to, from, bytes);
    else
      std::memcpy(to, from, bytes);
  }

  std::byte *base;
  Backend *backend = nullptr;
};

} // namespace blurt

#endif // BLURT_ARENA_H
