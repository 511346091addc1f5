//===- Toml.cpp - A flat TOML file ----------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Toml.h"
#include "blurt/Error.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <cstdio>

using namespace blurt;

namespace {

bool isControl(char c) { return (uint8_t(c) < 0x20 && c != '\t') || c == 0x7F; }

bool isBare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '-';
}

bool isDigit(char c) { return c >= '0' && c <= '9'; }

void appendUtf8(std::string &to, uint32_t code) {
  unsigned more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static constexpr uint8_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
  to += char(kFirst[more] | code >> (6 * more));
  while (more-- > 0)
    to += char(0x80 | (code >> (6 * more) & 0x3F));
}

class Line {
public:
  Line(std::string where, std::string_view text)
      : where(std::move(where)), text(text) {}

  [[noreturn]] void fail(const std::string &what) const {
    throw badInput(where + what);
  }

  /// Whether nothing but white space and a comment is left.
  bool isDone() {
    space();
    if (at < text.size() && text[at] != '#')
      return false;
    for (char c : text.substr(at))
      if (isControl(c))
        fail("a control character in a comment");
    return true;
  }

  std::string key() {
    if (text[at] == '[')
      fail("expected a key and a value, got a table");
    if (text[at] == '"' || text[at] == '\'')
      return string();
    size_t begin = at;
    while (at < text.size() && isBare(text[at]))
      ++at;
    if (at == begin)
      fail("expected a key, got " + rest());
    return std::string(text.substr(begin, at - begin));
  }

  void equals() {
    space();
    if (at < text.size() && text[at] == '.')
      fail("expected a key without dots");
    if (at == text.size() || text[at] != '=')
      fail("expected '=' after the key" +
           (at < text.size() ? ", got " + rest() : std::string()));
    ++at;
    space();
  }

  void value(TomlEntry &entry) {
    const std::string wanted =
        entry.key + ": expected a string or a number, got ";
    if (at == text.size() || text[at] == '#')
      fail(wanted + "nothing");
    switch (text[at]) {
    case '[':
      fail(wanted + "array");
    case '{':
      fail(wanted + "table");
    case '"':
    case '\'':
      entry.kind = TomlEntry::String;
      entry.value = string();
      return;
    }
    size_t begin = at;
    while (at < text.size() &&
           std::string_view(" \t#").find(text[at]) == std::string_view::npos)
      ++at;
    std::string_view word = text.substr(begin, at - begin);
    if (word == "true" || word == "false") {
      entry.kind = TomlEntry::Boolean;
      entry.value = word;
    } else if (!number(word, entry)) {
      at = begin;
      fail(wanted + rest());
    }
  }

private:
  void space() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t'))
      ++at;
  }

  /// What is left, for a message.
  std::string rest() const {
    std::string_view left = text.substr(at, 40);
    return "'" + std::string(left) + "'";
  }

  std::string string() {
    char quote = text[at];
    if (text.substr(at, 3) == std::string(3, quote))
      fail("expected a string of one line");
    std::string result;
    for (++at; at < text.size() && text[at] != quote; ++at) {
      if (isControl(text[at]))
        fail("a control character in a string");
      if (quote == '"' && text[at] == '\\')
        escape(result);
      else
        result += text[at];
    }
    if (at == text.size())
      fail(std::string("expected ") + quote + " at the end of a string");
    ++at;
    return result;
  }

  void escape(std::string &to) {
    char kind = ++at < text.size() ? text[at] : '\0';
    constexpr std::string_view kinds = "btnfr\"\\", meant = "\b\t\n\f\r\"\\";
    if (size_t which = kinds.find(kind);
        which != std::string_view::npos && kind) {
      to += meant[which];
      return;
    }
    size_t digits = kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    std::string_view hex = text.substr(std::min(at + 1, text.size()), digits);
    uint32_t code = 0;
    auto [next, error] =
        std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (digits == 0 || hex.size() != digits || error != std::errc() ||
        next != hex.data() + digits || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000))
      fail("an unknown escape in a string");
    appendUtf8(to, code);
    at += digits;
  }

  /// Removes the underscores between digits.
  static bool withoutBars(std::string_view word, std::string &to) {
    bool isHex = word.starts_with("0x");
    auto isDigitAt = [&](size_t i) {
      return i < word.size() &&
             (isHex ? std::isxdigit(uint8_t(word[i])) != 0 : isDigit(word[i]));
    };
    for (size_t i = 0; i < word.size(); ++i)
      if (word[i] != '_')
        to += word[i];
      else if (i == 0 || !isDigitAt(i - 1) || !isDigitAt(i + 1))
        return false;
    return true;
  }

  static bool number(std::string_view word, TomlEntry &entry) {
    bool hasSign = word[0] == '+' || word[0] == '-';
    std::string digits;
    if (!withoutBars(word.substr(hasSign), digits))
      return false;
    std::string sign = word[0] == '-' ? "-" : "";
    auto whole = [&](int base, size_t skip) {
      int64_t value = 0;
      std::string text = sign + digits.substr(skip);
      const char *end = text.data() + text.size();
      auto [next, error] = std::from_chars(text.data(), end, value, base);
      entry.kind = TomlEntry::Integer;
      entry.value = std::to_string(value);
      return error == std::errc() && next == end;
    };
    if (digits.size() > 2 && digits[0] == '0' && !hasSign && digits[2] != '-')
      if (int base = digits[1] == 'x'   ? 16
                     : digits[1] == 'o' ? 8
                     : digits[1] == 'b' ? 2
                                        : 0)
        return whole(base, 2);
    size_t at = 0;
    auto take = [&] {
      size_t begin = at;
      while (at < digits.size() && isDigit(digits[at]))
        ++at;
      return at - begin;
    };
    if (digits == "inf" || digits == "nan") {
      entry.kind = TomlEntry::Float;
      entry.value = sign + digits;
      return true;
    }
    size_t before = take();
    if (before == 0 || (before > 1 && digits[0] == '0'))
      return false;
    if (at == digits.size())
      return whole(10, 0);
    if (digits[at] == '.' && (++at, take() == 0))
      return false;
    if (at < digits.size() && (digits[at] | 0x20) == 'e') {
      ++at;
      at += at < digits.size() && (digits[at] == '+' || digits[at] == '-');
      if (take() == 0)
        return false;
    }
    entry.kind = TomlEntry::Float;
    entry.value = sign + digits;
    return at == digits.size();
  }

  std::string where;
  std::string_view text;
  size_t at = 0;
};

} // namespace

const char *TomlEntry::kindName() const {
  static const char *const names[] = {"string", "integer", "float", "boolean"};
  return names[kind];
}

void blurt::readToml(const std::string &path, std::string_view text,
                     const std::function<void(const TomlEntry &)> &use) {
  if (text.starts_with("\xef\xbb\xbf"))
    text.remove_prefix(3);
  for (size_t number = 1; !text.empty(); ++number) {
    size_t length = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (content.ends_with('\r'))
      content.remove_suffix(1);
    Line line(path + ":" + std::to_string(number) + ": ", content);
    if (line.isDone())
      continue;
    TomlEntry entry{number, line.key(), TomlEntry::String, {}};
    line.equals();
    line.value(entry);
    if (!line.isDone())
      line.fail(entry.key + ": expected the end of the line after the value");
    use(entry);
  }
}

std::string blurt::tomlString(std::string_view text) {
  bool isPlain = text.find('\'') == std::string_view::npos;
  for (char c : text)
    isPlain &= !isControl(c);
  if (isPlain)
    return "'" + std::string(text) + "'";
  std::string result = "\"";
  for (char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (isControl(c)) {
      std::snprintf(escaped, sizeof(escaped), "\\u%04X", unsigned(uint8_t(c)));
      result += escaped;
    } else {
      result += c;
    }
  }
  return result + "\"";
}
