//===- Toml.h - A flat TOML file --------------------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Of TOML 1.0 what a file of options needs: keys without dots, strings of one
// line, numbers, true and false. Tables, arrays, dates and strings of several
// lines are told apart in errors. Nothing is kept of what was read.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_DRIVER_TOML_H
#define BLURT_LIB_DRIVER_TOML_H

#include <functional>
#include <string>
#include <string_view>

namespace blurt {

struct TomlEntry {
  enum Kind { String, Integer, Float, Boolean };

  size_t line; ///< from 1
  std::string key;
  Kind kind;
  /// The string; a number as std::from_chars reads it; true or false.
  std::string value;

  const char *kindName() const;
};

/// Calls `use` for each entry in order. Throws Error (bad input), naming `path`
/// and the line, if the text is not as above. A key that comes twice is not
/// noticed.
void readToml(const std::string &path, std::string_view text,
              const std::function<void(const TomlEntry &)> &use);

/// A string as TOML spells it.
std::string tomlString(std::string_view text);

} // namespace blurt

#endif // BLURT_LIB_DRIVER_TOML_H
