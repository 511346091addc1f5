//===- Profile.h - Traces and tables of the device's time -------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_DRIVER_PROFILE_H
#define BLURT_LIB_DRIVER_PROFILE_H

#include "blurt/Session.h"

#include <chrono>
#include <string>
#include <vector>

namespace blurt {

/// What the host and the device did in some consecutive steps.
class Profile {
public:
  using Clock = std::chrono::steady_clock;

  /// Times steps [first, first + count).
  Profile(Session &session, int64_t first, int64_t count)
      : session(session), first(first), count(count) {}

  /// Around the queueing of each step, timed or not.
  void before(int64_t step);
  void after(int64_t step);
  /// Records a span of the host if the clock runs.
  void host(const char *name, int64_t step, Clock::time_point from);
  /// A step's time, when it is known.
  void took(int64_t step, double seconds);

  /// Prints the time by kernel against what the device reaches.
  void print();
  /// Writes the trace events as JSON.
  void write(const std::string &path, const blurt_program &program) const;

private:
  struct HostSpan {
    const char *name;
    int64_t step;
    double start, milliseconds;
  };
  bool timed(int64_t step) const {
    return step >= first && step < first + count;
  }

  Session &session;
  int64_t first, count;
  bool running = false;
  Clock::time_point zero;
  std::vector<HostSpan> hostSpans;
  std::vector<DeviceSpan> spans, collectives;
  DeviceCeilings ceilings;
  int64_t usualStep = -1; ///< a late one before those that are timed
  double usualSeconds = 0;
};

} // namespace blurt

#endif // BLURT_LIB_DRIVER_PROFILE_H
