//===- Vocabulary.cpp - Between text and token ids ------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Vocabulary.h"
#include "blurt/Error.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace blurt;

namespace {
constexpr uint64_t kHeaderBytes = 1024;
constexpr uint32_t kMagic = 20240328, kVersion = 2;
/// Between tokens whose places are kept.
constexpr size_t kStride = 32;
} // namespace

std::string_view Vocabulary::textAt(uint32_t place) const {
  return records.substr(place + 1, uint8_t(records[place]));
}

std::string_view Vocabulary::text(int32_t id) const {
  uint32_t place = marks[size_t(id) / kStride];
  for (size_t i = size_t(id) % kStride; i > 0; --i)
    place += 1 + uint8_t(records[place]);
  return textAt(place);
}

int32_t Vocabulary::idAt(uint32_t place) const {
  auto mark = std::prev(std::upper_bound(marks.begin(), marks.end(), place));
  auto id = int32_t(size_t(mark - marks.begin()) * kStride);
  for (uint32_t at = *mark; at < place; ++id)
    at += 1 + uint8_t(records[at]);
  return id;
}

void Vocabulary::index() {
  single.fill(-1);
  marks.reserve(size_t(count) / kStride + 1);
  // Calls `use(place, id)` for each token that stands for text.
  auto forEach = [&](auto &&use) {
    uint32_t place = 0;
    for (int32_t id = 0; id < count; ++id) {
      if (records[place] && id != end)
        use(place, id);
      place += 1 + uint8_t(records[place]);
    }
  };
  uint32_t place = 0;
  for (int64_t id = 0; id < count; ++id) {
    if (size_t(id) % kStride == 0)
      marks.push_back(place);
    place += 1 + uint8_t(records[place]);
  }
  size_t longer = 0;
  forEach([&](uint32_t at, int32_t id) {
    std::string_view text = textAt(at);
    longest = std::max(longest, text.size());
    longer += text.size() > 1;
    if (text.size() == 1 && single[uint8_t(text[0])] < 0)
      single[uint8_t(text[0])] = id;
  });
  sorted.reserve(longer);
  forEach([&](uint32_t at, int32_t) {
    if (textAt(at).size() > 1)
      sorted.push_back(at);
  });
  // Of tokens that read the same the first stands first.
  std::sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(textAt(a), a) < std::pair(textAt(b), b);
  });
}

int32_t Vocabulary::find(std::string_view text) const {
  if (text.size() == 1)
    return single[uint8_t(text[0])];
  auto found = std::lower_bound(
      sorted.begin(), sorted.end(), text,
      [&](uint32_t a, std::string_view b) { return textAt(a) < b; });
  return found == sorted.end() || textAt(*found) != text ? -1 : idAt(*found);
}

Vocabulary Vocabulary::bytes(int64_t size) {
  Vocabulary vocabulary;
  for (int64_t id = 0; id < size; ++id) {
    vocabulary.own.push_back(1);
    vocabulary.own.push_back(char(id));
  }
  vocabulary.records = {vocabulary.own.data(), vocabulary.own.size()};
  vocabulary.count = size;
  vocabulary.index();
  return vocabulary;
}

Vocabulary Vocabulary::fromFile(const std::string &path, int64_t size) {
  Vocabulary vocabulary;
  const MappedFile &file = vocabulary.file.emplace(path);
  if (file.size() > UINT32_MAX)
    throw badInput(path + ": expected a tokenizer file of less than 4 GiB");
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
  vocabulary.records = file.text().substr(kHeaderBytes);
  std::string_view left = vocabulary.records;
  for (uint32_t id = 0; id < header[2]; ++id) {
    if (left.empty() || left.size() < 1 + size_t(uint8_t(left[0])))
      throw badInput(path + ": truncated in token " + std::to_string(id) +
                     " of " + std::to_string(header[2]));
    left.remove_prefix(1 + size_t(uint8_t(left[0])));
  }
  if (!left.empty())
    throw badInput(path + ": " + std::to_string(left.size()) +
                   " bytes follow the last token");
  if (header[2] > INT32_MAX)
    throw badInput(path + ": expected at most 2147483647 tokens, got " +
                   std::to_string(header[2]));
  vocabulary.count = header[2];
  vocabulary.end = static_cast<int32_t>(header[3]);
  vocabulary.index();
  return vocabulary;
}

std::vector<int32_t> Vocabulary::encode(std::string_view text) const {
  std::vector<int32_t> result;
  for (size_t at = 0; at < text.size();) {
    size_t length = std::min(longest, text.size() - at);
    int32_t id = -1;
    while (length > 0 && (id = find(text.substr(at, length))) < 0)
      --length;
    if (id < 0) {
      char byte[8];
      std::snprintf(byte, sizeof(byte), "0x%02X",
                    static_cast<unsigned char>(text[at]));
      throw badInput("--prompt: byte " + std::to_string(at) + " (" + byte +
                     ") has no token in a vocabulary of " +
                     std::to_string(size()));
    }
    result.push_back(id);
    at += length;
  }
  return result;
}
