//===- TestFiles.h - Files for the runtime's tests --------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_TEST_TESTFILES_H
#define BLURT_TEST_TESTFILES_H

#include "blurt/Error.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <vector>

namespace blurt::test {

/// A fresh folder that goes away with the test.
class TestFolder : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "blurt-test-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string &name) const {
    return (folder / name).string();
  }

  std::filesystem::path folder;
};

inline void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  ASSERT_TRUE(file.good()) << path;
}

inline std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::string words(const std::vector<int32_t> &values) {
  return {reinterpret_cast<const char *>(values.data()), values.size() * 4};
}

/// The 1,024 bytes that all llm.c files start with.
inline std::string shardHeader(int32_t magic, int32_t version, uint32_t count,
                               int32_t fourth = 0) {
  std::vector<int32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = static_cast<int32_t>(count);
  header[3] = fourth;
  return words(header);
}

/// A GPT-2 token shard.
inline std::string shard16(const std::vector<uint16_t> &tokens) {
  return shardHeader(20240520, 1, uint32_t(tokens.size())) +
         std::string(reinterpret_cast<const char *>(tokens.data()),
                     tokens.size() * 2);
}

/// A Llama-3 token shard.
inline std::string shard32(const std::vector<uint32_t> &tokens) {
  return shardHeader(20240801, 7, uint32_t(tokens.size())) +
         std::string(reinterpret_cast<const char *>(tokens.data()),
                     tokens.size() * 4);
}

/// Expects `statement` to throw an Error of `code` whose message has `part`.
#define EXPECT_ERROR(statement, code, part)                                    \
  try {                                                                        \
    statement;                                                                 \
    ADD_FAILURE() << "no error from " #statement;                              \
  } catch (const ::blurt::Error &error) {                                      \
    EXPECT_EQ(error.exitCode(), code) << error.what();                         \
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)         \
        << "got: " << error.what() << "\nexpected: " << (part);                \
  }

} // namespace blurt::test

#endif // BLURT_TEST_TESTFILES_H
