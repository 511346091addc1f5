//===- FiniteCheck.h - Who made a value that is not finite ------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_FINITECHECK_H
#define BLURT_FINITECHECK_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace blurt {

/// Looks through what operations wrote, in the order they run, until one has
/// written a value that is not finite.
class FiniteCheck {
public:
  /// Copies bytes of the program's memory to the host's when all that was
  /// queued is done.
  using Copy = std::function<void(const void *from, void *to, uint64_t bytes)>;
  explicit FiniteCheck(Copy copy) : copy(std::move(copy)) {}

  void look(const void *from, uint64_t bytes, const char *what, int64_t width);
  /// "'exp at mlp.mlir:3:7': element 5 of 24 is inf", or nothing.
  const std::string &found() const { return text; }

private:
  Copy copy;
  std::vector<std::byte> host;
  std::map<const char *, uint64_t> runs; ///< of each operation
  std::string text;
};

} // namespace blurt

#endif // BLURT_FINITECHECK_H
