//===- Times.cpp - Where the device's time goes ---------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Abi.h"
#include "Items.h"
#include "Products.h"
#include "blurt/Error.h"
#include "blurt/File.h"
#include "blurt/Program.h"

#include <algorithm>
#include <cmath>
#include <map>

using namespace blurt;

//===----------------------------------------------------------------------===//
// Spans
//===----------------------------------------------------------------------===//

DeviceWork CudaCode::describe(int32_t item) const {
  DeviceWork work;
  if (item >= 0) {
    const blurt_device_kernel &kernel = kernelOf(item);
    work = {kernel.symbol, kernel.source, true, {}, {},
            kernel.bytes,  kernel.flops};
    std::copy_n(kernel.grid, 3, work.grid);
    std::copy_n(kernel.block, 3, work.block);
  } else if (item >= -code.num_gemms) {
    const blurt_device_gemm &g = code.gemms[-1 - item];
    work.name = productString(g);
    work.source = g.source;
    work.bytes = productBytes(g);
    work.flops = productFlops(g);
  } else if (item >= kFirstWait) {
    bool waits = item < kFirstCollective;
    const blurt_collective &c =
        table.collectives[item - (waits ? kFirstWait : kFirstCollective)];
    work.source = waits ? "runtime" : c.source;
    work.name = waits ? std::string("the wait for ") + c.source
                      : "collective of " + std::to_string(c.size) +
                            " devices along " + c.axis;
    work.isCollective = !waits;
    for (int32_t v = 0; !waits && v < c.num_values; ++v)
      work.bytes += uint64_t(c.values[v].batch * c.values[v].piece) *
                    dtypeSize(c.values[v].dtype) * uint64_t(c.size - 1);
  } else {
    work.source = "runtime";
    work.name = item == kStore      ? "the store of an index"
                : item == kCopiesIn ? "copies of inputs and scalars"
                                    : "copies of results";
  }
  return work;
}

void CudaCode::mark(int32_t item) {
  try {
    if (marked.size() + 1 >= marks.size())
      marks.push_back(device.createEvent());
    marked.push_back(item);
    device.record(marks[marked.size()]);
  } catch (const std::exception &error) {
    keep(error.what());
  }
}

void CudaCode::copied(bool in) {
  if (timing)
    mark(in ? kCopiesIn : kCopiesOut);
}

void CudaCode::collectiveBegins(int32_t number, CudaDevice::Stream stream) {
  if (!timing)
    return;
  sent.push_back({kFirstCollective + number, round, device.createEvent(),
                  device.createEvent()});
  device.record(sent.back().begin, stream);
}

void CudaCode::collectiveEnds(CudaDevice::Stream stream) {
  if (timing)
    device.record(sent.back().end, stream);
}

void CudaCode::collectiveAwaited(int32_t number) {
  if (timing)
    mark(kFirstWait + number);
}

void CudaCode::startClock() {
  marked.clear();
  round = -1;
  // Made beforehand, so that the queue does not run dry while they are made.
  constexpr size_t some = 4096;
  while (marks.size() < some)
    marks.push_back(device.createEvent());
  device.record(marks[0]);
  device.wait(marks[0]);
  clockRuns = true;
}

void CudaCode::startTimes() {
  if (!clockRuns)
    startClock();
  timing = true;
  ++round;
  mark(kPause);
}

std::vector<DeviceSpan> CudaCode::takeSpans() {
  timing = clockRuns = false;
  device.synchronize("the timed steps");
  std::vector<DeviceSpan> spans;
  double at = 0;
  round = -1;
  for (size_t i = 0; i < marked.size(); ++i) {
    double milliseconds = device.elapsed(marks[i], marks[i + 1]);
    if (marked[i] == kPause)
      ++round;
    else
      spans.push_back({marked[i], round, at, milliseconds});
    at += milliseconds;
  }
  for (const Sent &it : sent) {
    spans.push_back({it.item, it.round, device.elapsed(marks[0], it.begin),
                     device.elapsed(it.begin, it.end), /*isCollective=*/true});
    device.destroyEvent(it.begin);
    device.destroyEvent(it.end);
  }
  sent.clear();
  return spans;
}

std::vector<KernelTime>
CudaCode::sumUp(const std::vector<DeviceSpan> &spans) const {
  std::map<int32_t, KernelTime> sums;
  for (const DeviceSpan &span : spans) {
    KernelTime &sum = sums[span.item];
    ++sum.count;
    sum.milliseconds += span.milliseconds;
  }
  std::vector<KernelTime> result;
  for (auto &[item, sum] : sums) {
    sum.work = describe(item);
    result.push_back(std::move(sum));
  }
  std::sort(result.begin(), result.end(), [](auto &a, auto &b) {
    return a.milliseconds != b.milliseconds ? a.milliseconds > b.milliseconds
                                            : a.work.name < b.work.name;
  });
  return result;
}

//===----------------------------------------------------------------------===//
// Ceilings
//===----------------------------------------------------------------------===//

namespace {

constexpr int kRounds = 3, kRepeat = 10;

/// Device memory that goes back when the object does; none if there is not
/// enough.
class Temporary {
public:
  Temporary(CudaDevice &device, uint64_t bytes)
      : device(device), memory(device.driver().MemAlloc(&address, bytes) == 0) {
  }
  ~Temporary() {
    if (memory)
      device.driver().MemFree(address);
  }
  Temporary(const Temporary &) = delete;
  Temporary &operator=(const Temporary &) = delete;
  explicit operator bool() const { return memory; }
  std::byte *get() const { return reinterpret_cast<std::byte *>(address); }

private:
  CudaDevice &device;
  cuda::Address address = 0;
  bool memory;
};

/// Milliseconds of one call of `queue`, of the best round.
double best(CudaDevice &device, const std::function<void()> &queue) {
  CudaDevice::Event events[] = {device.createEvent(), device.createEvent()};
  double least = HUGE_VAL;
  queue();
  for (int round = 0; round < kRounds; ++round) {
    device.record(events[0]);
    for (int i = 0; i < kRepeat; ++i)
      queue();
    device.record(events[1]);
    device.wait(events[1]);
    least = std::min(least, device.elapsed(events[0], events[1]) / kRepeat);
  }
  for (CudaDevice::Event event : events)
    device.destroyEvent(event);
  return least;
}

std::string bestOf() {
  return ", best of " + std::to_string(kRounds) + " rounds of " +
         std::to_string(kRepeat) + " back to back";
}

} // namespace

DeviceCeilings CudaCode::measureCeilings() {
  DeviceCeilings result;
  const cuda::Driver &api = device.driver();
  // Above any cache, below what is free.
  uint64_t free = device.memoryInfo().free;
  uint64_t bytes =
      std::min<uint64_t>(uint64_t(512) << 20, free / 4) / 256 * 256;
  if (Temporary memory(device, 2 * bytes); memory && bytes) {
    auto from = reinterpret_cast<cuda::Address>(memory.get());
    fillRandom(device, memory.get(), bytes, BLURT_F32);
    double milliseconds = best(device, [&] {
      device.call(api.MemcpyAsync, "a measured copy", from + bytes, from,
                  size_t(bytes), device.stream());
    });
    if (milliseconds > 0)
      result.bytesPerSecond = 2 * double(bytes) / (milliseconds * 1e-3);
    result.copy = "copy of " + formatBytes(bytes) +
                  " on the device, read and written" + bestOf();
  }

  const blurt_device_gemm *most = nullptr;
  for (int32_t i = 0; i < code.num_gemms; ++i)
    if (!most || productFlops(code.gemms[i]) > productFlops(*most))
      most = &code.gemms[i];
  if (!most)
    return result;
  blurt_device_gemm g = {};
  g.source = "the measured product";
  g.compute = most->compute;
  g.dtype_ab = g.dtype_c = most->dtype_ab;
  g.batch = 1;
  g.align_a = g.align_b = g.align_c = 256;
  uint64_t workspace = code.workspace_bytes, each = 0;
  int64_t extent = 8192;
  for (; extent >= 64; extent /= 2) {
    each = uint64_t(extent * extent) * (g.dtype_ab == BLURT_BF16 ? 2 : 4);
    if (3 * each + workspace <= free / 2)
      break;
  }
  Temporary memory(device, 3 * each + workspace);
  if (!memory || extent < 64)
    return result;
  g.m = g.n = g.k = g.lda = g.ldb = g.ldc = extent;
  blurt_device_code one = {};
  one.num_gemms = 1;
  one.gemms = &g;
  fillRandom(device, memory.get(), 2 * each, g.dtype_ab);
  CudaProducts product(device, one, memory.get() + 3 * each, workspace);
  product.choose();
  double milliseconds = best(device, [&] {
    const char *function = nullptr;
    if (cuda::Status status =
            product.run(0, memory.get(), memory.get() + each,
                        memory.get() + 2 * each, nullptr, function))
      throw failure(product.failureText(function, status, 0));
  });
  if (milliseconds > 0)
    result.flopsPerSecond = double(productFlops(g)) / (milliseconds * 1e-3);
  result.product = "product " + productString(g) +
                   (g.compute == BLURT_COMPUTE_TF32 ? " in TF32" : "") +
                   " by the library's first algorithm" + bestOf();
  return result;
}
