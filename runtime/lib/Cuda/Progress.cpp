//===- Progress.cpp - How far a device is, as it writes itself ------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Progress.h"
#include "Abi.h"

using namespace blurt;

CudaProgress::CudaProgress(CudaDevice &device) : device(device) {
  void *memory = nullptr;
  device.call(device.driver().MemHostAlloc, "the progress of collectives",
              &memory, sizeof(Words), cuda::kHostMapped);
  words = static_cast<Words *>(memory);
  *words = {};
}

CudaProgress::~CudaProgress() { device.driver().MemFreeHost(words); }

void CudaProgress::write(uint32_t Words::*word, uint32_t value,
                         CudaDevice::Stream stream) {
  // The device sees the host's pinned memory at the host's addresses.
  device.call(device.driver().MemsetD32Async, "the progress of collectives",
              reinterpret_cast<cuda::Address>(&(words->*word)), value,
              size_t(1), stream);
}

void CudaProgress::beginCall() {
  ++queued;
  write(&Words::at, 0, device.stream());
  write(&Words::began, queued, device.stream());
}

void CudaProgress::endCall() { write(&Words::ended, queued, device.stream()); }

DevicePosition CudaProgress::position() const {
  auto load = [](uint32_t &word) {
    return std::atomic_ref<uint32_t>(word).load(std::memory_order_relaxed);
  };
  return {queued, load(words->began), load(words->ended), load(words->at)};
}
