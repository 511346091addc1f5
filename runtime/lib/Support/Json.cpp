//===- Json.cpp - JSON as it is read --------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Json.h"
#include "blurt/Error.h"

#include <algorithm>
#include <charconv>

using namespace blurt;

namespace {

constexpr unsigned kMostDepth = 64;
constexpr size_t kExcerpt = 80;

bool isDigit(char c) { return c >= '0' && c <= '9'; }

int hexDigit(char c) {
  if (isDigit(c))
    return c - '0';
  c = char(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/// Four hexadecimal digits at the start of a text, or -1.
int32_t hexFour(std::string_view text) {
  int32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    int digit = i < text.size() ? hexDigit(text[i]) : -1;
    if (digit < 0)
      return -1;
    value = value * 16 + digit;
  }
  return value;
}

bool isHigh(int32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool isLow(int32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

void appendUtf8(std::string &to, uint32_t code) {
  auto put = [&](uint32_t byte) { to += char(byte); };
  if (code < 0x80)
    return put(code);
  if (code < 0x800) {
    put(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xE0 | code >> 12);
    } else {
      put(0xF0 | code >> 18);
      put(0x80 | (code >> 12 & 0x3F));
    }
    put(0x80 | (code >> 6 & 0x3F));
  }
  put(0x80 | (code & 0x3F));
}

/// Bytes of the UTF-8 sequence at the start of a text, 0 if it is none.
size_t utf8Length(std::string_view text) {
  auto byte = [&](size_t i) {
    return i < text.size() ? uint8_t(text[i]) : uint8_t(0);
  };
  uint8_t first = byte(0);
  if (first < 0x80)
    return 1;
  size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                  : first >= 0xE0 && first <= 0xEF ? 3
                  : first >= 0xF0 && first <= 0xF4 ? 4
                                                   : 0;
  // The shortest form, no half of a surrogate pair, at most U+10FFFF.
  uint8_t least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  uint8_t most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (byte(i) < least || byte(i) > most)
      return 0;
    least = 0x80, most = 0xBF;
  }
  return length;
}

} // namespace

std::string JsonString::str() const {
  if (!escaped)
    return std::string(raw);
  std::string result;
  result.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\') {
      result += raw[i];
      continue;
    }
    char kind = raw[++i];
    constexpr std::string_view kinds = "bfnrt", meant = "\b\f\n\r\t";
    if (size_t at = kinds.find(kind); at != std::string_view::npos) {
      result += meant[at];
    } else if (kind != 'u') {
      result += kind;
    } else {
      int32_t code = hexFour(raw.substr(i + 1));
      i += 4;
      if (isHigh(code)) {
        code = 0x10000 + (code - 0xD800) * 0x400 +
               (hexFour(raw.substr(i + 3)) - 0xDC00);
        i += 6;
      }
      appendUtf8(result, uint32_t(code));
    }
  }
  return result;
}

void JsonReader::malformed(const std::string &what) {
  throw badInput(where + "is not JSON: byte " + std::to_string(at) + ": " +
                 what);
}

void JsonReader::expected(const std::string &what) {
  throw badInput(where + "expected " + what + ", got " + excerpt());
}

void JsonReader::space() {
  while (at < text.size() && (text[at] == ' ' || text[at] == '\t' ||
                              text[at] == '\n' || text[at] == '\r'))
    ++at;
}

bool JsonReader::take(char character) {
  space();
  if (at == text.size() || text[at] != character)
    return false;
  ++at;
  return true;
}

void JsonReader::need(char character) {
  if (!take(character))
    malformed(std::string("expected '") + character + "'");
}

void JsonReader::checkSize() const {
  if (text.size() > UINT32_MAX)
    throw badInput(where + "expected less than 4 GiB of JSON, got " +
                   std::to_string(text.size()) + " bytes");
}

JsonString JsonReader::keyAt(uint64_t position) const {
  JsonReader reader(text, {});
  reader.at = position;
  return reader.scanString();
}

JsonReader::Kind JsonReader::kind() {
  space();
  if (at == text.size())
    malformed("expected a value, got the end");
  switch (text[at]) {
  case '{':
    return Kind::Object;
  case '[':
    return Kind::Array;
  case '"':
    return Kind::String;
  case 't':
  case 'f':
    return Kind::Bool;
  case 'n':
    return Kind::Null;
  default:
    if (text[at] != '-' && !isDigit(text[at]))
      malformed("expected a value");
    return Kind::Number;
  }
}

void JsonReader::open(Kind wanted, const char *what) {
  if (kind() != wanted)
    expected(what);
  ++at;
}

void JsonReader::scanUnicode() {
  int32_t unit = hexFour(text.substr(at));
  if (unit < 0)
    malformed("expected four hexadecimal digits");
  if (isLow(unit))
    malformed("the second half of a surrogate pair comes first");
  at += 4;
  if (!isHigh(unit))
    return;
  if (text.substr(at, 2) != "\\u" || !isLow(hexFour(text.substr(at + 2))))
    malformed("expected the second half of a surrogate pair");
  at += 6;
}

JsonString JsonReader::scanString() {
  if (!take('"'))
    malformed("expected a string");
  size_t begin = at;
  bool escaped = false;
  while (at < text.size() && text[at] != '"') {
    if (uint8_t(text[at]) < 0x20)
      malformed("a control character in a string");
    if (text[at] == '\\') {
      escaped = true;
      ++at;
      if (at == text.size() || std::string_view("\"\\/bfnrtu").find(text[at]) ==
                                   std::string_view::npos)
        malformed("an unknown escape");
      if (text[at++] == 'u')
        scanUnicode();
      continue;
    }
    size_t length = utf8Length(text.substr(at, 4));
    if (length == 0)
      malformed("not UTF-8");
    at += length;
  }
  if (at == text.size())
    malformed("a string without an end");
  return {text.substr(begin, at++ - begin), escaped};
}

std::string_view JsonReader::scanNumber() {
  size_t begin = at;
  auto digits = [&] {
    if (at == text.size() || !isDigit(text[at]))
      malformed("expected a digit");
    while (at < text.size() && isDigit(text[at]))
      ++at;
  };
  auto next = [&](std::string_view any) {
    bool is = at < text.size() && any.find(text[at]) != std::string_view::npos;
    at += is;
    return is;
  };
  next("-");
  if (!next("0"))
    digits();
  if (next("."))
    digits();
  if (next("eE")) {
    next("+-");
    digits();
  }
  return text.substr(begin, at - begin);
}

void JsonReader::scanWord(std::string_view word) {
  if (text.substr(at, word.size()) != word)
    malformed("expected a value");
  at += word.size();
}

JsonString JsonReader::string() {
  if (kind() != Kind::String)
    expected("a string");
  return scanString();
}

bool JsonReader::boolean() {
  if (kind() != Kind::Bool)
    expected("true or false");
  bool value = text[at] == 't';
  scanWord(value ? "true" : "false");
  return value;
}

std::optional<int64_t> JsonReader::takeInteger(int64_t least) {
  if (kind() != Kind::Number)
    return std::nullopt;
  size_t begin = at;
  std::string_view digits = scanNumber();
  int64_t value = 0;
  const char *end = digits.data() + digits.size();
  auto [next, error] = std::from_chars(digits.data(), end, value);
  if (error == std::errc() && next == end && value >= least)
    return value;
  at = begin;
  return std::nullopt;
}

int64_t JsonReader::integer(int64_t least) {
  if (std::optional<int64_t> value = takeInteger(least))
    return *value;
  expected(least == INT64_MIN
               ? "a whole number"
               : "a whole number of at least " + std::to_string(least));
}

double JsonReader::number() {
  if (kind() != Kind::Number)
    expected("a number");
  size_t begin = at;
  std::string_view digits = scanNumber();
  double value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec ==
      std::errc())
    return value;
  at = begin;
  expected("a number of 64 bits");
}

void JsonReader::skip() {
  // A bit for each value that is open: whether it is an object.
  uint64_t objects = 0;
  unsigned depth = 0;
  auto key = [&] {
    scanString();
    need(':');
  };
  for (;;) {
    Kind next = kind();
    if (next == Kind::Array || next == Kind::Object) {
      bool isObject = next == Kind::Object;
      ++at;
      if (!take(isObject ? '}' : ']')) {
        if (++depth > kMostDepth)
          throw badInput(where + "is nested too deeply");
        objects = objects << 1 | uint64_t(isObject);
        if (isObject)
          key();
        continue;
      }
    } else if (next == Kind::String) {
      scanString();
    } else if (next == Kind::Number) {
      scanNumber();
    } else if (next == Kind::Bool) {
      boolean();
    } else {
      scanWord("null");
    }
    while (depth > 0 && !take(',')) {
      need(objects & 1 ? '}' : ']');
      objects >>= 1;
      --depth;
    }
    if (depth == 0)
      return;
    if (objects & 1)
      key();
  }
}

void JsonReader::end() {
  space();
  if (at != text.size())
    malformed("expected the end");
}

std::string JsonReader::excerpt() const {
  JsonReader ahead = *this;
  ahead.space();
  size_t begin = ahead.at;
  ahead.skip();
  size_t length = ahead.at - begin;
  if (length <= kExcerpt)
    return std::string(text.substr(begin, length));
  while (length > kExcerpt || utf8Length(text.substr(begin + length, 4)) == 0)
    --length;
  return std::string(text.substr(begin, length)) + "...";
}

void JsonTable::sort() {
  auto before = [&](uint32_t a, uint32_t b) {
    return json.keyAt(a) < json.keyAt(b);
  };
  std::sort(keys.begin(), keys.end(), before);
  for (size_t i = 1; i < keys.size(); ++i)
    if (!before(keys[i - 1], keys[i]))
      throw badInput(json.where + "name '" + json.keyAt(keys[i]).str() +
                     "' appears twice");
}

JsonReader JsonTable::value(size_t index) const {
  JsonReader reader = json;
  reader.at = keys[index];
  reader.scanString();
  reader.need(':');
  return reader;
}

std::optional<JsonReader> JsonTable::find(std::string_view key) const {
  auto found = std::lower_bound(
      keys.begin(), keys.end(), key, [&](uint32_t a, std::string_view b) {
        JsonString name = json.keyAt(a);
        return name.escaped ? name.str() < b : name.raw < b;
      });
  if (found == keys.end() || !(json.keyAt(*found) == key))
    return std::nullopt;
  return value(size_t(found - keys.begin()));
}

JsonReader JsonTable::at(std::string_view key) const {
  if (std::optional<JsonReader> found = find(key))
    return *found;
  throw badInput(json.where + "expected a member '" + std::string(key) + "'");
}
