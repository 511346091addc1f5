//===- ThreadPool.h - Fork-join pool of worker threads ----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A pool of `size() - 1` workers; the thread that calls `run` is the last
// member. `run` blocks until every task is done and never allocates. The range
// is cut into contiguous chunks that the members claim one by one, so a worker
// that is late (asleep, preempted) delays nobody: what it did not claim, the
// others do.
//
// Calls from inside a task, and calls while another thread is inside `run`,
// execute on the calling thread alone. Which member computes a task is never
// visible in a result as long as a task does not depend on how the range is
// cut, which is what blurt.h asks of every kernel.
//
// Idle workers spin for some tens of microseconds, then sleep.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_THREADPOOL_H
#define BLURT_THREADPOOL_H

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace blurt {

class ThreadPool {
public:
  using Body = void (*)(void *env, int64_t begin, int64_t end);

  /// Starts `threads - 1` workers; 0 counts as 1.
  explicit ThreadPool(unsigned threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  unsigned size() const { return static_cast<unsigned>(workers.size()) + 1; }

  /// Runs `body` over [0, tasks); no chunk is smaller than `grain` tasks,
  /// except where `tasks` itself is.
  void run(int64_t tasks, int64_t grain, Body body, void *env) noexcept;

  /// The same for a callable `fn(begin, end)`, which must not throw.
  template <typename Fn> void forEach(int64_t tasks, int64_t grain, Fn &&fn) {
    using Callable = std::remove_reference_t<Fn>;
    run(
        tasks, grain,
        [](void *env, int64_t begin, int64_t end) {
          (*static_cast<Callable *>(env))(begin, end);
        },
        const_cast<void *>(static_cast<const void *>(&fn)));
  }

private:
  void work();
  void claimChunks();

  // The job in flight. Written by the caller of `run` while `generation` is
  // even, read by members that registered in `active` while it is odd.
  Body body = nullptr;
  void *env = nullptr;
  int64_t tasks = 0;
  int64_t chunks = 0;

  alignas(64) std::atomic<int64_t> nextChunk{0};
  alignas(64) std::atomic<uint64_t> generation{0};
  alignas(64) std::atomic<int32_t> active{0};
  alignas(64) std::atomic<int32_t> sleepers{0};
  std::atomic<bool> stopping{false};
  std::mutex callers;
  std::mutex sleepMutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;
};

/// The number of threads to use: `requested` if positive, else the environment
/// variable BLURT_THREADS, else the processors this process may run on. Throws
/// Error if BLURT_THREADS is not a positive number.
unsigned resolveThreadCount(int64_t requested);

} // namespace blurt

#endif // BLURT_THREADPOOL_H
