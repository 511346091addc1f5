//===- MpiPlugin.cpp - libblurt-mpi.so ------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/MpiPlugin.h"

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace {

/// Counts of MPI are ints.
constexpr uint64_t kMostBytes = uint64_t(1) << 30;

struct Request {
  std::vector<MPI_Request> parts;
};

int initialise(int32_t *rank, int32_t *size) {
  int level = 0;
  if (int error =
          MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level))
    return error;
  // Errors come back instead of ending the process without a word.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  if (int error = MPI_Comm_rank(MPI_COMM_WORLD, rank))
    return error;
  return MPI_Comm_size(MPI_COMM_WORLD, size);
}

template <typename Pointer, typename Begin>
int inParts(Pointer data, uint64_t bytes, void **request, Begin &&begin) {
  auto made = std::make_unique<Request>();
  for (uint64_t at = 0; at < bytes; at += kMostBytes) {
    uint64_t part = bytes - at < kMostBytes ? bytes - at : kMostBytes;
    if (int error = begin(data + at, int(part), &made->parts.emplace_back()))
      return error;
  }
  *request = made.release();
  return 0;
}

int send(const void *from, uint64_t bytes, int32_t peer, int32_t tag,
         void **request) {
  return inParts(static_cast<const char *>(from), bytes, request,
                 [=](const char *data, int count, MPI_Request *part) {
                   return MPI_Isend(data, count, MPI_BYTE, peer, tag,
                                    MPI_COMM_WORLD, part);
                 });
}

int receive(void *to, uint64_t bytes, int32_t peer, int32_t tag,
            void **request) {
  return inParts(static_cast<char *>(to), bytes, request,
                 [=](char *data, int count, MPI_Request *part) {
                   return MPI_Irecv(data, count, MPI_BYTE, peer, tag,
                                    MPI_COMM_WORLD, part);
                 });
}

int test(void *request, int32_t *done) {
  auto *all = static_cast<Request *>(request);
  int error = MPI_Testall(int(all->parts.size()), all->parts.data(), done,
                          MPI_STATUSES_IGNORE);
  if (*done)
    delete all;
  return error;
}

int finalise() { return MPI_Finalize(); }

} // namespace

extern "C" const blurt_mpi_table *blurt_mpi_plugin() {
  static char library[MPI_MAX_LIBRARY_VERSION_STRING];
  static const blurt_mpi_table table = {BLURT_MPI_PLUGIN_VERSION,
                                        library,
                                        initialise,
                                        send,
                                        receive,
                                        test,
                                        finalise};
  if (!library[0]) {
    int length = 0;
    MPI_Get_library_version(library, &length);
  }
  return &table;
}
