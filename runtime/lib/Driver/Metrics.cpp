//===- Metrics.cpp - The metrics file of a run that goes on ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Metrics.h"
#include "blurt/Error.h"
#include "blurt/File.h"
#include "blurt/Json.h"

#include <optional>
#include <string_view>
#include <sys/stat.h>

using namespace blurt;

/// The step of a line.
static std::optional<int64_t> stepOf(std::string_view line) {
  try {
    JsonReader json(line, "");
    std::optional<int64_t> step;
    if (json.kind() != JsonReader::Kind::Object)
      return std::nullopt;
    json.object([&](const JsonString &key) {
      if (key == "step")
        step = json.takeInteger();
      if (!(key == "step") || !step)
        json.skip();
    });
    json.end();
    return step;
  } catch (const Error &) {
    return std::nullopt;
  }
}

void blurt::dropMetricsFrom(const std::string &path, int64_t step) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return;
  MappedFile file(path);
  // Calls `use(line, keep)` for every whole line.
  auto forEachLine = [&](auto &&use) {
    std::string_view left = file.text();
    for (size_t number = 1;; ++number) {
      size_t newline = left.find('\n');
      if (newline == std::string_view::npos)
        return;
      std::string_view line = left.substr(0, newline + 1);
      left.remove_prefix(line.size());
      std::optional<int64_t> its = stepOf(line);
      if (!its)
        throw badInput("--metrics: " + path + ": line " +
                       std::to_string(number) +
                       ": expected an object with a step");
      use(line, *its < step);
    }
  };
  uint64_t kept = 0;
  forEachLine([&](std::string_view line, bool keep) {
    kept += keep ? line.size() : 0;
  });
  if (kept == file.size())
    return;
  AtomicFile shorter(path);
  forEachLine([&](std::string_view line, bool keep) {
    if (keep)
      shorter.write(line);
  });
  shorter.commit();
}
