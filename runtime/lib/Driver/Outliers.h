//===- Outliers.h - Limits from the steps before ----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_DRIVER_OUTLIERS_H
#define BLURT_LIB_DRIVER_OUTLIERS_H

#include "blurt/Checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace blurt {

/// Where a loss or a gradient norm becomes an outlier: `z` standard deviations
/// above the mean of the last `window` steps with finite numbers. The limits of
/// step s come from steps up to s-2, since a device may still be busy with s-1
/// when s is queued; so they are the same on every target.
class OutlierLimits {
public:
  /// Without limits if `z` is 0.
  OutlierLimits(double z, int64_t window) : z(z), window(size_t(window)) {}

  struct Limits {
    double loss = std::numeric_limits<double>::infinity();
    double norm = std::numeric_limits<double>::infinity();
  };

  /// What a step gave, in the order of steps.
  void add(int64_t step, double loss, double norm) {
    if (z == 0 || !std::isfinite(loss) || !std::isfinite(norm))
      return;
    seen.push_back({step, loss, norm});
    // One more, which the next step does not look at yet.
    if (seen.size() > window + 1)
      seen.erase(seen.begin());
  }

  /// Without limits until the window is full.
  Limits before(int64_t step) const {
    size_t count = seen.size();
    while (count > 0 && seen[count - 1].step > step - 2)
      --count;
    if (z == 0 || count < window)
      return {};
    return {limit(count, &StepNumbers::loss), limit(count, &StepNumbers::norm)};
  }

  const std::vector<StepNumbers> &history() const { return seen; }
  void restore(const std::vector<StepNumbers> &history) {
    for (const StepNumbers &n : history)
      add(n.step, n.loss, n.norm);
  }

private:
  /// From the `window` steps before the `end`-th.
  double limit(size_t end, double StepNumbers::*number) const {
    double sum = 0, squares = 0;
    for (size_t i = end - window; i < end; ++i)
      sum += seen[i].*number;
    double mean = sum / double(window);
    for (size_t i = end - window; i < end; ++i)
      squares += (seen[i].*number - mean) * (seen[i].*number - mean);
    double deviation = std::sqrt(squares / double(window));
    return deviation > 0 ? mean + z * deviation
                         : std::numeric_limits<double>::infinity();
  }

  double z;
  size_t window;
  std::vector<StepNumbers> seen;
};

} // namespace blurt

#endif // BLURT_LIB_DRIVER_OUTLIERS_H
