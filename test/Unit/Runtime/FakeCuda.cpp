//===- FakeCuda.cpp - Stand-ins for libcuda and libcublasLt ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Both libraries in one, on host memory, for tests without a GPU. What is
// queued runs as late as it may: when the host waits for it. Device memory is
// out of the host's reach at all other times, so that touching it is a crash.
// Kernels are FakeKernel objects of the executable, found by their symbol.
// Time is counted: a kernel takes 2 µs, a product 3, 1 or 5 by algorithm, a
// copy on the device 1 µs for each MB. A capture keeps what is queued for the
// launches of its graph; 64 KiB of the device are a graph's.
//
// What is queued in another stream than the first runs as late as it may too,
// when the first waits for an event behind it, or with FAKE_CUDA_EARLY as early
// as it may: if both give the same, streams wait where they have to.
//
//   FAKE_CUDA_VERSION     of the driver (13000)
//   FAKE_CUDA_ARCH        compute capability × 10 (90)
//   FAKE_CUDA_DEVICES     how many (1)
//   FAKE_CUDA_MEMORY      bytes of a device (1 GiB)
//   FAKE_CUDA_FAIL        name:n:code, the n-th call of a function fails, or
//                         with 0 every one
//   FAKE_CUDA_LATE        symbol of a kernel that fails when it runs; with
//                         FAKE_CUDA_LATE_RANK of that rank only
//   FAKE_CUDA_HANG        RANK:SYMBOL:N:SIGNAL: the N-th run of a kernel on
//                         the rank RANK never ends, and raises a signal unless
//                         that is 0
//   FAKE_CUDA_SPOIL       symbol of a kernel whose launch invalidates a capture
//   FAKE_CUDA_LOG         file to append what happens to
//   FAKE_CUDA_EARLY       run what is in other streams first
//   FAKE_CUBLASLT_VERSION of cuBLASLt (130002)
//
//===----------------------------------------------------------------------===//

#include "FakeKernel.h"
#include "blurt/Convert.h"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace {

uint64_t number(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

void note(const std::string &line) {
  const char *path = std::getenv("FAKE_CUDA_LOG");
  if (!path)
    return;
  std::FILE *file = std::fopen(path, "a");
  std::fprintf(file, "%s\n", line.c_str());
  std::fclose(file);
}

/// Nonzero if FAKE_CUDA_FAIL wants this call to fail.
int failing(const char *name) {
  static std::map<std::string, int> counts;
  int count = ++counts[name];
  const char *text = std::getenv("FAKE_CUDA_FAIL");
  if (!text)
    return 0;
  char wanted[64];
  int at = 0, code = 0;
  if (std::sscanf(text, "%63[^:]:%d:%d", wanted, &at, &code) == 3 &&
      std::strcmp(wanted, name) == 0 && (at == 0 || at == count))
    return code;
  return 0;
}

#define FAIL_IF_WANTED(name)                                                   \
  if (int code = failing(name))                                                \
  return code

struct Range {
  char *address;
  size_t bytes;
};
std::map<uintptr_t, Range> deviceMemory, pinnedMemory;
uint64_t deviceUsed = 0;
constexpr uint64_t kGraphBytes = 65536;
std::atomic<int> liveGraphs{0}; ///< ready to be launched

bool isIn(const std::map<uintptr_t, Range> &ranges, const void *address) {
  auto at = reinterpret_cast<uintptr_t>(address);
  auto it = ranges.upper_bound(at);
  return it != ranges.begin() && at < (--it)->first + it->second.bytes;
}

struct Work {
  std::function<void()> run;
  std::function<bool()> isReady; ///< null if always
  bool isOutside = false;        ///< what it waits for is not in a stream
};
using Stream = std::deque<Work>;
/// What queues the work of a graph, as it was queued in the capture.
using FakeGraph = std::vector<std::function<void()>>;
Stream stream, otherStream;
FakeGraph *captured = nullptr; ///< not null in a capture
bool spoiled = false;          ///< the capture
/// Work of a capture in the other stream, and how much of that the first one
/// has waited for.
int forked = 0, joined = 0;

void queueNow(const std::function<void()> &queue) {
  if (captured)
    captured->push_back(queue);
  else
    queue();
}
void enqueue(std::function<void()> run, void *handle = &stream,
             std::function<bool()> isReady = nullptr) {
  auto *where = static_cast<Stream *>(handle);
  if (captured && where == &otherStream)
    ++forked;
  queueNow([=] { where->push_back({run, isReady, isReady != nullptr}); });
}

std::map<std::string, int> kernelRuns;
/// Whether the next run of a kernel is the one that never ends.
bool hangs(const std::string &symbol) {
  static int raised = 0;
  const char *text = std::getenv("FAKE_CUDA_HANG"), *rank = std::getenv("RANK");
  std::string wanted = rank ? rank : "";
  wanted += ":" + symbol + ":" + std::to_string(kernelRuns[symbol] + 1) + ":";
  if (!text || std::strncmp(text, wanted.c_str(), wanted.size()) != 0)
    return false;
  int signal = std::atoi(text + wanted.size());
  if (signal && raised++ == 0)
    raise(signal);
  return true;
}
double now = 0; ///< microseconds
int sticky = 0;

void protect(int how) {
  for (auto &[at, range] : deviceMemory)
    mprotect(range.address, range.bytes, how);
}

/// Runs what is queued until `until` holds.
int drain(const std::function<bool()> &until = nullptr) {
  protect(PROT_READ | PROT_WRITE);
  auto canRun = [](const Stream &queue) {
    return !queue.empty() &&
           (!queue.front().isReady || queue.front().isReady());
  };
  bool isEarly = std::getenv("FAKE_CUDA_EARLY");
  while (!(stream.empty() && (!isEarly || otherStream.empty())) && !sticky &&
         !(until && until())) {
    bool otherFirst = canRun(otherStream) && (isEarly || !canRun(stream));
    Stream &queue = otherFirst ? otherStream : stream;
    auto waitsOutside = [](const Stream &queue) {
      return !queue.empty() && queue.front().isOutside;
    };
    if (!canRun(queue) && (waitsOutside(stream) || waitsOutside(otherStream))) {
      usleep(200);
      continue;
    }
    // Streams that wait for each other would do so for ever.
    if (!canRun(queue)) {
      sticky = 999;
      break;
    }
    Work next = std::move(queue.front());
    queue.pop_front();
    next.run();
  }
  protect(PROT_NONE);
  return sticky;
}

void *pointer(unsigned long long address) {
  return reinterpret_cast<void *>(address);
}

struct FakeEvent {
  unsigned flags = 0;
  double at = 0;
  int queued = 0;
  int records = 0, passed = 0;
  int covers = 0; ///< of the other stream's work in a capture
};

struct FakeFunction {
  const FakeKernel *kernel;
  std::string name;
  int dynamicLimit = 48 * 1024;
};

void copyLater(void *to, const void *from, size_t bytes, void *handle) {
  bool late = isIn(deviceMemory, from) || isIn(pinnedMemory, from);
  if (late) {
    enqueue([=] { std::memcpy(to, from, bytes); }, handle);
    return;
  }
  // The driver has taken its copy of ordinary memory when it returns.
  std::vector<char> held(static_cast<const char *>(from),
                         static_cast<const char *>(from) + bytes);
  enqueue([=] { std::memcpy(to, held.data(), held.size()); }, handle);
}

} // namespace

extern "C" {

int cuInit(unsigned) {
  FAIL_IF_WANTED("cuInit");
  return 0;
}
int cuDriverGetVersion(int *version) {
  *version = int(number("FAKE_CUDA_VERSION", 13000));
  return 0;
}
int cuDeviceGetCount(int *count) {
  *count = int(number("FAKE_CUDA_DEVICES", 1));
  return 0;
}
int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char *name, int bytes, int device) {
  std::snprintf(name, size_t(bytes), "Fake GPU");
  return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  int arch = int(number("FAKE_CUDA_ARCH", 90));
  switch (attribute) {
  case 75:
    *value = arch / 10;
    return 0;
  case 76:
    *value = arch % 10;
    return 0;
  case 97:
    *value = 100 * 1024;
    return 0;
  }
  return 1;
}
int cuDevicePrimaryCtxRetain(void **context, int device) {
  *context = &deviceUsed;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxSetCurrent(void *) { return 0; }

int cuModuleLoadDataEx(void **module, const void *image, unsigned count,
                       const int *options, void **values) {
  std::string text = static_cast<const char *>(image);
  note("load " + text);
  if (text.rfind("bad", 0) == 0) {
    for (unsigned i = 0; i < count; ++i)
      if (options[i] == 5)
        std::strcpy(static_cast<char *>(values[i]), "line 3: syntax error");
    return 218;
  }
  *module = &deviceUsed;
  return 0;
}
int cuModuleUnload(void *) { return 0; }
int cuModuleGetFunction(void **function, void *, const char *name) {
  auto *kernel = static_cast<const FakeKernel *>(dlsym(RTLD_DEFAULT, name));
  if (!kernel)
    return 500;
  *function = new FakeFunction{kernel, name};
  return 0;
}
int cuFuncLoad(void *) { return 0; }
int cuFuncGetAttribute(int *value, int attribute, void *function) {
  *value = attribute == 0
               ? 1024
               : static_cast<FakeFunction *>(function)->kernel->staticShared;
  return 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value) {
  if (attribute != 8)
    return 1;
  static_cast<FakeFunction *>(function)->dynamicLimit = value;
  return 0;
}
int cuTensorMapEncodeTiled(FakeMap *map, int type, uint32_t rank, void *address,
                           const uint64_t *extents, const uint64_t *strides,
                           const uint32_t *box, const uint32_t *steps,
                           int interleave, int swizzle, int, int fill) {
  FAIL_IF_WANTED("cuTensorMapEncodeTiled");
  if (reinterpret_cast<uintptr_t>(map) % 64 || interleave || fill)
    return 1;
  *map = {address, uint32_t(type), rank, uint32_t(swizzle), {}, {}, {}, {}};
  for (uint32_t d = 0; d < rank; ++d) {
    if (steps[d] != 1)
      return 1;
    map->extents[d] = uint32_t(extents[d]);
    map->box[d] = box[d];
    if (d + 1 < rank)
      map->strides[d] = uint32_t(strides[d]);
  }
  return 0;
}
int cuLaunchKernel(void *handle, unsigned, unsigned, unsigned, unsigned,
                   unsigned, unsigned, unsigned shared, void *where,
                   void **parameters, void **) {
  FAIL_IF_WANTED("cuLaunchKernel");
  auto *function = static_cast<FakeFunction *>(handle);
  if (int(shared) > function->dynamicLimit)
    return 1;
  std::vector<void *> args;
  for (int i = 0; i < function->kernel->numArgs; ++i)
    args.push_back(*static_cast<void **>(parameters[i]));
  // Parameters are taken by value.
  auto maps = std::make_shared<std::vector<FakeMap>>();
  for (int i = 0; i < function->kernel->numMaps; ++i)
    maps->push_back(
        *static_cast<FakeMap *>(parameters[function->kernel->numArgs + i]));
  for (FakeMap &map : *maps)
    args.push_back(&map);
  note("launch " + function->name);
  const char *late = std::getenv("FAKE_CUDA_LATE");
  const char *lateRank = std::getenv("FAKE_CUDA_LATE_RANK");
  bool fails = late && function->name == late &&
               (!lateRank || std::string(lateRank) == std::getenv("RANK"));
  const char *spoil = std::getenv("FAKE_CUDA_SPOIL");
  spoiled |= spoil && function->name == spoil;
  std::function<bool()> isReady;
  if (std::getenv("FAKE_CUDA_HANG"))
    isReady = [=] { return !hangs(function->name); };
  enqueue(
      [=] {
        now += 2;
        ++kernelRuns[function->name];
        if (fails)
          sticky = 700;
        else
          function->kernel->run(args.data());
        (void)maps;
      },
      where, isReady);
  return 0;
}

int cuStreamCreate(void **made, unsigned flags) {
  *made = &stream;
  return flags == 1 ? 0 : 1;
}
int cuStreamCreateWithPriority(void **made, unsigned flags, int priority) {
  FAIL_IF_WANTED("cuStreamCreateWithPriority");
  *made = &otherStream;
  return flags == 1 && priority == -5 ? 0 : 1;
}
int cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return 0;
}
int cuStreamDestroy_v2(void *handle) {
  static_cast<Stream *>(handle)->clear();
  return 0;
}
int cuStreamWaitEvent(void *where, void *handle, unsigned flags) {
  FAIL_IF_WANTED("cuStreamWaitEvent");
  auto *event = static_cast<FakeEvent *>(handle);
  if (where == &stream)
    joined = std::max(joined, event->covers);
  queueNow([=] {
    // The last record before the call counts.
    static_cast<Stream *>(where)->push_back(
        {[] {}, [=, last = event->records] { return event->passed >= last; }});
  });
  return flags ? 1 : 0;
}
int cuStreamSynchronize(void *) {
  if (captured)
    return 900;
  note("wait for all");
  return drain();
}
int cuStreamBeginCapture_v2(void *, int mode) {
  FAIL_IF_WANTED("cuStreamBeginCapture");
  if (captured || mode < 0 || mode > 2)
    return 1;
  note("capture");
  captured = new FakeGraph;
  spoiled = false;
  forked = joined = 0;
  return 0;
}
int cuStreamEndCapture(void *, void **graph) {
  FAIL_IF_WANTED("cuStreamEndCapture");
  if (!captured)
    return 1;
  *graph = captured;
  captured = nullptr;
  if (!spoiled && joined >= forked)
    return 0;
  delete static_cast<FakeGraph *>(*graph);
  *graph = nullptr;
  return spoiled ? 901 : 904;
}
int cuStreamIsCapturing(void *, int *status) {
  *status = !captured ? 0 : spoiled ? 2 : 1;
  return 0;
}
int cuGraphInstantiateWithFlags(void **exec, void *graph,
                                unsigned long long flags) {
  FAIL_IF_WANTED("cuGraphInstantiate");
  if (flags)
    return 1;
  *exec = new FakeGraph(*static_cast<FakeGraph *>(graph));
  ++liveGraphs;
  deviceUsed += kGraphBytes;
  return 0;
}
int cuGraphUpload(void *, void *) {
  FAIL_IF_WANTED("cuGraphUpload");
  return 0;
}
int cuGraphLaunch(void *exec, void *) {
  FAIL_IF_WANTED("cuGraphLaunch");
  if (captured)
    return 900;
  note("launch the graph");
  for (const std::function<void()> &queue : *static_cast<FakeGraph *>(exec))
    queue();
  return 0;
}
int cuGraphDestroy(void *graph) {
  delete static_cast<FakeGraph *>(graph);
  return 0;
}
int cuGraphExecDestroy(void *exec) {
  delete static_cast<FakeGraph *>(exec);
  --liveGraphs;
  deviceUsed -= kGraphBytes;
  return 0;
}

int cuEventCreate(void **event, unsigned flags) {
  *event = new FakeEvent{flags};
  return 0;
}
int cuEventDestroy_v2(void *event) {
  delete static_cast<FakeEvent *>(event);
  return 0;
}
int cuEventRecord(void *handle, void *where) {
  auto *event = static_cast<FakeEvent *>(handle);
  // Allowed, but the event is then none that the host may wait for.
  if (captured && !(event->flags & 2))
    return 900;
  event->covers = where == &otherStream ? forked : 0;
  queueNow([=] {
    ++event->queued;
    static_cast<Stream *>(where)->push_back({[=, number = ++event->records] {
                                               event->at = now;
                                               event->passed = number;
                                               --event->queued;
                                             },
                                             nullptr});
  });
  return 0;
}
int cuEventSynchronize(void *handle) {
  note("wait for event");
  auto *event = static_cast<FakeEvent *>(handle);
  return drain([=] { return event->queued == 0; });
}
int cuEventElapsedTime(float *milliseconds, void *from, void *to) {
  auto *a = static_cast<FakeEvent *>(from), *b = static_cast<FakeEvent *>(to);
  if (a->queued || b->queued || (a->flags | b->flags) & 2)
    return 600;
  *milliseconds = float((b->at - a->at) * 1e-3);
  return 0;
}

int cuMemAlloc_v2(unsigned long long *address, size_t bytes) {
  FAIL_IF_WANTED("cuMemAlloc");
  if (deviceUsed + bytes > number("FAKE_CUDA_MEMORY", 1 << 30))
    return 2;
  size_t mapped = (bytes + 4095) / 4096 * 4096;
  void *memory =
      mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return 2;
  auto at = reinterpret_cast<uintptr_t>(memory);
  deviceMemory[at] = {static_cast<char *>(memory), mapped};
  deviceUsed += mapped;
  *address = at;
  return 0;
}
int cuMemFree_v2(unsigned long long address) {
  auto it = deviceMemory.find(uintptr_t(address));
  if (it == deviceMemory.end())
    return 1;
  munmap(it->second.address, it->second.bytes);
  deviceUsed -= it->second.bytes;
  deviceMemory.erase(it);
  return 0;
}
int cuMemGetInfo_v2(size_t *free, size_t *total) {
  *total = number("FAKE_CUDA_MEMORY", 1 << 30);
  *free = *total - deviceUsed;
  return 0;
}
int cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  FAIL_IF_WANTED("cuMemHostAlloc");
  *memory = std::malloc(bytes);
  pinnedMemory[reinterpret_cast<uintptr_t>(*memory)] = {
      static_cast<char *>(*memory), bytes};
  return 0;
}
int cuMemFreeHost(void *memory) {
  pinnedMemory.erase(reinterpret_cast<uintptr_t>(memory));
  std::free(memory);
  return 0;
}
int cuMemcpyAsync(unsigned long long to, unsigned long long from, size_t bytes,
                  void *where) {
  copyLater(pointer(to), pointer(from), bytes, where);
  enqueue([=] { now += double(bytes) * 1e-6; }, where);
  return 0;
}
int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes,
                         void *where) {
  FAIL_IF_WANTED("cuMemcpyHtoDAsync");
  copyLater(pointer(to), from, bytes, where);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes,
                         void *where) {
  enqueue([=] { std::memcpy(to, pointer(from), bytes); }, where);
  return isIn(pinnedMemory, to) ? 0 : drain();
}
int cuMemsetD8Async(unsigned long long to, unsigned char value, size_t count,
                    void *where) {
  // Fresh pages are zero, and what only passes time may be skipped.
  if (value != 0 || count < size_t(128) << 20)
    enqueue([=] { std::memset(pointer(to), value, count); }, where);
  return 0;
}
int cuMemsetD32Async(unsigned long long to, unsigned value, size_t count,
                     void *where) {
  enqueue(
      [=] {
        for (size_t i = 0; i < count; ++i)
          static_cast<unsigned *>(pointer(to))[i] = value;
      },
      where);
  return 0;
}

int cuGetErrorName(int code, const char **text) {
  static const std::map<int, const char *> names = {
      {1, "CUDA_ERROR_INVALID_VALUE"},
      {2, "CUDA_ERROR_OUT_OF_MEMORY"},
      {100, "CUDA_ERROR_NO_DEVICE"},
      {218, "CUDA_ERROR_INVALID_PTX"},
      {500, "CUDA_ERROR_NOT_FOUND"},
      {600, "CUDA_ERROR_NOT_READY"},
      {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
      {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
      {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"}};
  auto it = names.find(code);
  if (it == names.end())
    return 1;
  *text = it->second;
  return 0;
}
int cuGetErrorString(int code, const char **text) {
  *text = code == 700 ? "an illegal memory access was encountered"
                      : "as the test asked for";
  return 0;
}

/// For the stand-in of NCCL; `isReady` may be null.
int fake_cuda_live_graphs() { return liveGraphs; }
void fake_cuda_enqueue(void *where, const std::function<void()> *run,
                       const std::function<bool()> *isReady) {
  enqueue(*run, where, isReady ? *isReady : nullptr);
}

} // extern "C"

namespace {

struct FakeLayout {
  int type;
  uint64_t rows, columns;
  int64_t ld, stride = 0;
  int32_t batch = 1;

  double get(const void *base, int64_t matrix, uint64_t i, uint64_t j) const {
    auto at = matrix * stride + int64_t(i) + int64_t(j) * ld;
    return type == 14 ? double(blurt::fromBf16(
                            static_cast<const uint16_t *>(base)[at]))
                      : double(static_cast<const float *>(base)[at]);
  }
  void set(void *base, int64_t matrix, uint64_t i, uint64_t j,
           double value) const {
    auto at = matrix * stride + int64_t(i) + int64_t(j) * ld;
    if (type == 14)
      static_cast<uint16_t *>(base)[at] = blurt::toBf16(value);
    else
      static_cast<float *>(base)[at] = float(value);
  }
};

struct FakeDesc {
  int compute;
  int32_t transA = 0, transB = 0, epilogue = 1, biasType = -1;
  const void *bias = nullptr;
};

struct FakePreference {
  uint64_t workspace = 0;
  uint32_t reductions = 7;
};

struct FakeCandidate {
  uint64_t words[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

constexpr double kCosts[] = {0, 3, 1, 5, 0.5};

} // namespace

extern "C" {

size_t cublasLtGetVersion() { return number("FAKE_CUBLASLT_VERSION", 130002); }
const char *cublasLtGetStatusName(int status) {
  return status == 15 ? "CUBLAS_STATUS_NOT_SUPPORTED"
                      : "CUBLAS_STATUS_INVALID_VALUE";
}
const char *cublasLtGetStatusString(int status) {
  return cublasLtGetStatusName(status);
}
int cublasLtCreate(void **handle) {
  FAIL_IF_WANTED("cublasLtCreate");
  *handle = &stream;
  return 0;
}
int cublasLtDestroy(void *) { return 0; }
int cublasLtMatmulDescCreate(FakeDesc **desc, int compute, int scale) {
  *desc = new FakeDesc{compute};
  return 0;
}
int cublasLtMatmulDescDestroy(FakeDesc *desc) {
  delete desc;
  return 0;
}
int cublasLtMatmulDescSetAttribute(FakeDesc *desc, int attribute,
                                   const void *value, size_t bytes) {
  void *field = attribute == 3    ? static_cast<void *>(&desc->transA)
                : attribute == 4  ? static_cast<void *>(&desc->transB)
                : attribute == 7  ? static_cast<void *>(&desc->epilogue)
                : attribute == 8  ? static_cast<void *>(&desc->bias)
                : attribute == 26 ? static_cast<void *>(&desc->biasType)
                                  : nullptr;
  if (!field || bytes != (attribute == 8 ? 8u : 4u))
    return 7;
  std::memcpy(field, value, bytes);
  return 0;
}
int cublasLtMatrixLayoutCreate(FakeLayout **layout, int type, uint64_t rows,
                               uint64_t columns, int64_t ld) {
  if (ld < int64_t(rows))
    return 7;
  *layout = new FakeLayout{type, rows, columns, ld};
  return 0;
}
int cublasLtMatrixLayoutDestroy(FakeLayout *layout) {
  delete layout;
  return 0;
}
int cublasLtMatrixLayoutSetAttribute(FakeLayout *layout, int attribute,
                                     const void *value, size_t bytes) {
  if (attribute == 5 && bytes == 4)
    std::memcpy(&layout->batch, value, 4);
  else if (attribute == 6 && bytes == 8)
    std::memcpy(&layout->stride, value, 8);
  else
    return 7;
  return 0;
}
int cublasLtMatmulPreferenceCreate(FakePreference **preference) {
  *preference = new FakePreference;
  return 0;
}
int cublasLtMatmulPreferenceDestroy(FakePreference *preference) {
  delete preference;
  return 0;
}
int cublasLtMatmulPreferenceSetAttribute(FakePreference *preference,
                                         int attribute, const void *value,
                                         size_t bytes) {
  if (attribute == 1 && bytes == 8)
    std::memcpy(&preference->workspace, value, 8);
  else if (attribute == 3 && bytes == 4)
    std::memcpy(&preference->reductions, value, 4);
  else if (attribute < 5 || attribute > 8 || bytes != 4)
    return 7;
  return 0;
}
int cublasLtMatmulAlgoGetHeuristic(void *, FakeDesc *desc, FakeLayout *,
                                   FakeLayout *, FakeLayout *,
                                   FakeLayout *output,
                                   FakePreference *preference, int most,
                                   FakeCandidate *candidates, int *count) {
  FAIL_IF_WANTED("cublasLtMatmulAlgoGetHeuristic");
  *count = 0;
  // In FP32: in the compute type, or in an output of FP32.
  if (preference->reductions != (output->type == 0 ? 3u : 2u))
    return 15;
  for (uint64_t algorithm = 1; algorithm <= 3 && *count < most; ++algorithm)
    candidates[(*count)++] = {{algorithm}, 256 * algorithm, 0, 1, {}};
  return 0;
}
/// Tiles 403 to 1, of which the last four can be used; no stages.
int cublasLtMatmulAlgoCapGetAttribute(const uint64_t *, int capability,
                                      void *to, size_t room, size_t *bytes) {
  FAIL_IF_WANTED("cublasLtMatmulAlgoCapGetAttribute");
  std::vector<uint32_t> tiles(403);
  for (uint32_t i = 0; i < tiles.size(); ++i)
    tiles[i] = tiles.size() - i;
  *bytes = capability == 6 ? tiles.size() * sizeof(uint32_t) : 0;
  if (room == 0)
    return 0;
  if (room < *bytes)
    return 7;
  std::memcpy(to, tiles.data(), *bytes);
  return 0;
}
/// A tile is the number of an algorithm; nothing else can be chosen.
int cublasLtMatmulAlgoConfigSetAttribute(uint64_t *words, int attribute,
                                         const void *value, size_t) {
  if (attribute != 1)
    return 15;
  uint32_t tile;
  std::memcpy(&tile, value, sizeof(tile));
  words[0] = tile;
  return 0;
}
int cublasLtMatmulAlgoCheck(void *, FakeDesc *, FakeLayout *, FakeLayout *,
                            FakeLayout *, FakeLayout *, const uint64_t *words,
                            FakeCandidate *result) {
  if (words[0] < 1 || words[0] > 4)
    return 15;
  *result = {{words[0]}, 256 * words[0], 0, 1, {}};
  return 0;
}
int cublasLtMatmul(void *, FakeDesc *desc, const float *alpha, const void *a,
                   FakeLayout *layoutA, const void *b, FakeLayout *layoutB,
                   const float *beta, const void *c, FakeLayout *layoutC,
                   void *d, FakeLayout *layoutD, const uint64_t *algorithm,
                   void *workspace, size_t bytes, void *) {
  FAIL_IF_WANTED("cublasLtMatmul");
  if (reinterpret_cast<uintptr_t>(workspace) % 256 || *alpha != 1 || c != d)
    return 7;
  note("product by algorithm " + std::to_string(algorithm[0]));
  enqueue([=, desc = *desc, A = *layoutA, B = *layoutB, D = *layoutD,
           beta = *beta, cost = kCosts[algorithm[0]]] {
    now += cost;
    uint64_t depth = desc.transA ? A.rows : A.columns;
    for (int64_t batch = 0; batch < D.batch; ++batch)
      for (uint64_t i = 0; i < D.rows; ++i)
        for (uint64_t j = 0; j < D.columns; ++j) {
          float sum = 0;
          for (uint64_t k = 0; k < depth; ++k)
            sum += float(
                (desc.transA ? A.get(a, batch, k, i) : A.get(a, batch, i, k)) *
                (desc.transB ? B.get(b, batch, j, k) : B.get(b, batch, k, j)));
          double value = sum;
          if (beta != 0)
            value += double(beta) * D.get(d, batch, i, j);
          if (desc.epilogue == 4)
            value += FakeLayout{desc.biasType, D.rows, 1, int64_t(D.rows)}.get(
                desc.bias, 0, i, 0);
          D.set(d, batch, i, j, value);
        }
  });
  return 0;
}

} // extern "C"
