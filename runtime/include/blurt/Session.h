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
// A program for CUDA runs in a queue: its inputs and scalars are written to one
// of two pinned buffers and copied at the start of the call, outputs of one
// number are copied back at its end. So the host may prepare and queue the next
// call, and only then ask for the numbers of the one before. The work between
// the copies is captured in an entry's second call, and from then on launched
// as one graph unless times are taken.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_SESSION_H
#define BLURT_SESSION_H

#include "blurt/Allocator.h"
#include "blurt/Arena.h"
#include "blurt/Context.h"
#include "blurt/Cuda.h"
#include "blurt/Program.h"
#include "blurt/World.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace blurt {

struct SessionOptions {
  unsigned threads = 1;
  int64_t device = -1;    ///< as resolveDevice takes it
  std::string tune;       ///< a file of the command tune, or nothing
  bool graphs = true;     ///< launch entries as graphs
  World *world = nullptr; ///< of a program for several devices
};

/// Bytes of a device that runs a program.
struct DeviceMemory {
  uint64_t arena;     ///< the plan
  uint64_t reserved;  ///< the allocator's segments, the arena included
  uint64_t pinned;    ///< pinned memory of the host
  uint64_t used;      ///< of the whole device now
  uint64_t usedFirst; ///< of the whole device with just the context
  uint64_t total;     ///< what the device has
};

class Session {
public:
  /// Throws Error if the table is bad or memory is out. The program outlives
  /// the session.
  Session(const blurt_program &program, const SessionOptions &options);
  ~Session();

  const blurt_program &program() const { return table; }
  Arena arena() const { return cuda ? Arena(base, *backend) : Arena(base); }
  ThreadPool &pool() { return context.pool(); }
  const CachingAllocator &memory() const { return allocator; }
  const Context &runContext() const { return context; }
  /// The map of a program built with --debug-memory, null for others.
  const ShadowMemory *shadow();

  /// Null for a program for the CPU, like the three below.
  const CudaDevice *device() const { return cuda.get(); }
  CudaCode *code() { return deviceCode.get(); }
  const CachingAllocator *pinnedMemory() const { return pinned.get(); }
  DeviceMemory deviceMemory() const;

  /// Where to write an input or scalar for the next call of its entry.
  std::byte *stage(const blurt_tensor &tensor);
  /// Writes a scalar in its own dtype. Throws Error if an integer dtype cannot
  /// hold the value.
  void writeScalar(const blurt_tensor &tensor, double value);
  void writeScalar(const blurt_tensor &tensor, int64_t value);

  /// Calls `entry`. On the CPU it is done on return, on a device it is queued.
  /// Returns the number of the call, from 0.
  uint64_t queue(const blurt_entry &entry);
  /// Waits until a call is done.
  void finish(uint64_t call);
  /// An output of one number of a finished call: the last or the one before it
  /// on a device, the last on the CPU.
  double number(uint64_t call, const blurt_tensor &tensor);
  /// What kernels had counted when such a call was done, by blurt_counter;
  /// nothing if the program counts nothing.
  std::vector<uint64_t> counters(uint64_t call);
  /// What the collectives of one of the last calls sent.
  const TransferCounts &transfers(uint64_t call) const {
    return transferred[call % kEvents];
  }
  /// How many calls may be in the queue while `number` still gives the first.
  size_t callsAhead() const { return cuda ? 1 : 0; }
  /// Milliseconds of the device from the end of the call before, or else from
  /// its own beginning, to the end of a finished call.
  double milliseconds(uint64_t call, bool fromPrevious) const;

  /// Calls `entry` and returns when it is done.
  void run(const blurt_entry &entry) { finish(queue(entry)); }
  /// Calls `entry` and says which operation was the first to write a value that
  /// is not finite, or nothing if none was. The program was compiled for it.
  std::string findNonfinite(const blurt_entry &entry);
  /// Elements of an output of the last call, widened to double.
  std::vector<double> readElements(const blurt_tensor &tensor, int64_t first,
                                   int64_t count);

  /// Zeroes the generation state of an entry.
  void clearCaches(const blurt_entry &entry);

private:
  /// Bytes that go between the arena and a pinned buffer together.
  struct Transfer {
    uint64_t offset, staged, bytes;
  };
  struct Layout {
    std::vector<uint64_t> staged; ///< by tensor: where in the buffer
    std::vector<Transfer> in, out;
  };
  static constexpr uint64_t kBuffers = 2;
  static constexpr uint64_t kCounterBytes =
      BLURT_NUM_COUNTERS * sizeof(uint64_t);
  /// The end of the call before is needed until a call is finished, by which
  /// time the next may be queued.
  static constexpr uint64_t kEvents = 4;

  void startDevice(const SessionOptions &options);
  void planTransfers();
  /// Does or queues the work of `entry` on what is in the arena.
  void runEntry(const blurt_entry &entry);
  std::byte *staged(uint64_t call, const blurt_tensor &tensor);
  /// Marks what `entry` finds written: the state and its inputs.
  void markReadable(ShadowMemory &shadow, const blurt_entry &entry);

  const blurt_program &table;
  std::unique_ptr<CudaDevice> cuda;
  std::unique_ptr<Backend> backend;
  CachingAllocator allocator;
  std::unique_ptr<Backend> pinnedBackend;
  std::unique_ptr<CachingAllocator> pinned;
  Context context;
  std::unique_ptr<CudaCode> deviceCode;
  std::byte *base = nullptr;
  const blurt_entry *running = nullptr;

  std::vector<Layout> layouts; ///< by entry
  bool useGraphs = false;
  struct PlainRuns {
    uint64_t count = 0;
    TransferCounts sent; ///< by the last
  };
  std::vector<PlainRuns> plainRuns;               ///< by entry
  std::vector<std::unique_ptr<CudaGraph>> graphs; ///< by entry
  std::byte *buffers[kBuffers] = {};
  CudaDevice::Event began[kEvents] = {}, ended[kEvents] = {};
  TransferCounts transferred[kEvents];
  uint64_t calls = 0, finished = 0;
};

/// The entry `name`. Throws Error (bad input) if the program lacks it, naming
/// the command that needs it.
const blurt_entry &requireEntry(const blurt_program &program,
                                std::string_view name,
                                std::string_view command);

} // namespace blurt

#endif // BLURT_SESSION_H
