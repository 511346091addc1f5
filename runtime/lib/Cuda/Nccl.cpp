//===- Nccl.cpp - Collectives in device memory ----------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// NCCL is opened when a program for several devices starts. All collectives go
// into a stream of their own, in the order of the program: one begins when what
// the step's stream had in its queue is done, and the step's stream waits for
// it where the program says so. A capture of the step's stream takes them
// along, since every one is waited for in the entry that starts it. The values
// of one are a group and so one launch. Shards are cut in the step's stream.
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
  NcclTransport(CudaDevice &device, CudaCode *code, World &world)
      : device(device), code(code), world(world), nccl(openNccl()),
        progress(device) {
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
    joined = true;
    stream = device.createStream();
    ready = device.createOrderEvent();
    for (int32_t i = 0; i < world.program().num_collectives; ++i)
      done.push_back(device.createOrderEvent());
  }
  ~NcclTransport() override {
    // Destroying waits for the others; the ranks have said goodbye already.
    NcclTransport::abort();
    if (!stream)
      return;
    for (CudaDevice::Event event : done)
      device.destroyEvent(event);
    device.destroyEvent(ready);
    device.destroyStream(stream);
  }

  void beginCall() override { progress.beginCall(); }
  void endCall() override { progress.endCall(); }
  DevicePosition position() const override { return progress.position(); }
  void abort() override {
    if (joined.exchange(false))
      nccl.CommAbort(communicator);
  }

  std::string name() const override {
    return "NCCL " + std::to_string(nccl.version / 10000) + "." +
           std::to_string(nccl.version / 100 % 100) + "." +
           std::to_string(nccl.version % 100);
  }

  void start(int32_t number, const blurt_collective &collective,
             void *const *args) override {
    if (collective.kind == BLURT_LOCAL_SHARD)
      return forEachRow(collective, args,
                        [&](const blurt_collective_value &value,
                            std::byte *from,
                            std::byte *to) { localShard(value, from, to); });
    device.record(ready);
    device.order(stream, ready);
    progress.enter(number, stream);
    if (code)
      code->collectiveBegins(number, stream);
    check(nccl.GroupStart(), "ncclGroupStart");
    forEachRow(collective, args,
               [&](const blurt_collective_value &value, std::byte *from,
                   std::byte *to) {
                 if (collective.kind == BLURT_REDUCE_SCATTER)
                   reduceScatter(value, from, to);
                 else
                   allGather(value, from, to);
               });
    check(nccl.GroupEnd(), collective.source);
    if (code)
      code->collectiveEnds(stream);
    progress.leave(number, stream);
    device.record(done[size_t(number)], stream);
  }

  void wait(int32_t number) override {
    device.order(device.stream(), done[size_t(number)]);
    if (code)
      code->collectiveAwaited(number);
  }

private:
  /// Calls `visit` with each row of each value and where it goes.
  template <typename Visit>
  static void forEachRow(const blurt_collective &collective, void *const *args,
                         Visit visit) {
    bool gathers = collective.kind == BLURT_ALL_GATHER;
    for (int32_t v = 0; v < collective.num_values; ++v) {
      const blurt_collective_value &value = collective.values[v];
      uint64_t size = dtypeSize(value.dtype);
      auto *from = static_cast<std::byte *>(args[v]);
      auto *to = static_cast<std::byte *>(args[collective.num_values + v]);
      for (int64_t row = 0; row < value.batch; ++row) {
        uint64_t whole = uint64_t(row * value.count) * size;
        uint64_t piece = uint64_t(row * value.piece) * size;
        visit(value, from + (gathers ? piece : whole),
              to + (gathers ? whole : piece));
      }
    }
  }

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
  void clearTail(const blurt_collective_value &value, std::byte *piece,
                 CudaDevice::Stream where) const {
    uint64_t size = dtypeSize(value.dtype);
    uint64_t there = present(value, world.rank());
    if (there < uint64_t(value.piece))
      device.fill(piece + there * size, 0,
                  (uint64_t(value.piece) - there) * size, where);
  }

  void reduceScatter(const blurt_collective_value &value, std::byte *from,
                     std::byte *to) {
    int type = typeOf(value.dtype);
    if (isEven(value))
      return check(nccl.ReduceScatter(from, to, size_t(value.piece), type, kSum,
                                      communicator, stream),
                   "ncclReduceScatter");
    uint64_t step = uint64_t(value.piece) * dtypeSize(value.dtype);
    for (int64_t rank = 0; rank < world.size(); ++rank)
      if (uint64_t there = present(value, rank))
        check(nccl.Reduce(from + uint64_t(rank) * step, to, there, type, kSum,
                          int(rank), communicator, stream),
              "ncclReduce");
    clearTail(value, to, stream);
  }

  void allGather(const blurt_collective_value &value, std::byte *from,
                 std::byte *to) {
    int type = typeOf(value.dtype);
    if (isEven(value))
      return check(nccl.AllGather(from, to, size_t(value.piece), type,
                                  communicator, stream),
                   "ncclAllGather");
    uint64_t step = uint64_t(value.piece) * dtypeSize(value.dtype);
    for (int64_t rank = 0; rank < world.size(); ++rank)
      if (uint64_t there = present(value, rank))
        check(nccl.Broadcast(from, to + uint64_t(rank) * step, there, type,
                             int(rank), communicator, stream),
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
    clearTail(value, to, device.stream());
  }

  CudaDevice &device;
  CudaCode *code;
  World &world;
  Library nccl;
  CudaProgress progress;
  Communicator communicator = nullptr;
  std::atomic<bool> joined{false}; ///< and not left
  CudaDevice::Stream stream = nullptr;
  CudaDevice::Event ready = nullptr;   ///< what a collective reads is there
  std::vector<CudaDevice::Event> done; ///< of each collective
};

} // namespace

std::unique_ptr<Transport>
blurt::createNcclTransport(CudaDevice &device, CudaCode *code, World &world) {
  return std::make_unique<NcclTransport>(device, code, world);
}
