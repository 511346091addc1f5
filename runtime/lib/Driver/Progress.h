//===- Progress.h - Progress of a training run ------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_DRIVER_PROGRESS_H
#define BLURT_LIB_DRIVER_PROGRESS_H

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace blurt {

/// What a step came to.
struct StepReport {
  int64_t step;
  double loss, rate;
  std::optional<double> gradNorm;
  int64_t tokens; ///< that it trained on
  double seconds;
};

/// Floating-point operations a second that a device is sold with, for dense
/// products in `precision`; 0 if it is not one that is known here.
double knownPeak(std::string_view device, std::string_view precision);

/// Writes to stderr: on a terminal one line that is rewritten a few times a
/// second, elsewhere a line for the first and last steps and every ten seconds.
class Progress {
public:
  /// `flops` are those of a token and `peak` the device's in a second: what is
  /// 0 is not known, and no utilisation is shown. `memory` says how many bytes
  /// are in use.
  Progress(int64_t steps, bool quiet, double flops, double peak,
           std::function<uint64_t()> memory);

  void step(const StepReport &numbers);
  void validation(int64_t step, double loss, std::optional<double> accuracy);
  void note(const std::string &text);
  /// Leaves the terminal on a fresh line.
  void finish();

private:
  using Clock = std::chrono::steady_clock;
  void line(const std::string &text, bool keep);

  int64_t steps;
  bool quiet, terminal;
  double flops, peak;
  std::function<uint64_t()> memory;
  bool open = false; ///< the terminal's line is unfinished
  size_t width = 0;  ///< of the text on that line
  Clock::time_point shown;
  double secondsPerStep = 0; ///< running mean
};

} // namespace blurt

#endif // BLURT_LIB_DRIVER_PROGRESS_H
