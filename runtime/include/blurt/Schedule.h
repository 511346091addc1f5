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

enum class ScheduleKind { Constant, Linear, Cosine, WarmupStableDecay };

inline const char *scheduleName(ScheduleKind kind) {
  return kind == ScheduleKind::Constant ? "constant"
         : kind == ScheduleKind::Linear ? "linear"
         : kind == ScheduleKind::Cosine ? "cosine"
                                        : "wsd";
}

/// Warms up linearly over `warmup` steps, the first of which has 1/warmup of
/// the peak; then stays, or falls to `least` at step `steps`: on a line, on
/// half a cosine, or, after it has stayed, on a line over the last `decay`
/// steps.
struct Schedule {
  ScheduleKind kind = ScheduleKind::Constant;
  double peak = 0, least = 0;
  int64_t warmup = 0, decay = 0, steps = 0;

  /// The rate of `step`, counted from 0.
  double rate(int64_t step) const {
    if (step < warmup)
      return peak * double(step + 1) / double(warmup);
    if (kind == ScheduleKind::Constant)
      return peak;
    int64_t start =
        kind == ScheduleKind::WarmupStableDecay ? steps - decay : warmup;
    double progress = std::clamp(
        double(step - start) / double(std::max<int64_t>(steps - start, 1)), 0.0,
        1.0);
    double share = kind == ScheduleKind::Cosine
                       ? 0.5 * (1 + std::cos(3.14159265358979323846 * progress))
                       : 1 - progress;
    return least + share * (peak - least);
  }
};

} // namespace blurt

#endif // BLURT_SCHEDULE_H
