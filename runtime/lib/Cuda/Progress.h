//===- Progress.h - How far a device is, as it writes itself ----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_CUDA_PROGRESS_H
#define BLURT_LIB_CUDA_PROGRESS_H

#include "blurt/Cuda.h"
#include "blurt/World.h"

#include <atomic>

namespace blurt {

/// Numbers in memory of the host that the device writes around each collective,
/// in the order of its stream, so that the host knows where it is when it does
/// not go on. A write is a fill of 4 bytes, which a graph holds too.
class CudaProgress {
public:
  explicit CudaProgress(CudaDevice &device);
  ~CudaProgress();
  CudaProgress(const CudaProgress &) = delete;
  CudaProgress &operator=(const CudaProgress &) = delete;

  void beginCall();
  void endCall();
  void enter(int32_t collective, CudaDevice::Stream stream) {
    write(&Words::at, uint32_t(2 * collective + 1), stream);
  }
  void leave(int32_t collective, CudaDevice::Stream stream) {
    write(&Words::at, uint32_t(2 * collective + 2), stream);
  }
  /// Any thread may ask.
  DevicePosition position() const;

private:
  struct Words {
    uint32_t began, ended, at;
  };
  void write(uint32_t Words::*word, uint32_t value, CudaDevice::Stream stream);

  CudaDevice &device;
  Words *words = nullptr;
  std::atomic<uint32_t> queued{0};
};

} // namespace blurt

#endif // BLURT_LIB_CUDA_PROGRESS_H
