//===- Config.h - Options of a command from a file --------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A configuration is a TOML file with a key for each option, the option's name
// without its dashes: a string, a number, or true or false for a flag.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_DRIVER_CONFIG_H
#define BLURT_LIB_DRIVER_CONFIG_H

#include <CLI/CLI.hpp>
#include <string>

namespace blurt {

/// Defines `--config` and, if `argv` gives it to `command`, takes from its file
/// the options that `argv` does not give. To be called after all options are
/// defined and before they are parsed. Throws Error (bad input), naming file
/// and line.
void readConfig(CLI::App &command, int argc, char **argv);

/// What the options of `command` are after parsing, as a configuration: those
/// that were given, and the defaults of the others in comments.
std::string writtenConfig(const CLI::App &command);

} // namespace blurt

#endif // BLURT_LIB_DRIVER_CONFIG_H
