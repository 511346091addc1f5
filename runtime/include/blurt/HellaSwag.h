//===- HellaSwag.h - Questions with four endings ----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// llm.c's file of HellaSwag: 256 little-endian int32 (magic 20240522, version
// 1, examples, bytes of the longest one), then uint16, an example after the
// other: 65535, its bytes, its number, the right ending, 4, the context and
// each of the four endings as a length and as many tokens.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_HELLASWAG_H
#define BLURT_HELLASWAG_H

#include "blurt/File.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace blurt {

class HellaSwagFile {
public:
  static constexpr size_t kEndings = 4;

  /// Tokens of the file, from word `first` on.
  struct Tokens {
    uint64_t first, count;
  };
  struct Example {
    unsigned label; ///< the right ending
    Tokens context;
    std::array<Tokens, kEndings> endings;
  };

  /// Throws Error (bad input), naming the example, if the file is not as above,
  /// a text is empty, or a token is not below `vocab` (0: any is).
  HellaSwagFile(const std::string &path, int64_t vocab);

  const std::string &path() const { return file.path(); }
  uint64_t size() const { return begins.size(); }
  Example example(uint64_t index) const;
  /// Word `index` after the header.
  uint16_t word(uint64_t index) const;

private:
  MappedFile file;
  std::vector<uint32_t> begins; ///< the first word of each
};

} // namespace blurt

#endif // BLURT_HELLASWAG_H
