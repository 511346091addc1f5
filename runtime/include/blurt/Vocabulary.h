//===- Vocabulary.h - Between text and token ids ----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_VOCABULARY_H
#define BLURT_VOCABULARY_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace blurt {

/// The byte strings of all token ids.
class Vocabulary {
public:
  /// Ids are bytes, `size` <= 256 of them; there is no end of text.
  static Vocabulary bytes(int64_t size);

  /// An llm.c tokenizer file (magic 20240328, version 2): token count in word 2
  /// of the header, end-of-text id in word 3, then a length byte and the bytes
  /// of each token. Throws Error (bad input) on anything else, and if it holds
  /// other than `size` tokens (0: any number).
  static Vocabulary fromFile(const std::string &path, int64_t size);

  int64_t size() const { return static_cast<int64_t>(tokens.size()); }
  const std::string &text(int32_t id) const { return tokens[size_t(id)]; }
  std::optional<int32_t> endOfText() const { return end; }

  /// Cuts `text` into the longest tokens that match, from left to right. This
  /// is not the merge order of byte-pair encoding: a token sequence may differ
  /// from that of the tokenizer the model was trained with. Throws Error if a
  /// byte has no token.
  std::vector<int32_t> encode(std::string_view text) const;

private:
  void index();

  std::vector<std::string> tokens;
  std::unordered_map<std::string_view, int32_t> ids;
  size_t longest = 0;
  std::optional<int32_t> end;
};

} // namespace blurt

#endif // BLURT_VOCABULARY_H
