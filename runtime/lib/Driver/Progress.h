//===- Progress.h - Progress of a training run ------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_DRIVER_PROGRESS_H
#define BLURT_LIB_DRIVER_PROGRESS_H

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace blurt {

/// Writes to stderr: on a terminal one line that is rewritten a few times a
/// second, elsewhere a line for the first and last steps and every ten seconds.
class Progress {
public:
  Progress(int64_t steps, bool quiet);

  void step(int64_t step, double loss, int64_t tokens, double seconds);
  void validation(int64_t step, double loss, std::optional<double> accuracy);
  void note(const std::string &text);
  /// Leaves the terminal on a fresh line.
  void finish();

private:
  using Clock = std::chrono::steady_clock;
  void line(const std::string &text, bool keep);

  int64_t steps;
  bool quiet, terminal;
  bool open = false; ///< the terminal's line is unfinished
  size_t width = 0;  ///< of the text on that line
  Clock::time_point shown;
  double secondsPerStep = 0; ///< running mean
};

} // namespace blurt

#endif // BLURT_LIB_DRIVER_PROGRESS_H
