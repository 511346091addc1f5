//===- ThreadPoolTest.cpp -------------------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "TestFiles.h"
#include "blurt/Context.h"
#include "blurt/blurt.h"

#include <chrono>
#include <set>

using namespace blurt;

TEST(ThreadPool, EveryTaskRunsOnce) {
  for (unsigned threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t tasks : {0, 1, 2, 7, 100, 4097}) {
      for (int64_t grain : {1, 3, 100}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(tasks));
        std::atomic<bool> tooSmall{false};
        pool.forEach(tasks, grain, [&](int64_t begin, int64_t end) {
          if (end - begin < std::min(grain, tasks))
            tooSmall = true;
          for (int64_t i = begin; i < end; ++i)
            ++seen[size_t(i)];
        });
        for (auto &count : seen)
          ASSERT_EQ(count, 1);
        EXPECT_FALSE(tooSmall) << tasks << " tasks, grain " << grain;
      }
    }
  }
}

TEST(ThreadPool, ManyShortRuns) {
  // Races between one job's end and the next one's start would lose or repeat
  // tasks here.
  ThreadPool pool(4);
  std::atomic<int64_t> sum{0};
  int64_t expected = 0;
  for (int64_t run = 0; run < 20'000; ++run) {
    int64_t tasks = 1 + run % 9;
    pool.forEach(tasks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        sum.fetch_add(i + run, std::memory_order_relaxed);
    });
    expected += tasks * run + tasks * (tasks - 1) / 2;
    ASSERT_EQ(sum.load(), expected) << "run " << run;
    if (run % 4000 == 0) // Lets the workers fall asleep.
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

TEST(ThreadPool, WorkersTakePart) {
  ThreadPool pool(2);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  // Until both have been seen: on a busy machine a worker may come late.
  for (int i = 0; i < 1000 && ids.size() < 2; ++i)
    pool.forEach(8, 1, [&](int64_t, int64_t) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::lock_guard<std::mutex> lock(mutex);
      ids.insert(std::this_thread::get_id());
    });
  EXPECT_EQ(ids.size(), 2u);
  EXPECT_TRUE(ids.count(std::this_thread::get_id()));
}

TEST(ThreadPool, NestedRunsAreSerial) {
  ThreadPool pool(3);
  std::atomic<int> total{0};
  std::atomic<bool> moved{false};
  pool.forEach(12, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto outer = std::this_thread::get_id();
      pool.forEach(10, 1, [&](int64_t b, int64_t e) {
        moved = moved || std::this_thread::get_id() != outer;
        total += int(e - b);
      });
    }
  });
  EXPECT_EQ(total, 120);
  EXPECT_FALSE(moved);
}

TEST(ThreadPool, ConcurrentCallersAllFinish) {
  ThreadPool pool(2);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i)
    callers.emplace_back([&] {
      for (int j = 0; j < 500; ++j)
        pool.forEach(16, 1, [&](int64_t b, int64_t e) { total += e - b; });
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(total, 3 * 500 * 16);
}

TEST(Parallel, HandsArgumentsToTheKernel) {
  Context context(2);
  std::vector<int> out(100);
  int scale = 3;
  void *args[] = {out.data(), &scale};
  blurt_parallel(
      &context,
      [](void *const *args, int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          static_cast<int *>(args[0])[i] =
              int(i) * *static_cast<int *>(args[1]);
      },
      args, 100, 10);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(out[size_t(i)], 3 * i);
}

TEST(ResolveThreadCount, FlagThenEnvironmentThenMachine) {
  setenv("BLURT_THREADS", "3", 1);
  EXPECT_EQ(resolveThreadCount(5), 5u);
  EXPECT_EQ(resolveThreadCount(0), 3u);
  for (const char *bad : {"0", "-1", "2x", "many"}) {
    setenv("BLURT_THREADS", bad, 1);
    EXPECT_ERROR(resolveThreadCount(0), ExitBadInput, bad);
  }
  unsetenv("BLURT_THREADS");
  EXPECT_GE(resolveThreadCount(0), 1u);
  EXPECT_LE(resolveThreadCount(0), std::thread::hardware_concurrency());
}
