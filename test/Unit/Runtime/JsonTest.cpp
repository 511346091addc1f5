//===- JsonTest.cpp -------------------------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Json.h"
#include "TestFiles.h"

#include <nlohmann/json.hpp>
#include <random>

using namespace blurt;

namespace {

JsonReader reader(std::string_view text) { return {text, "f: "}; }

bool accepts(std::string_view text) {
  try {
    JsonReader json = reader(text);
    json.skip();
    json.end();
    return true;
  } catch (const Error &) {
    return false;
  }
}

} // namespace

TEST(Json, ReadsValues) {
  JsonReader json = reader(R"( {"a" : [1, -2.5e1 , "x\n\"\u00e9\ud83d\ude00"],
                                "b": {}, "c": [], "d": true, "e": null } )");
  std::string seen;
  json.object([&](const JsonString &key) {
    seen += key.str();
    if (!(key == "a"))
      return json.skip();
    int index = 0;
    json.array([&] {
      switch (index++) {
      case 0:
        EXPECT_EQ(json.integer(), 1);
        break;
      case 1:
        EXPECT_EQ(json.takeInteger(), std::nullopt);
        EXPECT_EQ(json.number(), -25);
        break;
      default:
        EXPECT_EQ(json.string().str(), "x\n\"\u00e9\U0001F600");
      }
    });
    EXPECT_EQ(index, 3);
  });
  json.end();
  EXPECT_EQ(seen, "abcde");
  EXPECT_TRUE(reader("true").boolean());
  EXPECT_FALSE(reader(" false").boolean());
  EXPECT_EQ(reader("9223372036854775807").integer(), INT64_MAX);
}

TEST(Json, NamesWhatItExpected) {
  EXPECT_ERROR(reader("[1]").string(), ExitBadInput,
               "f: expected a string, got [1]");
  EXPECT_ERROR(reader("-1").integer(0), ExitBadInput,
               "expected a whole number of at least 0, got -1");
  EXPECT_ERROR(reader("1.0").integer(), ExitBadInput, "a whole number");
  EXPECT_ERROR(reader("9223372036854775808").integer(), ExitBadInput, "got 92");
  EXPECT_ERROR(reader("1e999").number(), ExitBadInput, "a number of 64 bits");
  EXPECT_ERROR(reader("\"1\"").number(), ExitBadInput, "expected a number");
  EXPECT_ERROR(reader("1").boolean(), ExitBadInput, "expected true or false");
  EXPECT_ERROR(reader("{\"a\" 1}").skip(), ExitBadInput,
               "f: is not JSON: byte 5: expected ':'");
  EXPECT_ERROR(reader("").skip(), ExitBadInput,
               "byte 0: expected a value, got the end");
  // A long value is cut where a character begins.
  std::string text = "\"";
  for (int i = 0; i < 100; ++i)
    text += "\u00e9";
  EXPECT_ERROR(reader(text + "\"").integer(), ExitBadInput, "\u00e9...");
}

TEST(Json, AcceptsWhatTheLibraryAccepts) {
  const std::string good[] = {
      R"({"a":[1,-0,0.5,1e5,1E-5,2.5e+3],"b":{"c":"\u0041\\\/\b\f"},"d":[[]]})",
      R"([true,false,null,"", {"": {}}, [{"x":[1,[2]]}]])", "  17\t\r\n ",
      "\"\xf0\x9f\x98\x80 \xe0\xa0\x80 \xed\x9f\xbf \xf4\x8f\xbf\xbf\""};
  const std::string bytes =
      "{}[]\":,\\u0dD8cC19-+.eE tn\n\x01\x80\xc0\xed\xa0\xf5";
  std::mt19937_64 random(1);
  int accepted = 0, refused = 0;
  for (const std::string &text : good) {
    EXPECT_TRUE(accepts(text)) << text;
    for (size_t cut = 0; cut < text.size(); ++cut)
      EXPECT_EQ(accepts(text.substr(0, cut)),
                nlohmann::json::accept(text.substr(0, cut)))
          << text.substr(0, cut);
    for (int i = 0; i < 20'000; ++i) {
      std::string bad = text;
      for (int n = int(random() % 3); n >= 0; --n) {
        char byte = bytes[random() % bytes.size()];
        size_t at = random() % bad.size();
        if (random() % 2)
          bad[at] = byte;
        else
          bad.insert(at, 1, byte);
      }
      bool is = nlohmann::json::accept(bad);
      // A number that is too large is JSON, though the library has no room.
      if (accepts(bad) != is)
        EXPECT_NE(bad.find_first_of("eE"), std::string::npos) << bad;
      (is ? accepted : refused) += 1;
    }
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(Json, LimitsDepth) {
  EXPECT_TRUE(accepts(std::string(64, '[') + std::string(64, ']')));
  EXPECT_ERROR(reader(std::string(100'000, '[')).skip(), ExitBadInput,
               "f: is nested too deeply");
  EXPECT_ERROR(reader("[" + std::string(65, '[')).excerpt(), ExitBadInput,
               "nested too deeply");
}

TEST(Json, FindsMembers) {
  const std::string text = R"({"b":1,"\u0061":2,"":[3],"c":{"d":4}})";
  JsonReader json = reader(text);
  JsonTable table(json);
  json.end();
  ASSERT_EQ(table.size(), 4u);
  EXPECT_EQ(table.at("a").integer(), 2);
  EXPECT_EQ(table.at("b").integer(), 1);
  EXPECT_EQ(table.at("").excerpt(), "[3]");
  EXPECT_EQ(table.key(1).str(), "a");
  EXPECT_EQ(table.value(3).excerpt(), R"({"d":4})");
  EXPECT_FALSE(table.find("d"));
  EXPECT_ERROR(table.at("d"), ExitBadInput, "f: expected a member 'd'");
  const std::string twice = R"({"a":1,"\u0061":2})";
  JsonReader other = reader(twice);
  EXPECT_ERROR(JsonTable{other}, ExitBadInput, "f: name 'a' appears twice");
}
