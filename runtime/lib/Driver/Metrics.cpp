//===- Metrics.cpp - The metrics file of a run that goes on ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Metrics.h"
#include "blurt/Error.h"
#include "blurt/File.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <sys/stat.h>

using namespace blurt;

void blurt::dropMetricsFrom(const std::string &path, int64_t step) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return;
  MappedFile file(path);
  std::string_view text(reinterpret_cast<const char *>(file.data()),
                        size_t(file.size()));
  std::string kept;
  size_t number = 1;
  for (size_t at = 0, end; at < text.size(); at = end, ++number) {
    size_t newline = text.find('\n', at);
    if (newline == std::string_view::npos)
      break;
    end = newline + 1;
    std::string_view line = text.substr(at, end - at);
    auto parsed = nlohmann::json::parse(line, nullptr, /*exceptions=*/false);
    if (!parsed.is_object() || !parsed.contains("step") ||
        !parsed["step"].is_number_integer())
      throw badInput("--metrics: " + path + ": line " + std::to_string(number) +
                     ": expected an object with a step");
    if (parsed["step"].get<int64_t>() < step)
      kept += line;
  }
  if (kept.size() == text.size())
    return;
  AtomicFile shorter(path);
  shorter.write(kept);
  shorter.commit();
}
