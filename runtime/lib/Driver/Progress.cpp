//===- Progress.cpp - Progress of a training run --------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Progress.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unistd.h>

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

Progress::Progress(int64_t steps, bool quiet)
    : steps(steps), quiet(quiet), terminal(isatty(STDERR_FILENO)) {}

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

void Progress::step(int64_t step, double loss, int64_t tokens, double seconds) {
  if (quiet)
    return;
  // The first step pays for page faults and cold caches.
  if (step <= 1)
    secondsPerStep = seconds;
  else
    secondsPerStep += (seconds - secondsPerStep) * 0.1;
  auto now = Clock::now();
  bool last = step + 1 == steps;
  auto interval = terminal ? std::chrono::milliseconds(200)
                           : std::chrono::milliseconds(10'000);
  if (step > 0 && !last && now - shown < interval)
    return;
  shown = now;
  char text[192];
  std::snprintf(text, sizeof(text), "step %lld/%lld  loss %.4f  %.0f tokens/s",
                static_cast<long long>(step + 1), static_cast<long long>(steps),
                loss, double(tokens) / secondsPerStep);
  std::string all = text;
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
