//===- Schedule.h - Learning rate by step -----------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_SCHEDULE_H
#define BLURT_SCHEDULE_H

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace blurt {

enum class ScheduleKind { Constant, Linear, Cosine };

inline const char *scheduleName(ScheduleKind kind) {
  return kind == ScheduleKind::Constant ? "constant"
         : kind == ScheduleKind::Linear ? "linear"
                                        : "cosine";
}

/// Warms up linearly over `warmup` steps, the first of which has 1/warmup of
/// the peak; then stays, or falls to `least` at step `steps` on a line or half
/// a cosine.
struct Schedule {
  ScheduleKind kind = ScheduleKind::Constant;
  double peak = 0, least = 0;
  int64_t warmup = 0, steps = 0;

  /// The rate of `step`, counted from 0.
  double rate(int64_t step) const {
    if (step < warmup)
      return peak * double(step + 1) / double(warmup);
    if (kind == ScheduleKind::Constant)
      return peak;
    double progress =
        std::min(1.0, double(step - warmup) /
                          double(std::max<int64_t>(steps - warmup, 1)));
    double share =
        kind == ScheduleKind::Linear
            ? 1 - progress
            : 0.5 * (1 + std::cos(3.14159265358979323846 * progress));
    return least + share * (peak - least);
  }
};

} // namespace blurt

#endif // BLURT_SCHEDULE_H
