//===- TokenShardsTest.cpp ------------------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/TokenShards.h"
#include "TestFiles.h"

#include <fcntl.h>
#include <numeric>
#include <set>
#include <unistd.h>

using namespace blurt;
using namespace blurt::test;

namespace {

class TokenShards : public TestFolder {
protected:
  TokenStream open(const std::string &pattern, int64_t vocab = 0) {
    return TokenStream("--data", path(pattern), vocab);
  }
  std::vector<int32_t> tokens(const TokenStream &stream, uint64_t position,
                              uint64_t count) {
    std::vector<int32_t> out(count);
    stream.read(position, count, out.data());
    return out;
  }
};

using Ids = std::vector<int32_t>;

} // namespace

TEST_F(TokenShards, ConcatenatesInNameOrderAndWraps) {
  writeFile(path("d_10.bin"), shard16({5, 6}));
  writeFile(path("d_02.bin"), shard16({1, 2, 3}));
  writeFile(path("d_05.bin"), shard16({}));
  writeFile(path("d_06.bin"), shard16({4}));
  writeFile(path("other.bin"), shard16({9}));
  TokenStream stream = open("d_*.bin");
  EXPECT_EQ(stream.size(), 6u);
  EXPECT_EQ(stream.shardCount(), 4u);
  EXPECT_EQ(tokens(stream, 0, 6), (Ids{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(tokens(stream, 2, 3), (Ids{3, 4, 5}));
  EXPECT_EQ(tokens(stream, 4, 9), (Ids{5, 6, 1, 2, 3, 4, 5, 6, 1}));
  EXPECT_EQ(tokens(stream, 6'000'000'000'003, 2), (Ids{4, 5}));
}

TEST_F(TokenShards, ReadsLlama3Tokens) {
  writeFile(path("a.bin"), shard32({1, 128'255, 70'000}));
  EXPECT_EQ(tokens(open("a.bin", 128'256), 0, 3), (Ids{1, 128'255, 70'000}));
  // An id above int32 is an error even without a vocabulary.
  writeFile(path("b.bin"), shard32({0x80000000}));
  TokenStream stream = open("b.bin");
  EXPECT_ERROR(tokens(stream, 0, 1), ExitBadInput, "got 2147483648");
}

TEST_F(TokenShards, RefusesDamagedFiles) {
  std::string good = shard16({1, 2, 3});
  writeFile(path("truncated.bin"), good.substr(0, good.size() - 1));
  EXPECT_ERROR(open("truncated.bin"), ExitBadInput,
               "truncated.bin: expected 1030 bytes for the 3 tokens of the "
               "header, got 1029 bytes: the file is truncated");
  writeFile(path("long.bin"), good + "x");
  EXPECT_ERROR(open("long.bin"), ExitBadInput,
               "got 1031 bytes: the file is too long");
  writeFile(path("short.bin"), good.substr(0, 1023));
  EXPECT_ERROR(open("short.bin"), ExitBadInput,
               "expected a token file with a header of 1024 bytes, got 1023");
  writeFile(path("empty.bin"), "");
  EXPECT_ERROR(open("empty.bin"), ExitBadInput, "got 0 bytes");
  writeFile(path("magic.bin"), shardHeader(20240521, 1, 0));
  EXPECT_ERROR(open("magic.bin"), ExitBadInput,
               "magic number 20240520 or 20240801, got 20240521");
  writeFile(path("version.bin"), shardHeader(20240520, 7, 0));
  EXPECT_ERROR(open("version.bin"), ExitBadInput,
               "expected token file version 1, got 7");
  writeFile(path("none.bin"), shard16({}));
  EXPECT_ERROR(open("none.bin"), ExitBadInput, "hold no token");
  writeFile(path("mix_1.bin"), shard16({1}));
  writeFile(path("mix_2.bin"), shard32({1}));
  EXPECT_ERROR(open("mix_*.bin"), ExitBadInput,
               "mix_2.bin: expected 16-bit tokens as in");
}

TEST_F(TokenShards, RefusesDamagedFilesOf32BitTokens) {
  std::string good = shard32({1, 2, 3});
  writeFile(path("truncated.bin"), good.substr(0, good.size() - 1));
  EXPECT_ERROR(open("truncated.bin"), ExitBadInput,
               "truncated.bin: expected 1036 bytes for the 3 tokens of the "
               "header, got 1035 bytes: the file is truncated");
  // As many bytes as 16-bit tokens would take.
  writeFile(path("half.bin"), good.substr(0, 1024 + 6));
  EXPECT_ERROR(open("half.bin"), ExitBadInput, "got 1030 bytes");
  writeFile(path("long.bin"), good + "x");
  EXPECT_ERROR(open("long.bin"), ExitBadInput,
               "got 1037 bytes: the file is too long");
  writeFile(path("version.bin"), shardHeader(20240801, 1, 0));
  EXPECT_ERROR(open("version.bin"), ExitBadInput,
               "expected token file version 7, got 1");
  // The count is unsigned, and its bytes are more than 32 bits hold.
  writeFile(path("most.bin"), shardHeader(20240801, 7, 0xffffffff));
  EXPECT_ERROR(open("most.bin"), ExitBadInput,
               "expected 17179870204 bytes for the 4294967295 tokens");
}

TEST_F(TokenShards, RefusesPatternsWithoutFiles) {
  EXPECT_ERROR(open("nothing_*.bin"), ExitBadInput, "--data: no file matches");
  std::filesystem::create_directory(path("folder.bin"));
  EXPECT_ERROR(open("folder.bin"), ExitBadInput, "expected a regular file");
}

TEST_F(TokenShards, ChecksIdsAgainstTheVocabulary) {
  writeFile(path("a_1.bin"), shard16({1, 2}));
  writeFile(path("a_2.bin"), shard16({3, 50257, 4}));
  TokenStream stream = open("a_*.bin", 50257);
  EXPECT_EQ(tokens(stream, 0, 3), (Ids{1, 2, 3}));
  EXPECT_ERROR(tokens(stream, 0, 5), ExitBadInput,
               "a_2.bin: token 1: expected an id below the vocabulary size "
               "50257, got 50257");
}

TEST_F(TokenShards, ReadsPastFourGiB) {
  // Sparse: 2.5 billion tokens, all zero but a few.
  const uint64_t count = 2'500'000'000, at = 2'400'000'000;
  std::string name = path("big.bin");
  int descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT, 0666);
  ASSERT_GE(descriptor, 0);
  std::string header = shardHeader(20240520, 1, uint32_t(count));
  ASSERT_EQ(::write(descriptor, header.data(), header.size()), 1024);
  const uint16_t marks[] = {11, 22, 33};
  ASSERT_EQ(::pwrite(descriptor, marks, 6, off_t(1024 + 2 * at)), 6);
  ASSERT_EQ(::ftruncate(descriptor, off_t(1024 + 2 * count)), 0);
  ::close(descriptor);
  writeFile(path("bigger.bin"), shard16({7}));
  TokenStream stream = open("big*.bin");
  EXPECT_EQ(stream.size(), count + 1);
  EXPECT_EQ(tokens(stream, at - 1, 5), (Ids{0, 11, 22, 33, 0}));
  EXPECT_EQ(tokens(stream, count, 2), (Ids{7, 0}));
}

TEST_F(TokenShards, Reads32BitTokensPastFourGiB) {
  // Sparse: 5 GB, all zero but a few.
  const uint64_t count = 1'250'000'000, at = 1'200'000'000;
  std::string name = path("big.bin");
  int descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT, 0666);
  ASSERT_GE(descriptor, 0);
  std::string header = shardHeader(20240801, 7, uint32_t(count));
  ASSERT_EQ(::write(descriptor, header.data(), header.size()), 1024);
  const uint32_t marks[] = {70'000, 22, 128'256};
  ASSERT_EQ(::pwrite(descriptor, marks, 12, off_t(1024 + 4 * at)), 12);
  ASSERT_EQ(::ftruncate(descriptor, off_t(1024 + 4 * count)), 0);
  ::close(descriptor);
  TokenStream stream = open("big.bin", 128'256);
  EXPECT_EQ(stream.size(), count);
  EXPECT_EQ(tokens(stream, at - 1, 3), (Ids{0, 70'000, 22}));
  EXPECT_EQ(tokens(stream, count - 1, 2), (Ids{0, 0}));
  EXPECT_ERROR(tokens(stream, at, 3), ExitBadInput,
               "big.bin: token 1200000002: expected an id below the vocabulary "
               "size 128256, got 128256");
}

TEST_F(TokenShards, BatchesAreConsecutiveWindows) {
  std::vector<uint16_t> ids(13);
  std::iota(ids.begin(), ids.end(), uint16_t(0));
  writeFile(path("a.bin"), shard16(ids));
  TokenStream stream = open("a.bin");
  BatchReader reader("--data", stream, 2, 3);
  EXPECT_EQ(reader.batchesPerPass(), 2u);
  Ids x(6), y(6);
  reader.read(0, x.data(), y.data());
  EXPECT_EQ(x, (Ids{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(y, (Ids{1, 2, 3, 4, 5, 6}));
  reader.read(1, x.data(), y.data());
  EXPECT_EQ(x, (Ids{6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(y, (Ids{7, 8, 9, 10, 11, 12}));
  // Past the end the stream starts again.
  reader.read(2, x.data(), y.data());
  EXPECT_EQ(x, (Ids{12, 0, 1, 2, 3, 4}));
  EXPECT_EQ(y, (Ids{0, 1, 2, 3, 4, 5}));
}

TEST_F(TokenShards, RefusesAStreamShorterThanABatch) {
  writeFile(path("a.bin"), shard16({1, 2, 3, 4, 5, 6}));
  TokenStream stream = open("a.bin");
  EXPECT_ERROR(BatchReader("--data", stream, 2, 3), ExitBadInput,
               "--data: expected at least 7 tokens for one batch of 2 "
               "sequences of 3, got 6");
  BatchReader fits("--data", stream, 1, 5);
  Ids x(5), y(5);
  fits.read(0, x.data(), y.data());
  EXPECT_EQ(y, (Ids{2, 3, 4, 5, 6}));
}

TEST_F(TokenShards, ShufflingVisitsEveryWindowOncePerPass) {
  std::vector<uint16_t> ids(4 * 25 + 1);
  std::iota(ids.begin(), ids.end(), uint16_t(0));
  writeFile(path("a.bin"), shard16(ids));
  TokenStream stream = open("a.bin");
  BatchReader reader("--data", stream, 5, 4);
  reader.shuffle(3);
  Ids x(20), y(20), first;
  for (uint64_t epoch = 0; epoch < 2; ++epoch) {
    Ids order;
    for (uint64_t batch = 0; batch < 5; ++batch) {
      reader.read(epoch * 5 + batch, x.data(), y.data());
      for (size_t i = 0; i < 20; ++i) {
        EXPECT_EQ(y[i], x[i] + 1);
        EXPECT_EQ(x[i] - x[i / 4 * 4], int(i % 4));
      }
      for (size_t row = 0; row < 5; ++row)
        order.push_back(x[row * 4]);
    }
    EXPECT_EQ(std::set<int32_t>(order.begin(), order.end()).size(), 25u);
    EXPECT_NE(order, first);
    EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
    first = order;
  }
  BatchReader same("--data", stream, 5, 4), other("--data", stream, 5, 4);
  same.shuffle(3);
  other.shuffle(4);
  Ids a(20), b(20);
  reader.read(1, x.data(), y.data());
  same.read(1, a.data(), y.data());
  other.read(1, b.data(), y.data());
  EXPECT_EQ(a, x);
  EXPECT_NE(b, x);
}

namespace {

/// Of this process, in bytes, without what is mapped from files.
int64_t ownMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "RssAnon:") {
      int64_t kib = 0;
      status >> kib;
      return kib * 1024;
    }
  return -1;
}

int64_t openDescriptors() {
  std::filesystem::directory_iterator all("/proc/self/fd"), end;
  return std::distance(all, end);
}

} // namespace

TEST_F(TokenShards, AMillionStepsKeepNothing) {
  std::vector<uint16_t> ids(1 << 16);
  std::iota(ids.begin(), ids.end(), uint16_t(0));
  for (const char *name : {"a1.bin", "a2.bin", "a3.bin"})
    writeFile(path(name), shard16(ids));
  TokenStream stream = open("a*.bin");
  BatchReader reader("--data", stream, 2, 16);
  reader.shuffle(1);
  Ids x(32), y(32);
  auto run = [&](uint64_t begin, uint64_t end) {
    for (uint64_t step = begin; step < end; ++step) {
      reader.readFrom(2 * step, x.data(), y.data());
      reader.prefetch(2 * step + 2);
    }
  };
  run(0, 1'000);
  int64_t memory = ownMemory(), descriptors = openDescriptors();
  ASSERT_GT(memory, 0);
  run(1'000, 1'000'000);
  EXPECT_LT(ownMemory() - memory, 1 << 18);
  EXPECT_EQ(openDescriptors(), descriptors);
}

// docs/results/loader.md has what it measures; here it only has to be enough.
TEST_F(TokenShards, ReadsFiftyMillionTokensASecond) {
  constexpr int64_t kRows = 32, kLength = 1024, kSteps = 1'000;
  writeFile(path("a.bin"), shard16(std::vector<uint16_t>(20'000'000, 7)));
  writeFile(path("b.bin"), shard32(std::vector<uint32_t>(20'000'000, 7)));
  for (const char *name : {"a.bin", "b.bin"})
    for (bool shuffled : {false, true}) {
      TokenStream stream = open(name, 50'257);
      BatchReader reader("--data", stream, kRows, kLength);
      if (shuffled)
        reader.shuffle(1);
      Ids x(kRows * kLength), y(kRows * kLength);
      timespec begin, end;
      // The time of this thread, whatever else the machine does.
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
      for (uint64_t step = 0; step < kSteps; ++step) {
        reader.readFrom(step * kRows, x.data(), y.data());
        reader.prefetch((step + 1) * kRows);
      }
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
      double seconds = double(end.tv_sec - begin.tv_sec) +
                       double(end.tv_nsec - begin.tv_nsec) * 1e-9;
      double rate = double(kRows * kLength * kSteps) / seconds;
      RecordProperty(std::string(name, 1) + (shuffled ? "_shuffled" : ""),
                     std::to_string(rate * 1e-6) + " million tokens/s");
      std::printf("%s%s: %.0f million tokens/s\n", name,
                  shuffled ? ", shuffled" : "", rate * 1e-6);
      EXPECT_GT(rate, 50e6);
    }
}
