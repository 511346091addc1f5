//===- HellaSwag.cpp - Questions with four endings ------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/HellaSwag.h"
#include "blurt/Error.h"

#include <algorithm>
#include <cstring>

using namespace blurt;

static constexpr uint64_t kHeaderBytes = 1024;
static constexpr int32_t kMagic = 20240522, kVersion = 1;
static constexpr unsigned kStart = 65535;
/// Five of a header, and five times a length and a token.
static constexpr uint64_t kLeastWords = 15;

uint16_t HellaSwagFile::word(uint64_t index) const {
  uint16_t value;
  std::memcpy(&value, file.data() + kHeaderBytes + 2 * index, 2);
  return value;
}

HellaSwagFile::HellaSwagFile(const std::string &path, int64_t vocab)
    : file(path) {
  auto header = [&](unsigned i) {
    int32_t value;
    std::memcpy(&value, file.data() + 4 * i, 4);
    return value;
  };
  if (file.size() < kHeaderBytes || header(0) != kMagic)
    throw badInput(path + ": expected a HellaSwag file with magic number " +
                   std::to_string(kMagic) +
                   (file.size() < 4
                        ? ", got " + std::to_string(file.size()) + " bytes"
                        : ", got " + std::to_string(header(0))));
  if (header(1) != kVersion)
    throw badInput(path + ": expected HellaSwag file version " +
                   std::to_string(kVersion) + ", got " +
                   std::to_string(header(1)));
  if (header(2) < 1)
    throw badInput(path + ": expected at least one example, got " +
                   std::to_string(header(2)));
  uint64_t words = (file.size() - kHeaderBytes) / 2, at = 0;
  if (words > UINT32_MAX)
    throw badInput(path + ": expected less than 8 GiB, got " +
                   formatBytes(file.size()));
  // What the header says counts for no more than the file has room for.
  begins.reserve(std::min(uint64_t(header(2)), words / kLeastWords));
  for (int32_t i = 0; i < header(2); ++i) {
    const std::string where = path + ": example " + std::to_string(i) + ": ";
    uint64_t begin = at;
    auto next = [&]() -> unsigned {
      if (at >= words)
        throw badInput(where + "the file is truncated");
      return word(at++);
    };
    auto expect = [&](const char *what, uint64_t expected, uint64_t got) {
      if (got != expected)
        throw badInput(where + "expected " + what + " " +
                       std::to_string(expected) + ", got " +
                       std::to_string(got));
    };
    auto tokens = [&](const std::string &what) {
      unsigned count = next();
      if (count == 0)
        throw badInput(where + what + " has no tokens");
      for (unsigned k = 0; k < count; ++k)
        if (unsigned id = next(); vocab > 0 && id >= vocab)
          throw badInput(where + "expected an id below the vocabulary size " +
                         std::to_string(vocab) + ", got " + std::to_string(id));
    };
    expect("the start", kStart, next());
    unsigned bytes = next();
    next(); // its number in the original
    if (unsigned label = next(); label >= kEndings)
      throw badInput(where + "expected a label below " +
                     std::to_string(kEndings) + ", got " +
                     std::to_string(label));
    expect("as many endings as", kEndings, next());
    tokens("the context");
    for (size_t k = 0; k < kEndings; ++k)
      tokens("ending " + std::to_string(k));
    expect("a length in bytes of", 2 * (at - begin), bytes);
    begins.push_back(uint32_t(begin));
  }
  if (kHeaderBytes + 2 * at != file.size())
    throw badInput(path + ": expected " +
                   std::to_string(kHeaderBytes + 2 * at) + " bytes for the " +
                   std::to_string(header(2)) + " examples of the header, got " +
                   std::to_string(file.size()) + ": the file is too long");
}

HellaSwagFile::Example HellaSwagFile::example(uint64_t index) const {
  uint64_t at = begins[index] + 3;
  auto tokens = [&] {
    Tokens t{at + 1, word(at)};
    at = t.first + t.count;
    return t;
  };
  Example example{word(at), {}, {}};
  at += 2;
  example.context = tokens();
  for (Tokens &ending : example.endings)
    ending = tokens();
  return example;
}
