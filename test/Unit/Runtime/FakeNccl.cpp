//===- FakeNccl.cpp - a stand-in for NCCL ---------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Writes down what it is asked for and moves nothing.
//
//===----------------------------------------------------------------------===//

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {
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
  return note("join " + std::to_string(rank) + " of " + std::to_string(size) +
              " id " + std::to_string(int(id.bytes[0])));
}
int ncclCommAbort(void *) { return note("leave"); }
const char *ncclGetErrorString(int) { return "made to fail"; }
int ncclGroupStart() { return note("start"); }
int ncclGroupEnd() { return note("end"); }
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
