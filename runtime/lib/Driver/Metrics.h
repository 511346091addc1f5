//===- Metrics.h - The metrics file of a run that goes on -------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_DRIVER_METRICS_H
#define BLURT_LIB_DRIVER_METRICS_H

#include <cstdint>
#include <string>

namespace blurt {

/// Drops the lines of `step` and later from a metrics file, and a last line
/// that was cut short. What is no regular file is left alone. Throws Error (bad
/// input), naming the line, if one is not a metrics line.
void dropMetricsFrom(const std::string &path, int64_t step);

} // namespace blurt

#endif // BLURT_LIB_DRIVER_METRICS_H
