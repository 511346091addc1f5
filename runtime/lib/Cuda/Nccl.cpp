//===- Nccl.cpp - Collectives in device memory ----------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// NCCL is opened when a program for several devices starts. All collectives go
// into the stream of the step, in the order of the program, so that a graph of
// the step holds them; the values of one are a group and so one launch.
//
//===----------------------------------------------------------------------===//

#include "Abi.h"
#include "Progress.h"
#include "blurt/Cuda.h"
#include "blurt/Error.h"
#include "blurt/Program.h"
#include "blurt/World.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using namespace blurt;
using namespace blurt::cuda;

static cuda::Address deviceAddress(const void *address) {
  return reinterpret_cast<cuda::Address>(address);
}

namespace {

/// As NCCL's header has them, since version 2.10.
struct UniqueId {
  char bytes[128];
};
using Communicator = struct CommunicatorObject *;
constexpr int kFloat32 = 7, kFloat64 = 8, kBfloat16 = 9, kSum = 0;
constexpr int kLeastVersion = 21000;

struct Library {
  int (*GetVersion)(int *);
  int (*GetUniqueId)(UniqueId *);
  int (*CommInitRank)(Communicator *, int, UniqueId, int);
  int (*CommAbort)(Communicator);
  const char *(*GetErrorString)(int);
  int (*GroupStart)();
  int (*GroupEnd)();
  int (*ReduceScatter)(const void *, void *, size_t, int, int, Communicator,
                       CudaDevice::Stream);
  int (*AllGather)(const void *, void *, size_t, int, Communicator,
                   CudaDevice::Stream);
  int (*Reduce)(const void *, void *, size_t, int, int, int, Communicator,
                CudaDevice::Stream);
  int (*Broadcast)(const void *, void *, size_t, int, int, Communicator,
                   CudaDevice::Stream);
  int version = 0;
};

Library openNccl() {
  const char *named = std::getenv("BLURT_NCCL");
  std::string path = named && *named ? named : "libnccl.so.2";
  void *handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw failure("cannot load NCCL, which programs for several GPUs need; set "
                  "BLURT_NCCL to libnccl.so.2, or LD_LIBRARY_PATH to where it "
                  "lies: " +
                  std::string(::dlerror()));
  Library library;
  auto resolve = [&]<typename Function>(Function *&function, const char *name) {
    function = reinterpret_cast<Function *>(::dlsym(handle, name));
    if (!function)
      throw failure(path + ": expected a function '" + name +
                    "'; NCCL 2.10 or later is needed");
  };
  resolve(library.GetVersion, "ncclGetVersion");
  resolve(library.GetUniqueId, "ncclGetUniqueId");
  resolve(library.CommInitRank, "ncclCommInitRank");
  resolve(library.CommAbort, "ncclCommAbort");
  resolve(library.GetErrorString, "ncclGetErrorString");
  resolve(library.GroupStart, "ncclGroupStart");
  resolve(library.GroupEnd, "ncclGroupEnd");
  resolve(library.ReduceScatter, "ncclReduceScatter");
  resolve(library.AllGather, "ncclAllGather");
  resolve(library.Reduce, "ncclReduce");
  resolve(library.Broadcast, "ncclBroadcast");
  if (library.GetVersion(&library.version) != 0 ||
      library.version < kLeastVersion)
    throw failure(path + ": expected NCCL 2.10 or later, got version code " +
                  std::to_string(library.version));
  return library;
}

class NcclTransport : public Transport {
public:
  NcclTransport(CudaDevice &device, World &world)
      : device(device), world(world), nccl(openNccl()), progress(device) {
    UniqueId id = {};
    if (world.leads())
      check(nccl.GetUniqueId(&id), "ncclGetUniqueId");
    std::string all = world.fromLeader(std::string(id.bytes, sizeof(id.bytes)),
                                       "telling NCCL's id");
    std::memcpy(id.bytes, all.data(), sizeof(id.bytes));
    const std::string what = "starting NCCL";
    World::Wait wait(world, what, /*forAll=*/true);
    check(nccl.CommInitRank(&communicator, int(world.size()), id,
                            int(world.rank())),
          "ncclCommInitRank");
    started = true;
  }
  // Destroying waits for the others; the ranks have said goodbye already.
  ~NcclTransport() override { NcclTransport::abort(); }

  void beginCall() override { progress.beginCall(); }
  void endCall() override { progress.endCall(); }
  DevicePosition position() const override { return progress.position(); }
  void abort() override {
    if (started.exchange(false))
      nccl.CommAbort(communicator);
  }

  std::string name() const override {
    return "NCCL " + std::to_string(nccl.version / 10000) + "." +
           std::to_string(nccl.version / 100 % 100) + "." +
           std::to_string(nccl.version % 100);
  }

  void run(const blurt_collective &collective, void *const *args) override {
    void *const *outs = args + collective.num_values;
    auto number = int32_t(&collective - world.program().collectives);
    if (collective.kind != BLURT_LOCAL_SHARD) {
      progress.enter(number, device.stream());
      check(nccl.GroupStart(), "ncclGroupStart");
    }
    for (int32_t v = 0; v < collective.num_values; ++v) {
      const blurt_collective_value &value = collective.values[v];
      uint64_t size = dtypeSize(value.dtype);
      auto *from = static_cast<std::byte *>(args[v]);
      auto *to = static_cast<std::byte *>(outs[v]);
      for (int64_t row = 0; row < value.batch; ++row) {
        uint64_t whole = uint64_t(row * value.count) * size;
        uint64_t piece = uint64_t(row * value.piece) * size;
        switch (collective.kind) {
        case BLURT_REDUCE_SCATTER:
          reduceScatter(value, from + whole, to + piece);
          break;
        case BLURT_ALL_GATHER:
          allGather(value, from + piece, to + whole);
          break;
        default:
          localShard(value, from + whole, to + piece);
        }
      }
    }
    if (collective.kind != BLURT_LOCAL_SHARD) {
      check(nccl.GroupEnd(), collective.source);
      progress.leave(number, device.stream());
    }
  }

private:
  static int typeOf(int32_t dtype) {
    return dtype == BLURT_F64   ? kFloat64
           : dtype == BLURT_F32 ? kFloat32
                                : kBfloat16;
  }
  void check(int result, const std::string &what) const {
    if (result != 0)
      throw failure(what + ": NCCL: " + nccl.GetErrorString(result));
  }
  bool isEven(const blurt_collective_value &value) const {
    return value.piece * world.size() == value.count;
  }
  uint64_t present(const blurt_collective_value &value, int64_t rank) const {
    return uint64_t(
        std::clamp<int64_t>(value.count - rank * value.piece, 0, value.piece));
  }
  /// Zeros behind a short piece.
  void clearTail(const blurt_collective_value &value, std::byte *piece) const {
    uint64_t size = dtypeSize(value.dtype);
    uint64_t there = present(value, world.rank());
    if (there < uint64_t(value.piece))
      device.fill(piece + there * size, 0,
                  (uint64_t(value.piece) - there) * size);
  }

  void reduceScatter(const blurt_collective_value &value, std::byte *from,
                     std::byte *to) {
    int type = typeOf(value.dtype);
    if (isEven(value))
      return check(nccl.ReduceScatter(from, to, size_t(value.piece), type, kSum,
                                      communicator, device.stream()),
                   "ncclReduceScatter");
    uint64_t step = uint64_t(value.piece) * dtypeSize(value.dtype);
    for (int64_t rank = 0; rank < world.size(); ++rank)
      if (uint64_t there = present(value, rank))
        check(nccl.Reduce(from + uint64_t(rank) * step, to, there, type, kSum,
                          int(rank), communicator, device.stream()),
              "ncclReduce");
    clearTail(value, to);
  }

  void allGather(const blurt_collective_value &value, std::byte *from,
                 std::byte *to) {
    int type = typeOf(value.dtype);
    if (isEven(value))
      return check(nccl.AllGather(from, to, size_t(value.piece), type,
                                  communicator, device.stream()),
                   "ncclAllGather");
    uint64_t step = uint64_t(value.piece) * dtypeSize(value.dtype);
    for (int64_t rank = 0; rank < world.size(); ++rank)
      if (uint64_t there = present(value, rank))
        check(nccl.Broadcast(from, to + uint64_t(rank) * step, there, type,
                             int(rank), communicator, device.stream()),
              "ncclBroadcast");
  }

  void localShard(const blurt_collective_value &value, std::byte *from,
                  std::byte *to) {
    uint64_t size = dtypeSize(value.dtype);
    uint64_t step = uint64_t(value.piece) * size;
    if (uint64_t there = present(value, world.rank()))
      device.call(device.driver().MemcpyAsync, "a copy of a shard",
                  deviceAddress(to),
                  deviceAddress(from + uint64_t(world.rank()) * step),
                  size_t(there * size), device.stream());
    clearTail(value, to);
  }

  CudaDevice &device;
  World &world;
  Library nccl;
  CudaProgress progress;
  Communicator communicator = nullptr;
  std::atomic<bool> started{false};
};

} // namespace

std::unique_ptr<Transport> blurt::createNcclTransport(CudaDevice &device,
                                                      World &world) {
  return std::make_unique<NcclTransport>(device, world);
}
