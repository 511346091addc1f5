//===- Config.cpp - Options of a command from a file ----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Config.h"
#include "blurt/Error.h"
#include "blurt/File.h"

#include <charconv>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <toml++/toml.h>

using namespace blurt;

namespace {

constexpr std::string_view kFlag = "--config";
/// The library keeps a hundred bytes for one of the file.
constexpr uint64_t kMostBytes = 1 << 16;

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

toml::table parseFile(const std::string &path) {
  MappedFile file(path);
  if (file.size() > kMostBytes)
    throw badInput(path + ": expected at most " + std::to_string(kMostBytes) +
                   " bytes of options, got " + std::to_string(file.size()));
  try {
    return toml::parse(file.text(), path);
  } catch (const toml::parse_error &error) {
    throw badInput(path + ":" + std::to_string(error.source().begin.line) +
                   ": " + std::string(error.description()));
  }
}

bool isFlag(const CLI::Option &option) {
  return option.get_expected_max() == 0;
}

/// The value as the command line would spell it.
std::string spelled(const toml::node &value) {
  if (auto text = value.value_exact<std::string>())
    return *text;
  if (auto number = value.value_exact<int64_t>())
    return std::to_string(*number);
  if (auto number = value.value_exact<double>()) {
    char text[64];
    auto end = std::to_chars(text, text + sizeof(text), *number).ptr;
    return {text, end};
  }
  return {};
}

void take(CLI::Option &option, const toml::node &value,
          const std::string &where) {
  auto mistaken = [&](const char *expected) {
    std::ostringstream got;
    got << value.type();
    return badInput(where + "expected " + expected + ", got " + got.str());
  };
  if (isFlag(option)) {
    auto set = value.value_exact<bool>();
    if (!set)
      throw mistaken("true or false");
    if (!*set)
      return;
    option.add_result("true");
  } else {
    std::string text = spelled(value);
    if (text.empty())
      throw value.is_string() ? badInput(where + "expected a value, got ''")
                              : mistaken("a string or a number");
    option.add_result(text);
  }
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
    toml::table table = parseFile(given.config);
    // The first mistake of the file is the one to report.
    std::map<toml::source_index, std::pair<const toml::key *, toml::node *>>
        byLine;
    for (auto &&[key, value] : table)
      byLine[key.source().begin.line] = {&key, &value};
    for (const auto &[line, entry] : byLine) {
      const auto &[key, value] = entry;
      std::string where = given.config + ":" + std::to_string(line) + ": ";
      std::string name(key->str()), flag = "--" + name;
      CLI::Option *option = command.get_option_no_throw(flag);
      if (name.empty() || !option || name == "help")
        throw badInput(where + "unknown key '" + name +
                       "': expected an option of " + command.get_name());
      if (!given.flags.count(flag))
        take(*option, *value, where + name + ": ");
    }
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
    // A string is quoted as TOML wants it.
    toml::value<std::string> quoted(text);
    double number = 0;
    const char *end = text.data() + text.size();
    bool plain = option->get_type_name() == "INT";
    if (option->get_type_name() == "FLOAT" &&
        std::from_chars(text.data(), end, number).ptr == end) {
      text = spelled(toml::value<double>(number));
      plain = true;
    }
    out << start << name << " = ";
    if (plain)
      out << text << "\n";
    else
      out << quoted << "\n";
  }
  return out.str();
}
