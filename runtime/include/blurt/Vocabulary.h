//===- Vocabulary.h - Between text and token ids ----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_VOCABULARY_H
#define BLURT_VOCABULARY_H

#include "blurt/File.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace blurt {

/// The byte strings of all token ids. They stay where they are in the file.
class Vocabulary {
public:
  /// Ids are bytes, `size` <= 256 of them; there is no end of text.
  static Vocabulary bytes(int64_t size);

  /// An llm.c tokenizer file (magic 20240328, version 2): token count in word 2
  /// of the header, end-of-text id in word 3, then a length byte and the bytes
  /// of each token. Throws Error (bad input) on anything else, and if it holds
  /// other than `size` tokens (0: any number).
  static Vocabulary fromFile(const std::string &path, int64_t size);

  int64_t size() const { return count; }
  std::string_view text(int32_t id) const;
  std::optional<int32_t> endOfText() const { return end; }

  /// Cuts `text` into the longest tokens that match, from left to right. This
  /// is not the merge order of byte-pair encoding: a token sequence may differ
  /// from that of the tokenizer the model was trained with. Throws Error if a
  /// byte has no token.
  std::vector<int32_t> encode(std::string_view text) const;

private:
  /// The token whose length is at `place`.
  std::string_view textAt(uint32_t place) const;
  int32_t idAt(uint32_t place) const;
  /// The first token that reads so, or -1.
  int32_t find(std::string_view text) const;
  void index();

  std::optional<MappedFile> file;
  std::vector<char> own;    ///< of a vocabulary without a file
  std::string_view records; ///< a length byte and as many bytes, of each token
  int64_t count = 0;
  std::vector<uint32_t> marks; ///< where every kStride-th token is
  /// Where tokens are, by their text; those of one byte by that.
  std::vector<uint32_t> sorted;
  std::array<int32_t, 256> single;
  size_t longest = 0;
  std::optional<int32_t> end;
};

} // namespace blurt

#endif // BLURT_VOCABULARY_H
