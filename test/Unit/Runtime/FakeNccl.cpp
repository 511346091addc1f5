//===- FakeNccl.cpp - a stand-in for NCCL ---------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Writes down what it is asked for, and does it as if all ranks had what this
// one has, in the stream of the stand-in for CUDA. With FAKE_NCCL_MEETING, a
// file of zeros, a group of calls ends there when all ranks have come to it.
//
//===----------------------------------------------------------------------===//

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace {
std::string calls;
void *base = nullptr;

struct UniqueId {
  char bytes[128];
};

int ranks = 0, thisRank = 0;

/// Groups that each rank has come to; null if it does not matter.
std::atomic<unsigned> *meeting = nullptr;
unsigned met = 0; ///< groups that have ended
std::atomic<bool> aborted{false};
void *lastStream = nullptr;

/// Queues `run` in a stream of the stand-in for CUDA.
void queue(void *stream, const std::function<void()> &run,
           const std::function<bool()> *isReady = nullptr) {
  using Enqueue = void (*)(void *, const std::function<void()> *,
                           const std::function<bool()> *);
  static auto enqueue = reinterpret_cast<Enqueue>(dlsym(
      dlopen(std::getenv("BLURT_LIBCUDA"), RTLD_NOW), "fake_cuda_enqueue"));
  enqueue(stream, &run, isReady);
  lastStream = stream;
}

void openMeeting() {
  const char *path = std::getenv("FAKE_NCCL_MEETING");
  if (!path)
    return;
  int file = open(path, O_RDWR);
  void *memory =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  meeting = static_cast<std::atomic<unsigned> *>(memory);
}
bool allHaveCome() {
  meeting[thisRank] = met + 1;
  bool all = true;
  for (int rank = 0; rank < ranks; ++rank)
    all &= meeting[rank] > met;
  return all || aborted;
}

/// Adds up as many of `count` elements as there are ranks.
void sum(void *stream, const void *from, void *to, size_t count, int type) {
  if (type == 7)
    queue(stream, [=, n = float(ranks)] {
      for (size_t i = 0; i < count; ++i)
        static_cast<float *>(to)[i] = n * static_cast<const float *>(from)[i];
    });
  else if (type == 8)
    queue(stream, [=, n = double(ranks)] {
      for (size_t i = 0; i < count; ++i)
        static_cast<double *>(to)[i] = n * static_cast<const double *>(from)[i];
    });
}
void copy(void *stream, const void *from, void *to, size_t bytes) {
  queue(stream, [=] { std::memmove(to, from, bytes); });
}
size_t sizeOf(int type) { return type == 7 ? 4 : type == 8 ? 8 : 2; }

int note(const std::string &text) {
  calls += text + "\n";
  const char *failing = std::getenv("FAKE_NCCL_FAIL");
  return failing && text.rfind(failing, 0) == 0 ? 5 : 0;
}
std::string at(const void *address) {
  return std::to_string(static_cast<const char *>(address) -
                        static_cast<const char *>(base));
}
} // namespace

extern "C" {
const char *fake_nccl_calls() { return calls.c_str(); }
void fake_nccl_start(void *address) {
  base = address;
  calls.clear();
}

int ncclGetVersion(int *version) {
  *version = std::getenv("FAKE_NCCL_OLD") ? 2402 : 22703;
  return 0;
}
int ncclGetUniqueId(UniqueId *id) {
  std::memset(id->bytes, 7, sizeof(id->bytes));
  return 0;
}
int ncclCommInitRank(void **communicator, int size, UniqueId id, int rank) {
  *communicator = &calls;
  ranks = size;
  thisRank = rank;
  openMeeting();
  return note("join " + std::to_string(rank) + " of " + std::to_string(size) +
              " id " + std::to_string(int(id.bytes[0])));
}
/// Waits for the last graph that has calls of it, as NCCL 2.28 does.
int ncclCommAbort(void *) {
  aborted = true;
  using Count = int (*)();
  static auto count = reinterpret_cast<Count>(dlsym(
      dlopen(std::getenv("BLURT_LIBCUDA"), RTLD_NOW), "fake_cuda_live_graphs"));
  while (count() > 0)
    usleep(1000);
  return note("leave");
}
const char *ncclGetErrorString(int) { return "made to fail"; }
int ncclGroupStart() { return note("start"); }
int ncclGroupEnd() {
  const std::function<bool()> isReady = allHaveCome;
  if (meeting)
    queue(lastStream, [] { ++met; }, &isReady);
  return note("end");
}
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int,
                      void *, void *stream) {
  sum(stream,
      static_cast<const char *>(from) + size_t(thisRank) * count * sizeOf(type),
      to, count, type);
  return note("reduce_scatter " + at(from) + " " + at(to) + " " +
              std::to_string(count) + " type " + std::to_string(type));
}
int ncclAllGather(const void *from, void *to, size_t count, int type, void *,
                  void *stream) {
  for (size_t i = 0; i < size_t(ranks); ++i)
    copy(stream, from, static_cast<char *>(to) + i * count * sizeOf(type),
         count * sizeOf(type));
  return note("all_gather " + at(from) + " " + at(to) + " " +
              std::to_string(count) + " type " + std::to_string(type));
}
int ncclReduce(const void *from, void *to, size_t count, int type, int,
               int root, void *, void *stream) {
  if (root == thisRank)
    sum(stream, from, to, count, type);
  return note("reduce " + at(from) + " " + at(to) + " " +
              std::to_string(count) + " type " + std::to_string(type) +
              " root " + std::to_string(root));
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                  void *, void *stream) {
  copy(stream, from, to, count * sizeOf(type));
  return note("broadcast " + at(from) + " " + at(to) + " " +
              std::to_string(count) + " type " + std::to_string(type) +
              " root " + std::to_string(root));
}
}
