//===- Device.cpp - One GPU -----------------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Abi.h"
#include "blurt/Cuda.h"
#include "blurt/Error.h"
#include "blurt/Program.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

using namespace blurt;

static cuda::Address deviceAddress(const void *address) {
  return reinterpret_cast<cuda::Address>(address);
}

int blurt::resolveDevice(int64_t requested) {
  if (requested >= 0)
    return static_cast<int>(requested);
  const char *text = std::getenv("BLURT_DEVICE");
  if (!text || !*text)
    return 0;
  int value = -1;
  const char *end = text + std::strlen(text);
  auto [next, error] = std::from_chars(text, end, value);
  if (error != std::errc() || next != end || value < 0)
    throw badInput(
        std::string("BLURT_DEVICE: expected the number of a device, got '") +
        text + "'");
  return value;
}

int blurt::requiredCudaVersion(const blurt_program &program) {
  return static_cast<int>(
      findMetadataInt(program, "cuda_version").value_or(13000));
}

CudaDevice::CudaDevice(int ordinal, int requiredVersion)
    : api(cuda::loadDriver(requiredVersion)), index(ordinal),
      text("device " + std::to_string(ordinal)) {
  int count = 0;
  call(api.DeviceGetCount, "", &count);
  if (count == 0)
    throw failure("expected an NVIDIA GPU, got none");
  if (ordinal >= count)
    throw badInput("expected a device from 0 to " + std::to_string(count - 1) +
                   ", got " + std::to_string(ordinal));
  call(api.DeviceGet, "", &device, ordinal);
  char label[256] = {};
  call(api.DeviceGetName, "", label, int(sizeof(label) - 1), device);
  deviceName = label;
  auto attribute = [&](cuda::DeviceAttribute which) {
    int value = 0;
    call(api.DeviceGetAttribute, "", &value, which, device);
    return value;
  };
  arch =
      attribute(cuda::CapabilityMajor) * 10 + attribute(cuda::CapabilityMinor);
  sharedLimit = uint64_t(attribute(cuda::MaxSharedPerBlockOptIn));
  text += " (" + deviceName + ", sm_" + std::to_string(arch) + ")";
  cuda::Context context = nullptr;
  call(api.PrimaryCtxRetain, "the device's context", &context, device);
  try {
    call(api.CtxSetCurrent, "", context);
    MemoryInfo info = memoryInfo();
    startUsed = info.total - info.free;
    // Nothing can ask before there is a context, so that what other processes
    // hold counts too.
    booked.push_back({"context and other processes", startUsed});
    lastUsed = startUsed;
    call(api.StreamCreate, "the program's stream", &queue,
         cuda::kStreamNonBlocking);
  } catch (...) {
    api.PrimaryCtxRelease(device);
    throw;
  }
}

CudaDevice::~CudaDevice() {
  api.StreamDestroy(queue);
  api.PrimaryCtxRelease(device);
}

std::string CudaDevice::failureText(const char *call, int result,
                                    const std::string &what) const {
  return std::string(call) + (what.empty() ? "" : " (" + what + ")") +
         " failed on " + text + ": " + cuda::describe(api, result);
}

void CudaDevice::fail(const char *call, int result,
                      const std::string &what) const {
  throw failure(failureText(call, result, what));
}

void CudaDevice::synchronize(const std::string &what) const {
  call(api.StreamSynchronize, what, queue);
}

void CudaDevice::upload(void *to, const void *host, uint64_t bytes) const {
  call(api.MemcpyHtoDAsync, "a copy to the device", deviceAddress(to), host,
       bytes, queue);
}

void CudaDevice::download(void *host, const void *from, uint64_t bytes) const {
  call(api.MemcpyDtoHAsync, "a copy from the device", host, deviceAddress(from),
       bytes, queue);
}

void CudaDevice::write(void *to, const void *host, uint64_t bytes) const {
  upload(to, host, bytes);
  synchronize("a copy to the device");
}

void CudaDevice::read(void *host, const void *from, uint64_t bytes) const {
  download(host, from, bytes);
  synchronize("a copy from the device");
}

void CudaDevice::fill(void *address, unsigned char value, uint64_t bytes,
                      Stream stream) const {
  call(api.MemsetD8Async, "filling memory", deviceAddress(address), value,
       bytes, stream ? stream : queue);
}

CudaDevice::Stream CudaDevice::createStream() const {
  int least = 0, greatest = 0;
  call(api.StreamPriorities, "", &least, &greatest);
  Stream stream = nullptr;
  call(api.StreamCreateWithPriority, "another stream", &stream,
       cuda::kStreamNonBlocking, greatest);
  return stream;
}

void CudaDevice::destroyStream(Stream stream) const {
  api.StreamDestroy(stream);
}

void CudaDevice::order(Stream stream, Event event) const {
  call(api.StreamWaitEvent, "", stream, event, 0u);
}

CudaDevice::Event CudaDevice::createOrderEvent() const {
  Event event = nullptr;
  call(api.EventCreate, "", &event, cuda::kEventNoTime);
  return event;
}

CudaDevice::Event CudaDevice::createEvent() const {
  Event event = nullptr;
  // The host sleeps while it waits: its threads have data to read.
  call(api.EventCreate, "", &event, cuda::kEventBlockingWait);
  return event;
}

void CudaDevice::destroyEvent(Event event) const { api.EventDestroy(event); }

void CudaDevice::record(Event event, Stream stream) const {
  call(api.EventRecord, "", event, stream ? stream : queue);
}

void CudaDevice::wait(Event event) const {
  if (int result = api.EventSynchronize(event))
    fail("cuEventSynchronize", result,
         "an error of something queued before; BLURT_SYNC=1 tells which");
}

double CudaDevice::elapsed(Event from, Event to) const {
  float milliseconds = 0;
  call(api.EventElapsedTime, "", &milliseconds, from, to);
  return milliseconds;
}

MemoryInfo CudaDevice::memoryInfo() const {
  size_t free = 0, total = 0;
  call(api.MemGetInfo, "", &free, &total);
  return {free, total};
}

void CudaDevice::book(const std::string &reserve) {
  MemoryInfo info = memoryInfo();
  uint64_t used = info.total - info.free;
  uint64_t bytes = used > lastUsed ? used - lastUsed : 0;
  lastUsed = used;
  for (DeviceReserve &earlier : booked)
    if (earlier.name == reserve) {
      earlier.bytes += bytes;
      return;
    }
  booked.push_back({reserve, bytes});
}

namespace {

class CudaBackend final : public Backend {
public:
  explicit CudaBackend(CudaDevice &device)
      : device(device),
        label("device " + std::to_string(device.ordinal()) + "'s") {}

  const char *name() const override { return label.c_str(); }

  void *allocate(uint64_t bytes) override {
    cuda::Address address = 0;
    const cuda::Driver &api = device.driver();
    int result = api.MemAlloc(&address, bytes);
    if (result == cuda::OutOfMemory)
      return nullptr;
    if (result)
      device.fail(api.MemAlloc.name, result, std::to_string(bytes) + " bytes");
    auto *memory = reinterpret_cast<void *>(address);
    zero(memory, bytes);
    return memory;
  }

  void free(void *address, uint64_t) override {
    // After an error the context refuses everything; that error is the one to
    // report.
    device.driver().MemFree(deviceAddress(address));
  }

  void copy(void *to, const void *from, uint64_t bytes) override {
    device.call(device.driver().MemcpyAsync, "a copy", deviceAddress(to),
                deviceAddress(from), bytes, device.stream());
    device.synchronize("a copy");
  }

  void zero(void *address, uint64_t bytes) override {
    device.fill(address, 0, bytes);
    device.synchronize("filling memory");
  }

  MemoryInfo memoryInfo() const override { return device.memoryInfo(); }

private:
  CudaDevice &device;
  std::string label;
};

class PinnedBackend final : public Backend {
public:
  explicit PinnedBackend(CudaDevice &device)
      : device(device), host(createHostBackend()) {}

  const char *name() const override { return "pinned host"; }

  void *allocate(uint64_t bytes) override {
    void *address = nullptr;
    const cuda::Driver &api = device.driver();
    int result = api.MemHostAlloc(&address, bytes, 0);
    if (result == cuda::OutOfMemory)
      return nullptr;
    if (result)
      device.fail(api.MemHostAlloc.name, result,
                  std::to_string(bytes) + " bytes");
    zero(address, bytes);
    return address;
  }

  void free(void *address, uint64_t) override {
    device.driver().MemFreeHost(address);
  }
  void copy(void *to, const void *from, uint64_t bytes) override {
    std::memmove(to, from, bytes);
  }
  void zero(void *address, uint64_t bytes) override {
    std::memset(address, 0, bytes);
  }
  MemoryInfo memoryInfo() const override { return host->memoryInfo(); }

private:
  CudaDevice &device;
  std::unique_ptr<Backend> host;
};

} // namespace

std::unique_ptr<Backend> blurt::createCudaBackend(CudaDevice &device) {
  return std::make_unique<CudaBackend>(device);
}

std::unique_ptr<Backend> blurt::createPinnedBackend(CudaDevice &device) {
  return std::make_unique<PinnedBackend>(device);
}
