//===- Cuda.h - Programs for CUDA -------------------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A CudaDevice is one GPU: its primary context, one stream on which all work
// is queued in order, and events in it. A CudaCode is what a program runs
// there: the kernels of the image that fits the device, and the matrix products
// of cuBLASLt. Both libraries are opened at run time; lib/Cuda/Abi.h declares
// what is used of them.
//
// Members throw Error (run-time failure) that names the call, what it was for,
// and the device. Those that compiled code calls keep the first error instead,
// and after it queue nothing.
//
// Environment: BLURT_LIBCUDA and BLURT_CUBLASLT name the libraries' files,
// BLURT_DEVICE the GPU, BLURT_FORCE_PTX=1 takes the PTX image, BLURT_SYNC=1
// waits after every kernel and product, so that an error names its own,
// BLURT_NO_GRAPH=1 queues every step anew.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_CUDA_H
#define BLURT_CUDA_H

#include "blurt/Allocator.h"
#include "blurt/blurt.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace blurt {

namespace cuda {
struct Driver;
struct StreamObject;
struct EventObject;
struct ModuleObject;
struct FunctionObject;
struct TensorMap;
struct GraphExecObject;
template <typename... Parameters> struct Entry;
} // namespace cuda

/// Device memory taken by something outside the arena.
struct DeviceReserve {
  std::string name;
  uint64_t bytes;
};

class CudaDevice {
public:
  using Stream = cuda::StreamObject *;
  using Event = cuda::EventObject *;

  /// `requiredVersion` is the CUDA version that the program's images need.
  CudaDevice(int ordinal, int requiredVersion);
  ~CudaDevice();
  CudaDevice(const CudaDevice &) = delete;
  CudaDevice &operator=(const CudaDevice &) = delete;

  const cuda::Driver &driver() const { return api; }
  const std::string &name() const { return deviceName; }
  /// "device 0 (NVIDIA H200, sm_90)".
  const std::string &description() const { return text; }
  int ordinal() const { return index; }
  int capability() const { return arch; } ///< 90 for 9.0
  uint64_t maxShared() const { return sharedLimit; }
  Stream stream() const { return queue; }

  /// Calls a function of the driver; `what` says for what.
  template <typename... P, typename... A>
  void call(const cuda::Entry<P...> &entry, const std::string &what,
            A... arguments) const {
    if (int result = entry.function(arguments...))
      fail(entry.name, result, what);
  }
  [[noreturn]] void fail(const char *call, int result,
                         const std::string &what) const;
  std::string failureText(const char *call, int result,
                          const std::string &what) const;

  /// Waits for all that is queued.
  void synchronize(const std::string &what) const;

  /// Queues copies; `host` is pinned and stays as it is until they are done.
  void upload(void *to, const void *host, uint64_t bytes) const;
  void download(void *host, const void *from, uint64_t bytes) const;
  /// The same for any host memory; returns when the copy is done.
  void write(void *to, const void *host, uint64_t bytes) const;
  void read(void *host, const void *from, uint64_t bytes) const;

  /// Queues the filling of device memory with a byte; in `stream`, or where
  /// everything goes.
  void fill(void *address, unsigned char value, uint64_t bytes,
            Stream stream = nullptr) const;

  /// A stream beside the program's, whose work goes first.
  Stream createStream() const;
  void destroyStream(Stream stream) const;
  /// What is queued in `stream` from now on comes after `event`.
  void order(Stream stream, Event event) const;

  Event createEvent() const;
  /// One that only orders streams.
  Event createOrderEvent() const;
  void destroyEvent(Event event) const;
  void record(Event event, Stream stream = nullptr) const;
  void wait(Event event) const;
  /// Milliseconds of the device between two events that have passed.
  double elapsed(Event from, Event to) const;

  MemoryInfo memoryInfo() const;
  /// Books what the free memory fell by since the last booking.
  void book(const std::string &reserve);
  const std::vector<DeviceReserve> &reserves() const { return booked; }
  /// Memory in use on the whole device when the context was there.
  uint64_t usedAtStart() const { return startUsed; }

private:
  const cuda::Driver &api;
  int index;
  int device = 0;
  Stream queue = nullptr;
  int arch = 0;
  uint64_t sharedLimit = 0;
  std::string deviceName, text;
  uint64_t lastUsed = 0, startUsed = 0;
  std::vector<DeviceReserve> booked;
};

/// Memory of `device`, and pinned memory of the host that it copies from and
/// to. The device outlives them.
std::unique_ptr<Backend> createCudaBackend(CudaDevice &device);
std::unique_ptr<Backend> createPinnedBackend(CudaDevice &device);

/// The device to use: `requested` unless negative, else BLURT_DEVICE, else 0.
int resolveDevice(int64_t requested);
/// True if the environment has the variable and it is not 0.
bool environmentFlag(const char *name);
/// The CUDA version that `program` needs of the driver.
int requiredCudaVersion(const blurt_program &program);

/// The image of `code` for a device of `capability`: made for it alone, else of
/// its major version and the highest minor one that is not above, else PTX.
/// Throws Error if none fits, listing what there is.
const blurt_image &chooseImage(const blurt_device_code &code, int capability,
                               bool forcePtx, const std::string &device);
/// "sm_90a", "compute_80".
std::string imageName(const blurt_image &image);

/// What a launch of a kernel, a product or a copy is, and does at least.
struct DeviceWork {
  std::string name, source;
  bool isKernel = false; ///< has a grid and blocks
  uint32_t grid[3] = {}, block[3] = {};
  uint64_t bytes = 0, flops = 0; ///< 0 if not known
  bool isCollective = false;     ///< bytes are those that this device sends
};

/// Device time of all launches of one.
struct KernelTime {
  DeviceWork work;
  uint64_t count = 0;
  double milliseconds = 0;
};

/// One launch, in milliseconds from the start of the clock.
struct DeviceSpan {
  int32_t item;  ///< as CudaCode::describe takes it
  int32_t round; ///< which startTimes it came after, from 0
  double start, milliseconds;
  bool isCollective = false; ///< beside the others, not after the one before
};

/// What the device reaches, measured; 0 if that was not possible.
struct DeviceCeilings {
  double bytesPerSecond = 0, flopsPerSecond = 0;
  std::string copy, product; ///< how
};

class CudaProducts;

class CudaCode {
public:
  /// Loads the image; the program outlives the code.
  CudaCode(CudaDevice &device, const blurt_program &program);
  ~CudaCode();

  /// Chooses an algorithm for every product: that of the file `tune`, else the
  /// library's first. `workspace` is device memory of the size in the table.
  void prepareProducts(void *workspace, const std::string &tune);

  void launch(int32_t kernel, void *const *args) noexcept;
  void product(int32_t index, const void *a, const void *b, void *c,
               const void *extra) noexcept;
  void storeI64(void *to, int64_t value) noexcept;
  /// Says that inputs or results were copied.
  void copied(bool in);
  /// Around what collective `number` of the program queues in `stream`.
  void collectiveBegins(int32_t number, CudaDevice::Stream stream);
  void collectiveEnds(CudaDevice::Stream stream);
  /// Says that the program's stream waits for it.
  void collectiveAwaited(int32_t number);

  /// Throws the first error since the last call.
  void rethrow();

  const blurt_image *image() const { return chosen; }
  /// Of the file given to prepareProducts, else empty.
  const std::string &tuneHash() const { return fileHash; }
  /// "cuBLASLt 13.0.2", or nothing if the program has no products.
  std::string library() const;

  /// True if the device is waited for after every launch.
  bool waits() const { return waitEach; }
  /// In a capture every launch is checked to have gone into it.
  void setCapturing(bool value) { capturing = value; }

  /// Starts the clock that spans are told by, when the queue has run empty.
  void startClock();
  /// Times every kernel and product from now on, until `stopTimes`; starts the
  /// clock if it does not run.
  void startTimes();
  void stopTimes() { timing = false; }
  bool times() const { return timing; }
  /// Waits for the device; in the order of the queue, then the collectives. The
  /// clock stops.
  std::vector<DeviceSpan> takeSpans();
  /// The longest in all first.
  std::vector<KernelTime> sumUp(const std::vector<DeviceSpan> &spans) const;
  DeviceWork describe(int32_t item) const;
  /// With memory that is free now: a large copy, and a large product in the
  /// precision that most of the program's products have.
  DeviceCeilings measureCeilings();

private:
  void keep(const std::string &error) noexcept;
  void mark(int32_t item);
  /// Records the first failure of queueing; true if nothing failed.
  bool queued(int result, const char *call, int32_t item) noexcept;
  std::string itemText(int32_t item) const;
  const blurt_device_kernel &kernelOf(int32_t item) const {
    return chosen->kernels[item];
  }

  CudaDevice &device;
  const blurt_program &table;
  const blurt_device_code &code;
  const blurt_image *chosen = nullptr;
  cuda::ModuleObject *module = nullptr;
  std::vector<cuda::FunctionObject *> functions;
  std::vector<cuda::TensorMap> maps; ///< of the kernel being launched
  std::unique_ptr<CudaProducts> products;
  std::string fileHash;
  std::optional<std::string> firstError;
  bool waitEach = false;
  bool capturing = false;

  bool timing = false, clockRuns = false;
  std::vector<CudaDevice::Event> marks;
  /// What ended at marks[1], marks[2], …: kernels from 0, products from -1
  /// down, and from the least number up what the table does not have.
  std::vector<int32_t> marked;
  struct Sent {
    int32_t item, round;
    CudaDevice::Event begin, end;
  };
  std::vector<Sent> sent;
  int32_t round = -1;
};

/// All work of an entry, captured once and then launched as one.
class CudaGraph {
public:
  /// `queue` queues the work. Throws Error that names the op at fault.
  CudaGraph(CudaDevice &device, CudaCode &code, const std::string &entry,
            const std::function<void()> &queue);
  ~CudaGraph();
  CudaGraph(const CudaGraph &) = delete;
  CudaGraph &operator=(const CudaGraph &) = delete;

  void launch() const;

private:
  CudaDevice &device;
  std::string what;
  cuda::GraphExecObject *exec = nullptr;
};

/// Times candidates of every product of `program` and writes the best to
/// `path`: what the library proposes, with `search` also variants of it.
void tuneProducts(const blurt_program &program, int64_t device, int repeat,
                  bool search, const std::string &path, bool quiet);

} // namespace blurt

#endif // BLURT_CUDA_H
