//===- Json.h - JSON as it is read ------------------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A reader that keeps nothing: values are handed out one after the other, as
// views into the text, so that a file of small values cannot take many times
// its size. The grammar is RFC 8259's, texts are UTF-8.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_JSON_H
#define BLURT_JSON_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blurt {

/// A string as spelled in the text, without its quotes.
struct JsonString {
  std::string_view raw;
  bool escaped; ///< has a backslash

  std::string str() const;
  bool operator==(std::string_view text) const {
    return escaped ? str() == text : raw == text;
  }
  bool operator<(const JsonString &other) const {
    return escaped || other.escaped ? str() < other.str() : raw < other.raw;
  }
};

/// Reads one value. Every function throws Error (bad input) that begins with
/// `where` if the text is not JSON or the value is of another kind.
class JsonReader {
public:
  enum class Kind { Null, Bool, Number, String, Array, Object };

  JsonReader(std::string_view text, std::string where)
      : where(std::move(where)), text(text) {}

  /// Of the value that comes next.
  Kind kind();

  /// Calls `member(key)` for each member; it reads the value.
  template <typename Fn> void object(Fn &&member) {
    open(Kind::Object, "an object");
    if (take('}'))
      return;
    do {
      JsonString key = scanString();
      need(':');
      member(key);
    } while (take(','));
    need('}');
  }
  /// Calls `element()` for each element; it reads the value.
  template <typename Fn> void array(Fn &&element) {
    open(Kind::Array, "an array");
    if (take(']'))
      return;
    do
      element();
    while (take(','));
    need(']');
  }
  JsonString string();
  bool boolean();
  /// A number without fraction and exponent, at least `least`.
  int64_t integer(int64_t least = INT64_MIN);
  /// The same, or nothing, without an error.
  std::optional<int64_t> takeInteger(int64_t least = INT64_MIN);
  double number();
  /// Reads a value of any kind.
  void skip();
  /// To be called after the value: nothing but white space may follow.
  void end();

  /// The text of the value that comes next, cut if it is long.
  std::string excerpt() const;
  /// Throws "expected `what`, got ..." about the value that comes next.
  [[noreturn]] void expected(const std::string &what);

  std::string where;

private:
  friend class JsonTable;
  [[noreturn]] void malformed(const std::string &what);
  void space();
  bool take(char character);
  void need(char character);
  void open(Kind kind, const char *what);
  JsonString scanString();
  std::string_view scanNumber();
  void scanUnicode();
  void scanWord(std::string_view word);
  /// Of the quote before a key, and the key there.
  uint64_t positionOf(const JsonString &key) const {
    return uint64_t(key.raw.data() - 1 - text.data());
  }
  JsonString keyAt(uint64_t position) const;
  /// Positions have 32 bits.
  void checkSize() const;

  std::string_view text;
  size_t at = 0;
};

/// The members of an object by their keys, 4 bytes each. Throws Error (bad
/// input) if a key appears twice.
class JsonTable {
public:
  JsonTable() : json({}, {}) {}
  /// Reads an object of a text below 4 GiB, which has to outlive the table.
  /// `member(key)` reads a value.
  template <typename Fn>
  JsonTable(JsonReader &object, Fn &&member) : json(object) {
    json.checkSize();
    size_t count = 0;
    json.object([&](const JsonString &) {
      ++count;
      json.skip();
    });
    keys.reserve(count);
    object.object([&](const JsonString &key) {
      keys.push_back(uint32_t(json.positionOf(key)));
      member(key);
    });
    sort();
  }
  explicit JsonTable(JsonReader &object)
      : JsonTable(object, [&](const JsonString &) { object.skip(); }) {}

  size_t size() const { return keys.size(); }
  /// In the order of their bytes.
  JsonString key(size_t index) const { return json.keyAt(keys[index]); }
  JsonReader value(size_t index) const;
  std::optional<JsonReader> find(std::string_view key) const;
  /// Throws Error (bad input) if there is none.
  JsonReader at(std::string_view key) const;

private:
  void sort();

  JsonReader json;
  std::vector<uint32_t> keys; ///< where their quotes are
};

} // namespace blurt

#endif // BLURT_JSON_H
