//===- Packing.cpp - offsets for buffers with known lifetimes -------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Analysis/Packing.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

using namespace blutrain;
using llvm::ArrayRef;
using llvm::SmallVector;

namespace {

/// A permutation of the requests: the order in which they are placed.
using Order = SmallVector<unsigned>;

enum class Fit { Lowest, Tightest };

struct Candidate {
  Order order;
  Fit fit = Fit::Lowest;
  SmallVector<int64_t> offsets;
  int64_t peak = std::numeric_limits<int64_t>::max();
};

/// xorshift64*: small, and the same everywhere.
class Random {
public:
  explicit Random(uint64_t seed)
      : state(seed * 2654435761u + 88172645463325252u) {}
  uint64_t next() {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 2685821657736338717u;
  }
  unsigned below(size_t bound) {
    return static_cast<unsigned>((next() >> 33) % bound);
  }

private:
  uint64_t state;
};

class Packer {
public:
  Packer(ArrayRef<PackingRequest> requests, const PackingOptions &options)
      : options(options), requests(requests.begin(), requests.end()) {
    for (PackingRequest &request : this->requests)
      request.bytes = static_cast<int64_t>(
          llvm::alignTo(static_cast<uint64_t>(request.bytes),
                        static_cast<uint64_t>(options.alignment)));
  }

  PackingResult run();

private:
  /// Places the requests one by one, each in a gap between those already placed
  /// that are live at the same time.
  void place(Candidate &candidate) const;

  /// Greedy orders. Each is good at one kind of pattern: long-lived first packs
  /// the nested lifetimes of forward and backward perfectly, large first leaves
  /// the small ones to fill gaps, and the peak's population first keeps the
  /// critical moment dense.
  SmallVector<Candidate> greedy() const;

  void improve(Candidate &best, int64_t lowerBound) const;

  /// A time at which most bytes are live.
  int64_t peakTime() const;

  const PackingOptions options;
  SmallVector<PackingRequest> requests;
};

} // namespace

/// Calls `visit(time, live bytes)` at every begin, in ascending time.
static void sweep(ArrayRef<PackingRequest> requests,
                  llvm::function_ref<void(int64_t, int64_t)> visit) {
  // Ends sort after begins of the same time: intervals are closed.
  SmallVector<std::tuple<int64_t, int, int64_t>> events;
  events.reserve(2 * requests.size());
  for (const PackingRequest &request : requests) {
    events.emplace_back(request.begin, 0, request.bytes);
    events.emplace_back(request.end, 1, -request.bytes);
  }
  llvm::sort(events);
  int64_t live = 0;
  for (auto [time, isEnd, delta] : events) {
    live += delta;
    if (!isEnd)
      visit(time, live);
  }
}

int64_t blutrain::packingLowerBound(ArrayRef<PackingRequest> requests,
                                    int64_t alignment) {
  SmallVector<PackingRequest> rounded(requests.begin(), requests.end());
  for (PackingRequest &request : rounded)
    request.bytes =
        static_cast<int64_t>(llvm::alignTo(static_cast<uint64_t>(request.bytes),
                                           static_cast<uint64_t>(alignment)));
  int64_t bound = 0;
  sweep(rounded, [&](int64_t, int64_t live) { bound = std::max(bound, live); });
  return bound;
}

int64_t Packer::peakTime() const {
  int64_t most = -1, when = 0;
  sweep(requests, [&](int64_t time, int64_t live) {
    if (live > most) {
      most = live;
      when = time;
    }
  });
  return when;
}

void Packer::place(Candidate &candidate) const {
  candidate.offsets.assign(requests.size(), 0);
  candidate.peak = 0;
  // Already placed, by ascending offset.
  struct Placed {
    int64_t offset, top, begin, end;
  };
  std::vector<Placed> placed;
  placed.reserve(requests.size());
  for (unsigned index : candidate.order) {
    const PackingRequest &request = requests[index];
    int64_t offset = -1, gap = std::numeric_limits<int64_t>::max(), free = 0;
    for (const Placed &other : placed) {
      if (other.end < request.begin || other.begin > request.end)
        continue;
      int64_t space = other.offset - free;
      if (space >= request.bytes && space < gap) {
        offset = free;
        gap = space;
        if (candidate.fit == Fit::Lowest)
          break;
      }
      free = std::max(free, other.top);
    }
    if (offset < 0)
      offset = free;
    candidate.offsets[index] = offset;
    candidate.peak = std::max(candidate.peak, offset + request.bytes);
    auto position = llvm::upper_bound(placed, offset,
                                      [](int64_t value, const Placed &other) {
                                        return value < other.offset;
                                      });
    placed.insert(position,
                  {offset, offset + request.bytes, request.begin, request.end});
  }
}

SmallVector<Candidate> Packer::greedy() const {
  auto length = [&](unsigned i) { return requests[i].end - requests[i].begin; };
  auto area = [&](unsigned i) {
    return static_cast<double>(requests[i].bytes) *
           static_cast<double>(length(i) + 1);
  };
  int64_t critical = peakTime();
  auto atPeak = [&](unsigned i) {
    return requests[i].begin <= critical && critical <= requests[i].end;
  };
  using Less = std::function<bool(unsigned, unsigned)>;
  const Less bySize = [&](unsigned a, unsigned b) {
    return std::make_pair(requests[a].bytes, length(a)) >
           std::make_pair(requests[b].bytes, length(b));
  };
  const Less byLength = [&](unsigned a, unsigned b) {
    return std::make_pair(length(a), requests[a].bytes) >
           std::make_pair(length(b), requests[b].bytes);
  };
  const Less byArea = [&](unsigned a, unsigned b) { return area(a) > area(b); };
  const Less byBegin = [&](unsigned a, unsigned b) {
    return requests[a].begin < requests[b].begin;
  };
  const Less byPeakThenLength = [&](unsigned a, unsigned b) {
    return atPeak(a) != atPeak(b) ? atPeak(a) : byLength(a, b);
  };
  const Less byPeakThenSize = [&](unsigned a, unsigned b) {
    return atPeak(a) != atPeak(b) ? atPeak(a) : bySize(a, b);
  };
  SmallVector<Candidate> candidates;
  for (const Less &less :
       {byLength, bySize, byArea, byPeakThenLength, byPeakThenSize, byBegin})
    for (Fit fit : {Fit::Lowest, Fit::Tightest}) {
      Candidate candidate;
      candidate.fit = fit;
      candidate.order.resize(requests.size());
      std::iota(candidate.order.begin(), candidate.order.end(), 0u);
      llvm::sort(candidate.order, [&](unsigned a, unsigned b) {
        if (less(a, b))
          return true;
        return !less(b, a) && a < b;
      });
      candidates.push_back(std::move(candidate));
    }
  return candidates;
}

void Packer::improve(Candidate &best, int64_t lowerBound) const {
  const size_t count = requests.size();
  if (count < 2)
    return;
  // One placement compares each request with all placed before it.
  const int64_t cost =
      std::max<int64_t>(1, static_cast<int64_t>(count * count / 2));
  Random random(options.seed);
  Candidate current = best;
  for (int64_t work = 0;
       work + cost <= options.searchBudget && best.peak > lowerBound;
       work += cost) {
    Candidate next;
    next.order = current.order;
    next.fit = current.fit;
    // Move one of the buffers that reach the peak to an earlier place; now and
    // then swap two at random.
    if (random.below(4) != 0) {
      SmallVector<unsigned> positions;
      for (auto [position, index] : llvm::enumerate(next.order))
        if (position > 0 &&
            current.offsets[index] + requests[index].bytes == current.peak)
          positions.push_back(static_cast<unsigned>(position));
      if (positions.empty())
        positions.push_back(1 + random.below(count - 1));
      unsigned from = positions[random.below(positions.size())];
      unsigned to = random.below(from);
      std::rotate(next.order.begin() + to, next.order.begin() + from,
                  next.order.begin() + from + 1);
    } else {
      std::swap(next.order[random.below(count)],
                next.order[random.below(count)]);
    }
    place(next);
    if (next.peak <= current.peak)
      current = std::move(next);
    if (current.peak < best.peak)
      best = current;
  }
}

PackingResult Packer::run() {
  PackingResult result;
  result.lowerBound = packingLowerBound(requests, options.alignment);
  Candidate best;
  for (Candidate &candidate : greedy()) {
    place(candidate);
    if (candidate.peak < best.peak)
      best = std::move(candidate);
    if (best.peak == result.lowerBound)
      break;
  }
  if (best.peak > result.lowerBound)
    improve(best, result.lowerBound);
  result.offsets = std::move(best.offsets);
  result.peak = best.peak;
  return result;
}

PackingResult blutrain::packBuffers(ArrayRef<PackingRequest> requests,
                                    const PackingOptions &options) {
  if (requests.empty())
    return {};
  return Packer(requests, options).run();
}
