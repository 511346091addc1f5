//===- SafetensorsTest.cpp ------------------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Safetensors.h"
#include "TestFiles.h"

#include <cstring>

using namespace blurt;
using namespace blurt::test;

namespace {

std::string file(const std::string &header, const std::string &buffer) {
  uint64_t size = header.size();
  return std::string(reinterpret_cast<const char *>(&size), 8) + header +
         buffer;
}

class Safetensors : public TestFolder {
protected:
  void expectBad(const std::string &bytes, const std::string &part) {
    writeFile(path("bad.safetensors"), bytes);
    EXPECT_ERROR(SafetensorsFile(path("bad.safetensors")), ExitBadInput, part);
    EXPECT_ERROR(SafetensorsFile(path("bad.safetensors")), ExitBadInput,
                 "bad.safetensors: ");
  }
};

const char kOne[] = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

} // namespace

TEST_F(Safetensors, ReadsAGoodFile) {
  writeFile(
      path("good"),
      file(R"({"b":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]},)"
           R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
           R"("empty":{"dtype":"F32","shape":[0,7],"data_offsets":[8,8]},)"
           R"("scalar":{"dtype":"U8","shape":[],"data_offsets":[12,13]},)"
           R"("__metadata__":{"format":"pt"}}    )",
           "01234567abcdz"));
  SafetensorsFile good(path("good"));
  ASSERT_EQ(good.size(), 4u);
  const SafetensorsEntry b = *good.find("b");
  EXPECT_EQ(typeString(b), "BF16[1, 2]");
  EXPECT_EQ(std::memcmp(good.data(b), "abcd", 4), 0);
  EXPECT_EQ(good.find("empty")->shape, (std::vector<int64_t>{0, 7}));
  EXPECT_EQ(*reinterpret_cast<const char *>(good.data(*good.find("scalar"))),
            'z');
  EXPECT_EQ(good.metadata("format"), "pt");
}

TEST_F(Safetensors, RefusesBadFraming) {
  expectBad("", "expected a safetensors file, got 0 bytes");
  expectBad("1234567", "got 7 bytes");
  uint64_t huge = 100'000'001;
  expectBad(std::string(reinterpret_cast<char *>(&huge), 8) + "{}",
            "header of at most 100000000 bytes, got 100000001");
  uint64_t absurd = UINT64_MAX;
  expectBad(std::string(reinterpret_cast<char *>(&absurd), 8) + "{}",
            "at most 100000000 bytes");
  uint64_t three = 3;
  expectBad(std::string(reinterpret_cast<char *>(&three), 8) + "{}",
            "expected 3 bytes of header, got 2: the file is truncated");
  expectBad(file("", ""), "starts with '{'");
  expectBad(file(" {}", ""), "starts with '{'");
  expectBad(file("[]", ""), "starts with '{'");
}

TEST_F(Safetensors, RefusesBadJson) {
  expectBad(file("{", ""), "header: is not JSON");
  expectBad(file("{}x", ""), "header: is not JSON");
  expectBad(file("{\"a\xff\":{}}", ""), "header: is not JSON");
  expectBad(file("{\"a\":" + std::string(50'000, '['), ""),
            "nested too deeply");
  std::string twice = kOne;
  twice.insert(twice.size() - 1,
               R"(,"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]})");
  expectBad(file(twice, std::string(16, 'x')), "name 'a' appears twice");
}

TEST_F(Safetensors, RefusesBadEntries) {
  auto one = [](const std::string &entry) {
    return file("{\"a\":" + entry + "}", std::string(8, 'x'));
  };
  expectBad(one("7"), "tensor 'a': expected an object, got 7");
  expectBad(one(R"({"shape":[2],"data_offsets":[0,8]})"),
            "expected a field 'dtype'");
  expectBad(one(R"({"dtype":"F32","data_offsets":[0,8]})"),
            "expected a field 'shape'");
  expectBad(one(R"({"dtype":"F32","shape":[2]})"),
            "expected a field 'data_offsets'");
  expectBad(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"),
            "unknown field 'x'");
  expectBad(one(R"({"dtype":"F33","shape":[2],"data_offsets":[0,8]})"),
            "unknown dtype \"F33\"");
  expectBad(one(R"({"dtype":4,"shape":[2],"data_offsets":[0,8]})"),
            "unknown dtype 4");
  expectBad(one(R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})"),
            "non-negative integers, got [-2]");
  expectBad(one(R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})"),
            "non-negative integers");
  expectBad(one(R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})"),
            "non-negative integers");
  expectBad(
      one(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]})"),
      "is too large");
  expectBad(one(R"({"dtype":"F32","shape":[2],"data_offsets":[0]})"),
            "expected data_offsets [begin, end]");
  expectBad(one(R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})"),
            "data_offsets in order");
  expectBad(one(R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})"),
            "expected 12 bytes for F32[3], got 8");
}

TEST_F(Safetensors, RefusesBadMetadata) {
  expectBad(file(R"({"__metadata__":1})", ""),
            "__metadata__: expected an object of strings, got 1");
  expectBad(file(R"({"__metadata__":{"a":1}})", ""),
            "__metadata__: 'a': expected a string, got 1");
}

TEST_F(Safetensors, RefusesHolesOverlapsAndLeftovers) {
  auto two = [](int begin, int end, size_t bytes) {
    return file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                R"("b":{"dtype":"F32","shape":[1],"data_offsets":[)" +
                    std::to_string(begin) + "," + std::to_string(end) + "]}}",
                std::string(bytes, 'x'));
  };
  expectBad(two(12, 16, 16), "tensor 'b': expected to begin at byte 8, got 12: "
                             "tensors leave a hole");
  expectBad(two(4, 8, 8),
            "expected to begin at byte 8, got 4: tensors overlap");
  expectBad(two(8, 12, 11),
            "expected 12 bytes of tensors, got 11: the file is truncated");
  expectBad(two(8, 12, 13), "got 13: the file is followed by trailing bytes");
  expectBad(file("{}", "x"), "trailing bytes");
}

TEST_F(Safetensors, WritesWhatItReads) {
  std::string name = path("out.safetensors");
  std::vector<SafetensorsOutput> outputs;
  outputs.push_back({"z", "F32", {2, 1}, [](AtomicFile &f) {
                       const float values[] = {1.5f, -2};
                       f.write(values, 8);
                     }});
  outputs.push_back({"a", "I64", {}, [](AtomicFile &f) {
                       const int64_t value = 7;
                       f.write(&value, 8);
                     }});
  writeSafetensors(name, outputs, {{"format", "pt"}});
  SafetensorsFile again(name);
  EXPECT_EQ(again.metadata("format"), "pt");
  EXPECT_EQ(typeString(*again.find("z")), "F32[2, 1]");
  EXPECT_EQ(again.find("z")->begin, 0u);
  EXPECT_EQ(again.find("a")->begin, 8u);
  float values[2];
  std::memcpy(values, again.data(*again.find("z")), 8);
  EXPECT_EQ(values[1], -2.0f);
  // The tensors are aligned in the file.
  uint64_t header;
  std::memcpy(&header, readFile(name).data(), 8);
  EXPECT_EQ(header % 8, 0u);
}

TEST_F(Safetensors, AFailedWriteLeavesTheOldFile) {
  std::string name = path("out.safetensors");
  writeFile(name, "old");
  std::vector<SafetensorsOutput> outputs;
  outputs.push_back({"z", "F32", {1}, [](AtomicFile &f) {
                       f.write("half", 4);
                       throw failure("interrupted");
                     }});
  EXPECT_ERROR(writeSafetensors(name, outputs, {}), ExitFailure, "interrupted");
  EXPECT_EQ(readFile(name), "old");
  // No temporary is left behind.
  auto files = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1);
  EXPECT_ERROR(writeSafetensors(path("no/such/folder"), outputs, {}),
               ExitFailure, "cannot write: No such file or directory");
}

TEST_F(Safetensors, WritesThroughLinksAndNotOverDevices) {
  writeFile(path("real"), "old");
  std::filesystem::create_symlink(path("real"), path("link"));
  writeSafetensors(path("link"), {}, {});
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(SafetensorsFile(path("real")).size(), 0u);
  std::filesystem::create_symlink("/dev/null", path("null"));
  EXPECT_ERROR(writeSafetensors(path("null"), {}, {}), ExitFailure,
               "expected a regular file");
  EXPECT_FALSE(std::filesystem::is_regular_file("/dev/null"));
}

TEST_F(Safetensors, ADiskWithoutRoomIsAnError) {
  // /dev/full fails every write as a full disk does.
  if (!std::filesystem::exists("/dev/full"))
    GTEST_SKIP() << "no /dev/full";
  LineFile lines("/dev/full", /*keep=*/true);
  EXPECT_ERROR(lines.append("x"), ExitFailure, "No space left on device");
}
