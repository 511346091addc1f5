//===- Session.h - A program with its arena ---------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// One process running one program: verifies the table, allocates the arena,
// writes inputs, calls entries and reads outputs. Scratch areas of entries
// overlap, so inputs and scalars are written right before the call of their
// entry, and outputs read right after it.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_SESSION_H
#define BLURT_SESSION_H

#include "blurt/Allocator.h"
#include "blurt/Context.h"
#include "blurt/Program.h"

#include <cstddef>
#include <memory>
#include <string_view>

namespace blurt {

class Session {
public:
  /// Throws Error if the table is bad or memory is out. The program outlives
  /// the session.
  Session(const blurt_program &program, unsigned threads);
  ~Session();

  const blurt_program &program() const { return table; }
  std::byte *arena() { return base; }
  ThreadPool &pool() { return context.pool(); }
  const CachingAllocator &memory() const { return allocator; }
  const Context &runContext() const { return context; }
  /// The map of a program built with --debug-memory, null for others.
  const ShadowMemory *shadow();

  std::byte *address(const blurt_tensor &tensor) {
    return base + tensor.offset;
  }

  /// Calls `entry` and returns when it is done.
  void run(const blurt_entry &entry);

  /// Writes a scalar in its own dtype. Throws Error if an integer dtype cannot
  /// hold the value.
  void writeScalar(const blurt_tensor &tensor, double value);
  void writeScalar(const blurt_tensor &tensor, int64_t value);
  /// Element `index` of an output, widened to double.
  double readElement(const blurt_tensor &tensor, int64_t index = 0);

  /// Zeroes the generation state of an entry.
  void clearCaches(const blurt_entry &entry);

private:
  /// Marks what `entry` finds written: the state and its inputs.
  void markReadable(ShadowMemory &shadow, const blurt_entry &entry);

  const blurt_program &table;
  std::unique_ptr<Backend> backend;
  CachingAllocator allocator;
  Context context;
  std::byte *base = nullptr;
  const blurt_entry *running = nullptr;
};

/// The entry `name`. Throws Error (bad input) if the program lacks it, naming
/// the command that needs it.
const blurt_entry &requireEntry(const blurt_program &program,
                                std::string_view name,
                                std::string_view command);

} // namespace blurt

#endif // BLURT_SESSION_H
