//===- FakeNccl.cpp - a stand-in for NCCL ---------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Writes down what it is asked for and moves nothing. With FAKE_NCCL_MEETING, a
// file of zeros, a group of calls ends on the stand-in for the device when all
// ranks have come to it.
//
//===----------------------------------------------------------------------===//

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace {
/// Groups that each rank has come to.
std::atomic<unsigned> *meeting = nullptr;
int ranks = 0, self = 0;
unsigned come = 0;
std::atomic<bool> aborted{false};

void openMeeting(int size, int rank) {
  const char *path = std::getenv("FAKE_NCCL_MEETING");
  if (!path)
    return;
  int file = open(path, O_RDWR);
  void *memory =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  meeting = static_cast<std::atomic<unsigned> *>(memory);
  ranks = size;
  self = rank;
}
bool allHaveCome(bool first, void *) {
  if (first)
    meeting[self] = ++come;
  bool all = true;
  for (int rank = 0; rank < ranks; ++rank)
    all &= meeting[rank] >= come;
  return all || aborted;
}
void meet() {
  using Wait = void (*)(bool (*)(bool, void *), void *);
  static void *cuda =
      dlopen(std::getenv("BLURT_LIBCUDA"), RTLD_NOW | RTLD_NOLOAD);
  static auto wait = reinterpret_cast<Wait>(dlsym(cuda, "fake_cuda_wait"));
  wait(allHaveCome, nullptr);
}

std::string calls;
void *base = nullptr;

struct UniqueId {
  char bytes[128];
};

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
  openMeeting(size, rank);
  return note("join " + std::to_string(rank) + " of " + std::to_string(size) +
              " id " + std::to_string(int(id.bytes[0])));
}
int ncclCommAbort(void *) {
  aborted = true;
  return note("leave");
}
const char *ncclGetErrorString(int) { return "made to fail"; }
int ncclGroupStart() { return note("start"); }
int ncclGroupEnd() {
  if (meeting)
    meet();
  return note("end");
}
int ncclReduceScatter(const void *from, void *to, size_t count, int type, int,
                      void *, void *) {
  return note("reduce_scatter " + at(from) + " " + at(to) + " " +
              std::to_string(count) + " type " + std::to_string(type));
}
int ncclAllGather(const void *from, void *to, size_t count, int type, void *,
                  void *) {
  return note("all_gather " + at(from) + " " + at(to) + " " +
              std::to_string(count) + " type " + std::to_string(type));
}
int ncclReduce(const void *from, void *to, size_t count, int type, int,
               int root, void *, void *) {
  return note("reduce " + at(from) + " " + at(to) + " " +
              std::to_string(count) + " type " + std::to_string(type) +
              " root " + std::to_string(root));
}
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root,
                  void *, void *) {
  return note("broadcast " + at(from) + " " + at(to) + " " +
              std::to_string(count) + " type " + std::to_string(type) +
              " root " + std::to_string(root));
}
}
