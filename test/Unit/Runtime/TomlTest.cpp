//===- TomlTest.cpp -------------------------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "../../../runtime/lib/Driver/Toml.h"
#include "TestFiles.h"

using namespace blurt;

namespace {

/// "line key kind value;" of each entry.
std::string read(std::string_view text) {
  std::string all;
  readToml("f.toml", text, [&](const TomlEntry &entry) {
    all += std::to_string(entry.line) + " " + entry.key + " " +
           entry.kindName() + " " + entry.value + ";";
  });
  return all;
}

std::string valueOf(const std::string &text) {
  std::string value;
  readToml("f.toml", "k = " + text,
           [&](const TomlEntry &entry) { value = entry.value; });
  return value;
}

} // namespace

TEST(Toml, ReadsEntries) {
  EXPECT_EQ(read("\xef\xbb\xbf# comment \u00e9\r\n\n a-b_1 = 'x # y' # z\r\n"
                 "\"c d\"=\t\"e\"\n'f' = true\nlast = -1_000"),
            "3 a-b_1 string x # y;4 c d string e;5 f boolean true;"
            "6 last integer -1000;");
  EXPECT_EQ(read(""), "");
  EXPECT_EQ(read("a=1\n"), "1 a integer 1;");
  EXPECT_EQ(read("a = 1e-3"), "1 a float 1e-3;");
}

TEST(Toml, ReadsValues) {
  EXPECT_EQ(valueOf(R"("\b\t\n\f\r\"\\\u00e9\U0001F600")"),
            "\b\t\n\f\r\"\\\u00e9\U0001F600");
  EXPECT_EQ(valueOf(R"('\u00e9')"), R"(\u00e9)");
  EXPECT_EQ(valueOf("''"), "");
  EXPECT_EQ(valueOf("0xdead_BEEF"), "3735928559");
  EXPECT_EQ(valueOf("0o17"), "15");
  EXPECT_EQ(valueOf("0b101"), "5");
  EXPECT_EQ(valueOf("+99"), "99");
  EXPECT_EQ(valueOf("-0"), "0");
  EXPECT_EQ(valueOf("9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(valueOf("-9223372036854775808"), "-9223372036854775808");
  EXPECT_EQ(valueOf("1_0.2_5E+1_0"), "10.25E+10");
  EXPECT_EQ(valueOf("-inf"), "-inf");
  EXPECT_EQ(valueOf("nan"), "nan");
}

TEST(Toml, WritesStringsThatItReads) {
  EXPECT_EQ(tomlString("train_*.bin"), "'train_*.bin'");
  for (const std::string text : {"", "a b", "it's", "\"", "\\",
                                 "'\\\"\n\x01\x7f\t\u00e9", "#", "a'b\\n"})
    EXPECT_EQ(valueOf(tomlString(text)), text);
}

TEST(Toml, RefusesTheRest) {
  auto refused = [](const std::string &text, const std::string &part) {
    EXPECT_ERROR(read("a = 1\n" + text), ExitBadInput, "f.toml:2: " + part);
  };
  refused("[a]", "expected a key and a value, got a table");
  refused("a.b = 1", "expected a key without dots");
  refused("= 1", "expected a key, got '= 1'");
  refused("\u00e9 = 1", "expected a key, got ");
  refused("k", "expected '=' after the key");
  refused("k 1", "expected '=' after the key, got '1'");
  refused("k = ", "k: expected a string or a number, got nothing");
  refused("k = # 1", "k: expected a string or a number, got nothing");
  refused("k = [1]", "k: expected a string or a number, got array");
  refused("k = {}", "k: expected a string or a number, got table");
  refused("k = 1979-05-27", "k: expected a string or a number, got '1979-05");
  refused("k = 1 2", "k: expected the end of the line after the value");
  refused("k = 'a' 'b'", "k: expected the end of the line after the value");
  refused("k = '''a'''", "expected a string of one line");
  refused("k = \"\"\"", "expected a string of one line");
  refused("k = 'a", "expected ' at the end of a string");
  refused("k = \"a\\", "an unknown escape");
  refused("k = 'a\x01'", "a control character in a string");
  refused("# \x01", "a control character in a comment");
  for (const char *escape :
       {"\\x", "\\u12", "\\ud800", "\\U00110000", "\\u-123"})
    refused("k = \"" + std::string(escape) + "\"", "an unknown escape");
  for (const char *number :
       {"01", "1_", "_1", "1__0", "1.", ".5", "1e", "1.e1", "1_e1", "--1", "+",
        "0x", "-0x1", "0x-1", "0b2", "9223372036854775808", "1e5x", "True"})
    refused("k = " + std::string(number), "k: expected a string or a number");
}
