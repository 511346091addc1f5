//===- TuneFile.cpp - Algorithms of products in a file --------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "TuneFile.h"
#include "blurt/Error.h"
#include "blurt/Program.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

using namespace blurt;
using Kind = JsonReader::Kind;

namespace {

constexpr size_t kWords = std::size(cuda::Algorithm().words);

const char *computeName(int32_t compute) {
  switch (compute) {
  case BLURT_COMPUTE_F32:
    return "f32";
  case BLURT_COMPUTE_TF32:
    return "tf32";
  default:
    return "bf16";
  }
}

std::optional<cuda::Algorithm> parseAlgorithm(std::string_view text) {
  cuda::Algorithm algorithm;
  if (text.size() != 16 * kWords)
    return std::nullopt;
  for (size_t i = 0; i < kWords; ++i) {
    const char *begin = text.data() + 16 * i;
    auto [end, error] =
        std::from_chars(begin, begin + 16, algorithm.words[i], 16);
    if (error != std::errc() || end != begin + 16)
      return std::nullopt;
  }
  return algorithm;
}

/// Whether the value that comes next is that of a key.
bool reads(JsonReader value, const nlohmann::ordered_json &as) {
  switch (value.kind()) {
  case Kind::String:
    return as.is_string() &&
           value.string() == as.get_ref<const std::string &>();
  case Kind::Bool:
    return as.is_boolean() && value.boolean() == as.get<bool>();
  case Kind::Number:
    return as.is_number() && value.takeInteger() == as.get<int64_t>();
  default:
    return false;
  }
}

/// Reads an item of the list, and returns its algorithm if its problem is
/// `wanted`.
std::optional<cuda::Algorithm> readItem(JsonReader &json,
                                        const nlohmann::ordered_json *wanted) {
  std::optional<cuda::Algorithm> algorithm;
  size_t same = 0, all = 0;
  json.object([&](const JsonString &key) {
    if (key == "algorithm") {
      if (json.kind() == Kind::String)
        algorithm = parseAlgorithm(json.string().raw);
      if (!algorithm)
        throw badInput(json.where + "expected an algorithm of " +
                       std::to_string(16 * kWords) + " hexadecimal digits");
    } else if (key == "problem") {
      json.object([&](const JsonString &name) {
        ++all;
        if (wanted)
          if (auto at = wanted->find(name.str()); at != wanted->end())
            same += reads(json, *at);
        json.skip();
      });
    } else {
      json.skip();
    }
  });
  if (!algorithm)
    throw badInput(json.where + "expected an algorithm of " +
                   std::to_string(16 * kWords) + " hexadecimal digits");
  if (wanted && all == wanted->size() && same == all)
    return algorithm;
  return std::nullopt;
}

} // namespace

TuneFile::TuneFile(const std::string &path, std::string_view text) {
  JsonReader json(text, path + ": ");
  if (json.kind() == Kind::Object) {
    members = JsonTable(json);
    json.end();
  }
  std::optional<JsonReader> problems = members.find("problems");
  if (!problems || problems->kind() != Kind::Array)
    throw badInput(path + ": expected a file that the command tune wrote");
  size_t index = 0;
  problems->array([&] {
    problems->where = path + ": problem " + std::to_string(index++) + ": ";
    readItem(*problems, nullptr);
  });
}

std::string TuneFile::member(std::string_view key) const {
  std::optional<JsonReader> value = members.find(key);
  if (!value)
    return "nothing";
  return value->kind() == Kind::String ? value->string().str()
                                       : value->excerpt();
}

std::optional<cuda::Algorithm>
TuneFile::find(const blurt_device_gemm &product) const {
  nlohmann::ordered_json wanted = productKey(product);
  std::optional<cuda::Algorithm> found;
  JsonReader problems = members.at("problems");
  problems.array([&] {
    std::optional<cuda::Algorithm> its = readItem(problems, &wanted);
    if (!found)
      found = its;
  });
  return found;
}

nlohmann::ordered_json blurt::productKey(const blurt_device_gemm &g) {
  nlohmann::ordered_json key;
  key["compute"] = computeName(g.compute);
  key["epilogue"] = g.epilogue == BLURT_EPILOGUE_BIAS ? "bias" : "none";
  key["dtype_ab"] = dtypeName(g.dtype_ab);
  key["dtype_c"] = dtypeName(g.dtype_c);
  if (g.epilogue != BLURT_EPILOGUE_NONE)
    key["dtype_extra"] = dtypeName(g.dtype_extra);
  key["trans_a"] = g.trans_a != 0;
  key["trans_b"] = g.trans_b != 0;
  key["accumulate"] = g.accumulate != 0;
  // No algorithm asks for more, and where operands lie moves with the plan.
  auto alignment = [](int64_t bytes) { return std::min<int64_t>(bytes, 16); };
  const std::pair<const char *, int64_t> numbers[] = {
      {"batch", g.batch},
      {"m", g.m},
      {"n", g.n},
      {"k", g.k},
      {"lda", g.lda},
      {"ldb", g.ldb},
      {"ldc", g.ldc},
      {"stride_a", g.stride_a},
      {"stride_b", g.stride_b},
      {"stride_c", g.stride_c},
      {"align_a", alignment(g.align_a)},
      {"align_b", alignment(g.align_b)},
      {"align_c", alignment(g.align_c)}};
  for (auto [name, value] : numbers)
    key[name] = value;
  return key;
}

std::string blurt::algorithmText(const cuda::Algorithm &algorithm) {
  std::string text;
  for (uint64_t word : algorithm.words) {
    char digits[17];
    std::snprintf(digits, sizeof(digits), "%016llx",
                  static_cast<unsigned long long>(word));
    text += digits;
  }
  return text;
}
