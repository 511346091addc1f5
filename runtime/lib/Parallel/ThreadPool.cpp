//===- ThreadPool.cpp - Fork-join pool of worker threads ------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/ThreadPool.h"
#include "blurt/Error.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sched.h>

using namespace blurt;

namespace {

constexpr int64_t kChunksPerThread = 4;
constexpr auto kSpinTime = std::chrono::microseconds(60);

thread_local bool insideRun = false;

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Spins until `ready()`; gives the processor away now and then, so that more
/// threads than processors still make progress.
template <typename Ready> void spinUntil(Ready ready) {
  for (unsigned i = 1; !ready(); ++i) {
    relax();
    if (i % 1024 == 0)
      std::this_thread::yield();
  }
}

} // namespace

ThreadPool::ThreadPool(unsigned threads) {
  workers.reserve(threads);
  for (unsigned i = 1; i < threads; ++i)
    workers.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(sleepMutex);
    stopping.store(true);
  }
  wake.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

void ThreadPool::claimChunks() {
  int64_t size = tasks / chunks, larger = tasks % chunks;
  for (;;) {
    int64_t i = nextChunk.fetch_add(1, std::memory_order_relaxed);
    if (i >= chunks)
      return;
    int64_t begin = i * size + std::min(i, larger);
    body(env, begin, begin + size + (i < larger ? 1 : 0));
  }
}

void ThreadPool::work() {
  insideRun = true;
  uint64_t seen = 0;
  auto isNew = [&](uint64_t now) { return (now & 1) && now != seen; };
  for (;;) {
    auto deadline = std::chrono::steady_clock::now() + kSpinTime;
    uint64_t now = generation.load();
    for (unsigned i = 1; !isNew(now) && !stopping.load(); ++i) {
      relax();
      now = generation.load();
      if (i % 64 || std::chrono::steady_clock::now() < deadline)
        continue;
      std::unique_lock<std::mutex> lock(sleepMutex);
      sleepers.fetch_add(1);
      wake.wait(lock, [&] {
        now = generation.load();
        return isNew(now) || stopping.load();
      });
      sleepers.fetch_sub(1);
    }
    if (stopping.load())
      return;
    seen = now;
    // Registering and then looking again pairs with `run` closing the job and
    // then looking at `active`: one of the two sees the other.
    active.fetch_add(1);
    if (generation.load() == now)
      claimChunks();
    active.fetch_sub(1);
  }
}

void ThreadPool::run(int64_t count, int64_t grain, Body fn,
                     void *environment) noexcept {
  if (count <= 0)
    return;
  int64_t pieces = std::min<int64_t>(count / std::max<int64_t>(grain, 1),
                                     kChunksPerThread * int64_t(size()));
  if (insideRun || workers.empty() || pieces <= 1 || !callers.try_lock()) {
    fn(environment, 0, count);
    return;
  }
  insideRun = true;
  body = fn;
  env = environment;
  tasks = count;
  chunks = pieces;
  nextChunk.store(0);
  generation.fetch_add(1);
  if (sleepers.load() > 0) {
    // Taking the mutex orders this wake-up after a worker's last look.
    {
      std::lock_guard<std::mutex> lock(sleepMutex);
    }
    wake.notify_all();
  }
  claimChunks();
  generation.fetch_add(1);
  spinUntil([&] { return active.load() == 0; });
  insideRun = false;
  callers.unlock();
}

unsigned blurt::resolveThreadCount(int64_t requested) {
  if (requested > 0)
    return static_cast<unsigned>(std::min<int64_t>(requested, 4096));
  if (const char *text = std::getenv("BLURT_THREADS"); text && *text) {
    char *end = nullptr;
    long value = std::strtol(text, &end, 10);
    if (*end || value <= 0 || value > 4096)
      throw badInput("environment variable BLURT_THREADS: expected a number of "
                     "threads from 1 to 4096, got '" +
                     std::string(text) + "'");
    return static_cast<unsigned>(value);
  }
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}
