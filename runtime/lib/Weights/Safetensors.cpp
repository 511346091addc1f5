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
#include <set>
#include <string_view>

using namespace blurt;
using Json = nlohmann::json;

namespace {

constexpr uint64_t kMaxHeader = 100'000'000;

const std::pair<std::string_view, uint64_t> kDtypes[] = {
    {"F64", 8}, {"F32", 4}, {"F16", 2},     {"BF16", 2},    {"I64", 8},
    {"I32", 4}, {"I16", 2}, {"I8", 1},      {"U64", 8},     {"U32", 4},
    {"U16", 2}, {"U8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"BOOL", 1}};

/// Parses JSON and refuses an object that has a key twice, which the library
/// would silently take the last of.
Json parseUnique(const char *begin, const char *end, const std::string &where) {
  std::vector<std::set<std::string>> keys;
  auto check = [&](int depth, Json::parse_event_t event, Json &parsed) {
    if (depth > 4)
      throw badInput(where + "is nested too deeply");
    if (event == Json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == Json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == Json::parse_event_t::key &&
             !keys.back().insert(parsed.get<std::string>()).second)
      throw badInput(where + "name '" + parsed.get<std::string>() +
                     "' appears twice");
    return true;
  };
  try {
    return Json::parse(begin, end, check);
  } catch (const Json::exception &error) {
    throw badInput(where + "is not JSON: " + error.what());
  }
}

std::string shapeString(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// A JSON number that is an integer in [0, 2^63).
bool isExtent(const Json &value) {
  return value.is_number_unsigned() &&
         value.get<uint64_t>() <= uint64_t(INT64_MAX);
}

SafetensorsEntry parseEntry(const Json &value, const std::string &where) {
  if (!value.is_object())
    throw badInput(where + "expected an object, got " + value.dump());
  for (const auto &[key, unused] : value.items())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      throw badInput(where + "unknown field '" + key + "'");
  for (const char *key : {"dtype", "shape", "data_offsets"})
    if (!value.contains(key))
      throw badInput(where + "expected a field '" + key + "'");
  SafetensorsEntry entry;
  const Json &dtype = value["dtype"], &shape = value["shape"],
             &offsets = value["data_offsets"];
  if (!dtype.is_string() ||
      !safetensorsDtypeSize(dtype.get_ref<const std::string &>()))
    throw badInput(where + "unknown dtype " + dtype.dump());
  entry.dtype = dtype.get<std::string>();
  if (!shape.is_array() || !std::all_of(shape.begin(), shape.end(), isExtent))
    throw badInput(where + "expected a shape of non-negative integers, got " +
                   shape.dump());
  if (!offsets.is_array() || offsets.size() != 2 ||
      !std::all_of(offsets.begin(), offsets.end(), isExtent))
    throw badInput(where + "expected data_offsets [begin, end], got " +
                   offsets.dump());
  entry.shape = shape.get<std::vector<int64_t>>();
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  if (entry.begin > entry.end)
    throw badInput(where + "expected data_offsets in order, got " +
                   offsets.dump());
  uint64_t bytes = safetensorsDtypeSize(entry.dtype);
  for (int64_t extent : entry.shape)
    if (__builtin_mul_overflow(bytes, uint64_t(extent), &bytes))
      throw badInput(where + "shape " + shape.dump() + " is too large");
  if (entry.end - entry.begin != bytes)
    throw badInput(where + "expected " + std::to_string(bytes) + " bytes for " +
                   typeString(entry) + ", got " +
                   std::to_string(entry.end - entry.begin));
  return entry;
}

} // namespace

uint64_t blurt::safetensorsDtypeSize(const std::string &dtype) {
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
  parseHeader(header, header + headerBytes, file.size() - 8 - headerBytes);
}

void SafetensorsFile::parseHeader(const char *begin, const char *end,
                                  uint64_t bufferBytes) {
  Json header = parseUnique(begin, end, path() + ": header: ");
  std::vector<std::pair<const SafetensorsEntry *, const std::string *>> order;
  for (const auto &[name, value] : header.items()) {
    if (name != "__metadata__") {
      auto where = path() + ": tensor '" + name + "': ";
      auto placed = table.emplace(name, parseEntry(value, where)).first;
      order.emplace_back(&placed->second, &placed->first);
      continue;
    }
    if (!value.is_object())
      throw badInput(path() +
                     ": __metadata__: expected an object of strings, "
                     "got " +
                     value.dump());
    for (const auto &[key, text] : value.items()) {
      if (!text.is_string())
        throw badInput(path() + ": __metadata__: '" + key +
                       "': expected a string, got " + text.dump());
      notes.emplace(key, text.get<std::string>());
    }
  }
  std::sort(order.begin(), order.end(), [](const auto &a, const auto &b) {
    return std::pair(a.first->begin, a.first->end) <
           std::pair(b.first->begin, b.first->end);
  });
  uint64_t covered = 0;
  for (auto [entry, name] : order) {
    if (entry->begin != covered)
      throw badInput(
          path() + ": tensor '" + *name + "': expected to begin at " + "byte " +
          std::to_string(covered) + ", got " + std::to_string(entry->begin) +
          ": tensors " + (entry->begin > covered ? "leave a hole" : "overlap"));
    covered = entry->end;
  }
  if (covered != bufferBytes)
    throw badInput(
        path() + ": expected " + std::to_string(covered) +
        " bytes of tensors, got " + std::to_string(bufferBytes) +
        ": the file is " +
        (covered > bufferBytes ? "truncated" : "followed by trailing bytes"));
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
