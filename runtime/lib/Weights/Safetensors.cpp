//===- Safetensors.cpp - Weight files -------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Safetensors.h"
#include "blurt/Error.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

using namespace blurt;

namespace {

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kMostDims = 64;
constexpr std::string_view kMetadata = "__metadata__";

const std::pair<std::string_view, uint64_t> kDtypes[] = {
    {"F64", 8}, {"F32", 4}, {"F16", 2},     {"BF16", 2},    {"I64", 8},
    {"I32", 4}, {"I16", 2}, {"I8", 1},      {"U64", 8},     {"U32", 4},
    {"U16", 2}, {"U8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1}};

std::string shapeString(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

void readShape(JsonReader &json, std::vector<int64_t> &shape) {
  JsonReader whole = json;
  auto refuse = [&] { whole.expected("a shape of non-negative integers"); };
  if (json.kind() != JsonReader::Kind::Array)
    refuse();
  json.array([&] {
    std::optional<int64_t> extent = json.takeInteger(0);
    if (!extent)
      refuse();
    if (shape.size() == kMostDims)
      throw badInput(json.where + "expected at most " +
                     std::to_string(kMostDims) + " dims");
    shape.push_back(*extent);
  });
}

void readOffsets(JsonReader &json, SafetensorsEntry &entry) {
  JsonReader whole = json;
  auto refuse = [&] { whole.expected("data_offsets [begin, end]"); };
  if (json.kind() != JsonReader::Kind::Array)
    refuse();
  uint64_t offsets[2];
  size_t count = 0;
  json.array([&] {
    std::optional<int64_t> offset = json.takeInteger(0);
    if (!offset || count == 2)
      refuse();
    offsets[count++] = uint64_t(*offset);
  });
  if (count != 2)
    refuse();
  entry.begin = offsets[0], entry.end = offsets[1];
  if (entry.begin > entry.end)
    whole.expected("data_offsets in order");
}

/// Reads a tensor's record, which checks it too.
SafetensorsEntry readEntry(JsonReader &json) {
  SafetensorsEntry entry;
  bool hasDtype = false, hasShape = false, hasOffsets = false;
  JsonReader shape = json;
  auto once = [&](bool &seen, std::string_view key) {
    if (std::exchange(seen, true))
      throw badInput(json.where + "name '" + std::string(key) +
                     "' appears twice");
  };
  json.object([&](const JsonString &key) {
    if (key == "dtype") {
      once(hasDtype, "dtype");
      JsonReader value = json;
      if (json.kind() == JsonReader::Kind::String)
        entry.dtype = json.string().str();
      if (!safetensorsDtypeSize(entry.dtype))
        throw badInput(json.where + "unknown dtype " + value.excerpt());
    } else if (key == "shape") {
      once(hasShape, "shape");
      shape = json;
      readShape(json, entry.shape);
    } else if (key == "data_offsets") {
      once(hasOffsets, "data_offsets");
      readOffsets(json, entry);
    } else {
      throw badInput(json.where + "unknown field '" + key.str() + "'");
    }
  });
  for (auto [has, key] : {std::pair(hasDtype, "dtype"),
                          {hasShape, "shape"},
                          {hasOffsets, "data_offsets"}})
    if (!has)
      throw badInput(json.where + "expected a field '" + key + "'");
  uint64_t bytes = safetensorsDtypeSize(entry.dtype);
  for (int64_t extent : entry.shape)
    if (__builtin_mul_overflow(bytes, uint64_t(extent), &bytes))
      throw badInput(json.where + "shape " + shape.excerpt() + " is too large");
  if (entry.end - entry.begin != bytes)
    throw badInput(json.where + "expected " + std::to_string(bytes) +
                   " bytes for " + typeString(entry) + ", got " +
                   std::to_string(entry.end - entry.begin));
  return entry;
}

/// Strings by names that differ.
void readMetadata(JsonReader &json) {
  if (json.kind() != JsonReader::Kind::Object)
    json.expected("an object of strings");
  JsonTable(json, [&](const JsonString &key) {
    if (json.kind() != JsonReader::Kind::String) {
      json.where += "'" + key.str() + "': ";
      json.expected("a string");
    }
    json.string();
  });
}

} // namespace

uint64_t blurt::safetensorsDtypeSize(std::string_view dtype) {
  for (auto [name, size] : kDtypes)
    if (name == dtype)
      return size;
  return 0;
}

std::string blurt::typeString(const SafetensorsEntry &entry) {
  return entry.dtype + shapeString(entry.shape);
}

SafetensorsFile::SafetensorsFile(const std::string &path) : file(path) {
  if (file.size() < 8)
    throw badInput(path + ": expected a safetensors file, got " +
                   std::to_string(file.size()) + " bytes");
  uint64_t headerBytes;
  std::memcpy(&headerBytes, file.data(), 8);
  if (headerBytes > kMaxHeader)
    throw badInput(path + ": expected a safetensors header of at most " +
                   std::to_string(kMaxHeader) + " bytes, got " +
                   std::to_string(headerBytes));
  if (headerBytes > file.size() - 8)
    throw badInput(path + ": expected " + std::to_string(headerBytes) +
                   " bytes of header, got " + std::to_string(file.size() - 8) +
                   ": the file is truncated");
  const char *header = reinterpret_cast<const char *>(file.data()) + 8;
  if (headerBytes == 0 || *header != '{')
    throw badInput(path + ": expected a safetensors header that starts with "
                          "'{'");
  tensors = file.data() + 8 + headerBytes;
  readHeader({header, size_t(headerBytes)}, file.size() - 8 - headerBytes);
}

void SafetensorsFile::readHeader(std::string_view header,
                                 uint64_t bufferBytes) {
  const std::string where = path() + ": header: ";
  JsonReader json(header, where);
  table = JsonTable(json, [&](const JsonString &name) {
    if (name == kMetadata) {
      json.where = path() + ": __metadata__: ";
      readMetadata(json);
    } else {
      json.where = path() + ": tensor '" + name.str() + "': ";
      readEntry(json);
      ++tensorCount;
    }
    json.where = where;
  });
  json.end();
  struct Range {
    uint64_t begin, end;
    size_t index;
  };
  std::vector<Range> order;
  order.reserve(size());
  for (size_t i = 0; i < table.size(); ++i)
    if (!(table.key(i) == kMetadata)) {
      JsonReader value = table.value(i);
      SafetensorsEntry entry = readEntry(value);
      order.push_back({entry.begin, entry.end, i});
    }
  std::sort(order.begin(), order.end(), [](const Range &a, const Range &b) {
    return std::tie(a.begin, a.end, a.index) <
           std::tie(b.begin, b.end, b.index);
  });
  uint64_t covered = 0;
  for (const Range &range : order) {
    if (range.begin != covered)
      throw badInput(path() + ": tensor '" + table.key(range.index).str() +
                     "': expected to begin at byte " + std::to_string(covered) +
                     ", got " + std::to_string(range.begin) + ": tensors " +
                     (range.begin > covered ? "leave a hole" : "overlap"));
    covered = range.end;
  }
  if (covered != bufferBytes)
    throw badInput(
        path() + ": expected " + std::to_string(covered) +
        " bytes of tensors, got " + std::to_string(bufferBytes) +
        ": the file is " +
        (covered > bufferBytes ? "truncated" : "followed by trailing bytes"));
}

std::optional<SafetensorsEntry>
SafetensorsFile::find(std::string_view name) const {
  if (name == kMetadata)
    return std::nullopt;
  std::optional<JsonReader> value = table.find(name);
  if (!value)
    return std::nullopt;
  return readEntry(*value);
}

std::optional<std::string>
SafetensorsFile::metadata(std::string_view key) const {
  std::optional<JsonReader> all = table.find(kMetadata);
  std::optional<std::string> found;
  if (all)
    all->object([&](const JsonString &name) {
      JsonString text = all->string();
      if (name == key)
        found = text.str();
    });
  return found;
}

void blurt::writeSafetensors(const std::string &path,
                             const std::vector<SafetensorsOutput> &outputs,
                             const SafetensorsMetadata &metadata) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) {
    header["__metadata__"] = nlohmann::ordered_json::object();
    for (const auto &[key, value] : metadata)
      header["__metadata__"][key] = value;
  }
  uint64_t offset = 0;
  for (const SafetensorsOutput &output : outputs) {
    uint64_t bytes = safetensorsDtypeSize(output.dtype);
    for (int64_t extent : output.shape)
      bytes *= uint64_t(extent);
    if (header.contains(output.name))
      throw failure(path + ": tensor '" + output.name + "' is written twice");
    header[output.name] = {{"dtype", output.dtype},
                           {"shape", output.shape},
                           {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  // Aligns the tensors to 8 bytes in the file.
  text.append((8 - text.size() % 8) % 8, ' ');
  uint64_t headerBytes = text.size();
  AtomicFile file(path);
  file.write(&headerBytes, sizeof(headerBytes));
  file.write(text);
  for (const SafetensorsOutput &output : outputs)
    output.produce(file);
  file.commit();
}
