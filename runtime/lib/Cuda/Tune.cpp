//===- Tune.cpp - Timing the library's algorithms -------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Products.h"
#include "TuneFile.h"
#include "blurt/Convert.h"
#include "blurt/Error.h"
#include "blurt/File.h"
#include "blurt/Program.h"
#include "blurt/Random.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

using namespace blurt;
using nlohmann::ordered_json;

namespace {

constexpr int kCandidates = 32;
constexpr int kRounds = 3;
/// Of a search: runs of the first measurement, and how many go on from there.
constexpr int kQuickRuns = 2;
constexpr size_t kWithClusters = 16, kFinalists = 8;
/// What is less of a gain is noise.
constexpr double kWorthwhile = 0.98;
/// Filled before the clock starts, so that the queue stays ahead.
constexpr uint64_t kSpacer = uint64_t(256) << 20;
constexpr int kSpacers = 4;
/// Operands are taken from more memory than a last-level cache holds.
constexpr uint64_t kRotated = uint64_t(256) << 20;
constexpr uint64_t kMostCopies = 8;

/// Bytes that the matrices of one operand span.
uint64_t spanBytes(int64_t rows, int64_t columns, int64_t ld, int64_t batch,
                   int64_t stride, int32_t dtype) {
  return uint64_t((batch - 1) * stride + (rows - 1) * ld + columns) *
         dtypeSize(dtype);
}

/// Device memory that goes back when the object does.
class Buffer {
public:
  Buffer(CachingAllocator &allocator, uint64_t bytes, const std::string &owner)
      : allocator(allocator), memory(allocator.allocate(bytes, owner)) {}
  ~Buffer() { allocator.deallocate(memory); }
  Buffer(const Buffer &) = delete;
  Buffer &operator=(const Buffer &) = delete;
  std::byte *get() const { return static_cast<std::byte *>(memory); }

private:
  CachingAllocator &allocator;
  void *memory;
};

class Tuner {
public:
  Tuner(const blurt_program &program, int64_t ordinal, int repeat, bool search)
      : code(*program.device), repeat(repeat), search(search),
        device(resolveDevice(ordinal), requiredCudaVersion(program)),
        backend(createCudaBackend(device)), allocator(*backend),
        workspace(allocator, code.workspace_bytes, "the workspace of products"),
        spacer(allocator, kSpacer, "the spacer between measurements"),
        products(device, code, workspace.get(), code.workspace_bytes) {
    for (CudaDevice::Event &event : events)
      event = device.createEvent();
  }
  ~Tuner() {
    for (CudaDevice::Event event : events)
      device.destroyEvent(event);
  }

  ordered_json tune(int32_t index, bool quiet) {
    const blurt_device_gemm &g = code.gemms[index];
    std::vector<cuda::Candidate> candidates =
        search ? products.tileVariants(index, kCandidates)
               : products.candidates(index, kCandidates);
    if (candidates.empty())
      products.choose(); // Throws, saying which product has none.
    Operands operands(*this, g);
    size_t tried = candidates.size();
    if (search) {
      // The shape of a cluster matters less than the tile: it is tried on the
      // fastest of them.
      keepFastest(index, operands, candidates, kWithClusters);
      size_t kept = candidates.size();
      candidates = products.clusterVariants(index, std::move(candidates));
      tried += candidates.size() - kept;
      keepFastest(index, operands, candidates, kFinalists);
    }
    std::vector<double> best(candidates.size(), HUGE_VAL);
    // Round by round, so that a drift of the clocks meets all alike.
    for (int round = 0; round < kRounds; ++round)
      for (size_t i = 0; i < candidates.size(); ++i) {
        products.setAlgorithm(index, candidates[i].algorithm);
        best[i] = std::min(best[i], time(index, operands, repeat));
      }
    size_t winner =
        size_t(std::min_element(best.begin(), best.end()) - best.begin());
    if (best[winner] > kWorthwhile * best[0])
      winner = 0;
    if (!quiet)
      std::fprintf(stderr, "%8.2f us, heuristic %8.2f us  %s  (%s)\n",
                   best[winner], best[0], productString(g).c_str(), g.source);
    ordered_json item;
    item["problem"] = productKey(g);
    item["algorithm"] = algorithmText(candidates[winner].algorithm);
    item["us"] = best[winner];
    item["heuristic_us"] = best[0];
    item["candidates"] = tried;
    return item;
  }

  const CudaDevice &gpu() const { return device; }
  const cuda::CublasLt &library() const { return products.library(); }

private:
  struct Operands {
    Operands(Tuner &tuner, const blurt_device_gemm &g)
        : bytesA(padded(g.trans_a ? spanBytes(g.k, g.m, g.lda, g.batch,
                                              g.stride_a, g.dtype_ab)
                                  : spanBytes(g.m, g.k, g.lda, g.batch,
                                              g.stride_a, g.dtype_ab))),
          bytesB(padded(g.trans_b ? spanBytes(g.n, g.k, g.ldb, g.batch,
                                              g.stride_b, g.dtype_ab)
                                  : spanBytes(g.k, g.n, g.ldb, g.batch,
                                              g.stride_b, g.dtype_ab))),
          bytesC(padded(
              spanBytes(g.m, g.n, g.ldc, g.batch, g.stride_c, g.dtype_c))),
          copies(std::clamp<uint64_t>(kRotated / (bytesA + bytesB + bytesC) + 1,
                                      2, kMostCopies)),
          a(tuner.allocator, bytesA * copies, "operand A"),
          b(tuner.allocator, bytesB * copies, "operand B"),
          c(tuner.allocator, bytesC * copies, "operand C"),
          extra(tuner.allocator, padded(uint64_t(g.n) * 4), "the bias") {
      fillRandom(tuner.device, a.get(), bytesA * copies, g.dtype_ab);
      fillRandom(tuner.device, b.get(), bytesB * copies, g.dtype_ab);
      tuner.backend->zero(c.get(), bytesC * copies);
      tuner.backend->zero(extra.get(), uint64_t(g.n) * 4);
    }
    static uint64_t padded(uint64_t bytes) { return (bytes + 511) / 512 * 512; }

    uint64_t bytesA, bytesB, bytesC, copies;
    Buffer a, b, c, extra;
  };

  /// Leaves the heuristic's first choice and the fastest others, by one short
  /// measurement of each.
  void keepFastest(int32_t index, const Operands &o,
                   std::vector<cuda::Candidate> &candidates, size_t most) {
    std::vector<std::pair<double, size_t>> order;
    for (size_t i = 1; i < candidates.size(); ++i) {
      products.setAlgorithm(index, candidates[i].algorithm);
      if (canRun(index, o))
        order.push_back({time(index, o, kQuickRuns), i});
    }
    std::sort(order.begin(), order.end());
    std::vector<cuda::Candidate> kept{candidates[0]};
    for (size_t i = 0; i < order.size() && i < most; ++i)
      kept.push_back(candidates[order[i].second]);
    candidates = std::move(kept);
  }

  /// Whether the library launches what it said that it can.
  bool canRun(int32_t index, const Operands &o) {
    const char *function = nullptr;
    return products.run(index, o.a.get(), o.b.get(), o.c.get(), o.extra.get(),
                        function) == 0;
  }

  /// Microseconds of one product, the mean over `runs`.
  double time(int32_t index, const Operands &o, int runs) {
    auto queue = [&](int count) {
      for (int i = 0; i < count; ++i) {
        uint64_t copy = uint64_t(i) % o.copies;
        const char *function = nullptr;
        if (cuda::Status status = products.run(
                index, o.a.get() + copy * o.bytesA, o.b.get() + copy * o.bytesB,
                o.c.get() + copy * o.bytesC, o.extra.get(), function))
          throw failure(products.failureText(function, status, index));
      }
    };
    queue(1);
    for (int i = 0; i < kSpacers; ++i)
      device.fill(spacer.get(), 0, kSpacer);
    device.record(events[0]);
    queue(runs);
    device.record(events[1]);
    device.wait(events[1]);
    return device.elapsed(events[0], events[1]) * 1e3 / runs;
  }

  const blurt_device_code &code;
  int repeat;
  bool search;
  CudaDevice device;
  std::unique_ptr<Backend> backend;
  CachingAllocator allocator;
  Buffer workspace, spacer;
  CudaProducts products;
  CudaDevice::Event events[2] = {};
};

} // namespace

void blurt::fillRandom(CudaDevice &device, std::byte *to, uint64_t bytes,
                       int32_t dtype) {
  constexpr size_t count = 1 << 18;
  RandomStream random(1, "tune");
  std::vector<std::byte> block(count * dtypeSize(dtype));
  for (size_t i = 0; i < count; ++i) {
    float value = float(2 * random.uniform(i) - 1);
    if (dtype == BLURT_BF16) {
      uint16_t narrow = toBf16(value);
      std::memcpy(block.data() + 2 * i, &narrow, 2);
    } else {
      std::memcpy(block.data() + 4 * i, &value, 4);
    }
  }
  for (uint64_t at = 0; at < bytes; at += block.size())
    device.write(to + at, block.data(),
                 std::min<uint64_t>(block.size(), bytes - at));
}

void blurt::tuneProducts(const blurt_program &program, int64_t ordinal,
                         int repeat, bool search, const std::string &path,
                         bool quiet) {
  ordered_json problems = ordered_json::array();
  ordered_json file;
  if (program.device->num_gemms) {
    Tuner tuner(program, ordinal, repeat, search);
    file["device"] = tuner.gpu().name();
    file["cublaslt"] = cuda::cublasLtVersionString(tuner.library().version);
    // Programs of several entries have products in common.
    std::set<ordered_json> known;
    for (int32_t i = 0; i < program.device->num_gemms; ++i)
      if (known.insert(productKey(program.device->gemms[i])).second)
        problems.push_back(tuner.tune(i, quiet));
  }
  file["plan_hash"] = program.plan_hash;
  file["problems"] = std::move(problems);
  AtomicFile output(path);
  output.write(file.dump(1) + "\n");
  output.commit();
}
