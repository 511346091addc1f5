//===- Vocabulary.cpp - Between text and token ids ------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Vocabulary.h"
#include "blurt/Error.h"
#include "blurt/File.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace blurt;

namespace {
constexpr uint64_t kHeaderBytes = 1024;
constexpr uint32_t kMagic = 20240328, kVersion = 2;
} // namespace

void Vocabulary::index() {
  for (size_t id = 0; id < tokens.size(); ++id) {
    if (tokens[id].empty() || (end && int32_t(id) == *end))
      continue;
    ids.emplace(tokens[id], static_cast<int32_t>(id));
    longest = std::max(longest, tokens[id].size());
  }
}

Vocabulary Vocabulary::bytes(int64_t size) {
  Vocabulary vocabulary;
  for (int64_t id = 0; id < size; ++id)
    vocabulary.tokens.emplace_back(1, static_cast<char>(id));
  vocabulary.index();
  return vocabulary;
}

Vocabulary Vocabulary::fromFile(const std::string &path, int64_t size) {
  MappedFile file(path);
  if (file.size() < kHeaderBytes)
    throw badInput(path + ": expected a tokenizer file with a header of " +
                   std::to_string(kHeaderBytes) + " bytes, got " +
                   std::to_string(file.size()) + " bytes");
  uint32_t header[4];
  std::memcpy(header, file.data(), sizeof(header));
  if (header[0] != kMagic)
    throw badInput(path + ": expected a tokenizer file with magic number " +
                   std::to_string(kMagic) + ", got " +
                   std::to_string(header[0]));
  if (header[1] != kVersion)
    throw badInput(path + ": expected tokenizer file version " +
                   std::to_string(kVersion) + ", got " +
                   std::to_string(header[1]));
  if (size > 0 && header[2] != uint64_t(size))
    throw badInput(path + ": expected the " + std::to_string(size) +
                   " tokens of the model's vocabulary, got " +
                   std::to_string(header[2]));
  if (header[3] >= header[2])
    throw badInput(path + ": expected an end-of-text id below " +
                   std::to_string(header[2]) + ", got " +
                   std::to_string(header[3]));
  Vocabulary vocabulary;
  const char *at = reinterpret_cast<const char *>(file.data()) + kHeaderBytes;
  uint64_t left = file.size() - kHeaderBytes;
  for (uint32_t id = 0; id < header[2]; ++id) {
    uint64_t length = left ? static_cast<unsigned char>(*at) : 0;
    if (left < 1 + length)
      throw badInput(path + ": truncated in token " + std::to_string(id) +
                     " of " + std::to_string(header[2]));
    vocabulary.tokens.emplace_back(at + 1, length);
    at += 1 + length;
    left -= 1 + length;
  }
  if (left)
    throw badInput(path + ": " + std::to_string(left) +
                   " bytes follow the last token");
  vocabulary.end = static_cast<int32_t>(header[3]);
  vocabulary.index();
  return vocabulary;
}

std::vector<int32_t> Vocabulary::encode(std::string_view text) const {
  std::vector<int32_t> result;
  for (size_t at = 0; at < text.size();) {
    size_t length = std::min(longest, text.size() - at);
    auto found = ids.end();
    while (length > 0 &&
           (found = ids.find(text.substr(at, length))) == ids.end())
      --length;
    if (found == ids.end()) {
      char byte[8];
      std::snprintf(byte, sizeof(byte), "0x%02X",
                    static_cast<unsigned char>(text[at]));
      throw badInput("--prompt: byte " + std::to_string(at) + " (" + byte +
                     ") has no token in a vocabulary of " +
                     std::to_string(size()));
    }
    result.push_back(found->second);
    at += length;
  }
  return result;
}
