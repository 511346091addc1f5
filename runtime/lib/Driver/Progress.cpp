//===- Progress.cpp - Progress of a training run --------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Progress.h"
#include "blurt/File.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>
#include <utility>

using namespace blurt;

static std::string formatDuration(double seconds) {
  auto total = static_cast<long long>(std::llround(seconds));
  char text[64];
  if (total >= 3600)
    std::snprintf(text, sizeof(text), "%lldh%02lldm", total / 3600,
                  total / 60 % 60);
  else if (total >= 60)
    std::snprintf(text, sizeof(text), "%lldm%02llds", total / 60, total % 60);
  else
    std::snprintf(text, sizeof(text), "%llds", total);
  return text;
}

double blurt::knownPeak(std::string_view device, std::string_view precision) {
  // TFLOP/s without sparsity, from the vendor's data sheets.
  struct Peak {
    std::string_view part;
    double bf16, tf32, fp32;
  };
  static constexpr Peak kPeaks[] = {{"H200", 989.5, 494.7, 66.9},
                                    {"GH200", 989.5, 494.7, 66.9},
                                    {"H100 80GB HBM3", 989.5, 494.7, 66.9},
                                    {"H100 PCIe", 756.0, 378.0, 51.0},
                                    {"A100", 312.0, 156.0, 19.5}};
  for (const Peak &peak : kPeaks)
    if (device.find(peak.part) != std::string_view::npos)
      // Of fp32tc three products of 16 bits make one.
      return 1e12 * (precision == "bf16"     ? peak.bf16
                     : precision == "fp32tc" ? peak.bf16 / 3
                     : precision == "tf32"   ? peak.tf32
                     : precision == "fp32"   ? peak.fp32
                                             : 0);
  return 0;
}

Progress::Progress(int64_t steps, bool quiet, double flops, double peak,
                   std::function<uint64_t()> memory)
    : steps(steps), quiet(quiet), terminal(isatty(STDERR_FILENO)), flops(flops),
      peak(peak), memory(std::move(memory)) {}

void Progress::line(const std::string &text, bool keep) {
  if (!terminal) {
    std::fprintf(stderr, "%s\n", text.c_str());
    return;
  }
  std::string padded = text;
  if (padded.size() < width)
    padded.append(width - padded.size(), ' ');
  std::fprintf(stderr, "\r%s%s", padded.c_str(), keep ? "\n" : "");
  std::fflush(stderr);
  open = !keep;
  width = keep ? 0 : text.size();
}

void Progress::step(const StepReport &numbers) {
  if (quiet)
    return;
  int64_t step = numbers.step;
  // The first step pays for page faults and cold caches.
  if (step <= 1 || secondsPerStep == 0)
    secondsPerStep = numbers.seconds;
  else
    secondsPerStep += (numbers.seconds - secondsPerStep) * 0.1;
  auto now = Clock::now();
  bool last = step + 1 == steps;
  auto interval = terminal ? std::chrono::milliseconds(200)
                           : std::chrono::milliseconds(10'000);
  if (step > 0 && !last && now - shown < interval)
    return;
  shown = now;
  std::string all;
  auto add = [&](const char *format, auto... values) {
    char text[96];
    std::snprintf(text, sizeof(text), format, values...);
    all += text;
  };
  double speed = double(numbers.tokens) / secondsPerStep;
  add("step %lld/%lld  loss %.4f  lr %.3g", static_cast<long long>(step + 1),
      static_cast<long long>(steps), numbers.loss, numbers.rate);
  if (numbers.gradNorm)
    add("  norm %.3g", *numbers.gradNorm);
  add("  %.0f tokens/s", speed);
  if (flops > 0 && peak > 0)
    add("  MFU %.1f%%", 100 * flops * speed / peak);
  all += "  " + formatBytes(memory());
  if (!last)
    all += "  " + formatDuration(secondsPerStep * double(steps - step - 1)) +
           " left";
  line(all, /*keep=*/false);
}

void Progress::validation(int64_t step, double loss,
                          std::optional<double> accuracy) {
  if (quiet)
    return;
  char text[96];
  std::snprintf(text, sizeof(text), "step %lld  validation loss %.4f",
                static_cast<long long>(step), loss);
  std::string all = text;
  if (accuracy) {
    std::snprintf(text, sizeof(text), "  accuracy %.4f", *accuracy);
    all += text;
  }
  if (open)
    std::fputc('\n', stderr);
  line(all, /*keep=*/true);
}

void Progress::note(const std::string &text) {
  if (quiet)
    return;
  if (open)
    std::fputc('\n', stderr);
  line("note: " + text, /*keep=*/true);
}

void Progress::finish() {
  if (open)
    std::fputc('\n', stderr);
  open = false;
}
