//===- Config.cpp - Options of a command from a file ----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Config.h"
#include "Toml.h"
#include "blurt/Error.h"
#include "blurt/File.h"

#include <charconv>
#include <set>
#include <sstream>
#include <string_view>

using namespace blurt;

namespace {

constexpr std::string_view kFlag = "--config";

/// The long options that `argv` gives, and the file of `--config`.
struct Given {
  std::set<std::string, std::less<>> flags;
  std::string config;

  Given(int argc, char **argv) {
    for (int i = 2; i < argc; ++i) {
      std::string_view word = argv[i];
      if (!word.starts_with("--"))
        continue;
      size_t equals = word.find('=');
      std::string_view flag = word.substr(0, equals);
      flags.emplace(flag);
      if (flag != kFlag)
        continue;
      if (equals != std::string_view::npos)
        config = word.substr(equals + 1);
      else if (i + 1 < argc)
        config = argv[i + 1];
    }
  }
};

bool isFlag(const CLI::Option &option) {
  return option.get_expected_max() == 0;
}

void take(CLI::Option &option, const TomlEntry &entry,
          const std::string &where) {
  bool isBoolean = entry.kind == TomlEntry::Boolean;
  if (isFlag(option) != isBoolean)
    throw badInput(where + "expected " +
                   (isBoolean ? "a string or a number" : "true or false") +
                   ", got " + entry.kindName());
  if (entry.value.empty())
    throw badInput(where + "expected a value, got ''");
  if (isBoolean && entry.value == "false")
    return;
  option.add_result(entry.value);
  try {
    option.run_callback();
  } catch (const CLI::ParseError &error) {
    throw badInput(where + error.what());
  } catch (const Error &error) {
    throw badInput(where + error.what());
  }
}

} // namespace

void blurt::readConfig(CLI::App &command, int argc, char **argv) {
  Given given(argc, argv);
  bool called = argc > 1 && command.get_name() == argv[1];
  if (called && !given.config.empty()) {
    MappedFile file(given.config);
    std::set<std::string> before;
    readToml(given.config, file.text(), [&](const TomlEntry &entry) {
      std::string where =
                      given.config + ":" + std::to_string(entry.line) + ": ",
                  flag = "--" + entry.key;
      CLI::Option *option = command.get_option_no_throw(flag);
      if (entry.key.empty() || !option || entry.key == "help")
        throw badInput(where + "unknown key '" + entry.key +
                       "': expected an option of " + command.get_name());
      if (!before.insert(entry.key).second)
        throw badInput(where + "key '" + entry.key + "' appears twice");
      if (!given.flags.count(flag))
        take(*option, entry, where + entry.key + ": ");
    });
  }
  // Its value was used above; defined for --help and for what does not parse.
  command.add_option(std::string(kFlag),
                     "TOML file with options, by their names without dashes; "
                     "those of the command line win");
}

std::string blurt::writtenConfig(const CLI::App &command) {
  std::ostringstream out;
  for (const CLI::Option *option : command.get_options()) {
    if (option->get_lnames().empty() || option->get_group().empty())
      continue;
    std::string name = option->get_lnames().front();
    if (name == "help" || "--" + name == kFlag)
      continue;
    // What was not given has its default, which some programs would not take.
    const char *const start = option->count() ? "" : "# ";
    if (isFlag(*option)) {
      bool set = option->count() > 0 && option->as<bool>();
      out << start << name << " = " << (set ? "true" : "false") << "\n";
      continue;
    }
    std::string text =
        option->count() ? option->as<std::string>() : option->get_default_str();
    if (text.empty())
      continue;
    double number = 0;
    const char *end = text.data() + text.size();
    bool plain = option->get_type_name() == "INT";
    if (option->get_type_name() == "FLOAT" &&
        std::from_chars(text.data(), end, number).ptr == end) {
      char digits[64];
      text = std::string(
          digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
      plain = true;
    }
    out << start << name << " = " << (plain ? text : tomlString(text)) << "\n";
  }
  return out.str();
}
