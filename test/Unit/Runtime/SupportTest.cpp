//===- SupportTest.cpp - Schedule, conversion, shadow memory, vocabulary --===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "TestFiles.h"
#include "blurt/Convert.h"
#include "blurt/File.h"
#include "blurt/Schedule.h"
#include "blurt/ShadowMemory.h"
#include "blurt/Vocabulary.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace blurt;
using namespace blurt::test;

TEST(Schedule, Values) {
  Schedule constant{ScheduleKind::Constant, 2.0, 0, 4, 0, 100};
  EXPECT_DOUBLE_EQ(constant.rate(0), 0.5);
  EXPECT_DOUBLE_EQ(constant.rate(3), 2.0);
  EXPECT_DOUBLE_EQ(constant.rate(99), 2.0);

  Schedule linear{ScheduleKind::Linear, 1.0, 0.2, 10, 0, 110};
  EXPECT_DOUBLE_EQ(linear.rate(9), 1.0);
  EXPECT_DOUBLE_EQ(linear.rate(10), 1.0);
  EXPECT_DOUBLE_EQ(linear.rate(60), 0.6);
  EXPECT_NEAR(linear.rate(109), 0.208, 1e-12);
  EXPECT_DOUBLE_EQ(linear.rate(500), 0.2);

  Schedule cosine{ScheduleKind::Cosine, 6e-4, 6e-5, 0, 0, 100};
  EXPECT_DOUBLE_EQ(cosine.rate(0), 6e-4);
  EXPECT_DOUBLE_EQ(cosine.rate(50), 3.3e-4);
  EXPECT_NEAR(cosine.rate(25), 6e-5 + 5.4e-4 * 0.85355339059327373, 1e-15);
  EXPECT_DOUBLE_EQ(cosine.rate(100), 6e-5);

  // Warm-up as long as the run, or longer, divides by nothing.
  Schedule allWarm{ScheduleKind::Cosine, 1.0, 0, 10, 0, 10};
  EXPECT_DOUBLE_EQ(allWarm.rate(9), 1.0);

  Schedule wsd{ScheduleKind::WarmupStableDecay, 2.0, 0.5, 10, 20, 100};
  EXPECT_DOUBLE_EQ(wsd.rate(4), 1.0);
  for (int64_t step : {9, 10, 50, 79, 80})
    EXPECT_DOUBLE_EQ(wsd.rate(step), 2.0) << step;
  EXPECT_DOUBLE_EQ(wsd.rate(90), 1.25);
  EXPECT_NEAR(wsd.rate(99), 0.575, 1e-12);
  EXPECT_DOUBLE_EQ(wsd.rate(100), 0.5);
  // No decay at all, and decay from the end of warm-up.
  EXPECT_DOUBLE_EQ(
      (Schedule{ScheduleKind::WarmupStableDecay, 2.0, 0, 0, 0, 9}.rate(8)),
      2.0);
  EXPECT_DOUBLE_EQ(
      (Schedule{ScheduleKind::WarmupStableDecay, 2.0, 0, 1, 8, 9}.rate(5)),
      1.0);
}

TEST(Schedule, FollowsItsFormulas) {
  const double pi = std::acos(-1.0), peak = 3e-4, least = 2e-5;
  for (int64_t warmup : {0, 1, 7})
    for (int64_t steps : {20, 33})
      for (int64_t decay : {1, 5, 13})
        for (int64_t s = 0; s < steps; ++s) {
          auto rate = [&](ScheduleKind kind) {
            return Schedule{kind, peak, least, warmup, decay, steps}.rate(s);
          };
          double x = double(s - warmup) / double(steps - warmup);
          double d =
              double(std::max<int64_t>(0, s - (steps - decay))) / double(decay);
          double expected[] = {peak, peak - (peak - least) * x,
                               (peak + least) / 2 +
                                   (peak - least) / 2 * std::cos(pi * x),
                               peak - (peak - least) * d};
          for (int kind = 0; kind < 4; ++kind)
            EXPECT_NEAR(rate(ScheduleKind(kind)),
                        s < warmup ? peak * double(s + 1) / double(warmup)
                                   : expected[kind],
                        1e-18)
                << kind << " at step " << s;
        }
}

TEST(Convert, Bf16RoundsToNearestEven) {
  EXPECT_EQ(toBf16(1.0f), 0x3F80);
  EXPECT_EQ(toBf16(-2.5f), 0xC020);
  // Halfway between 1 and the next value goes to the even one, above it up.
  EXPECT_EQ(toBf16(1.0f + 0x1p-8f), 0x3F80);
  EXPECT_EQ(toBf16(1.0f + 0x3p-8f), 0x3F82);
  EXPECT_EQ(toBf16(1.0f + 0x1p-8f + 0x1p-20f), 0x3F81);
  // A double just above the tie, which float would round onto the tie.
  EXPECT_EQ(toBf16(1.0 + 0x1p-8 + 0x1p-40), 0x3F81);
  EXPECT_EQ(toBf16(1.0 + 0x3p-8 - 0x1p-40), 0x3F81);
  EXPECT_EQ(toBf16(1.0 + 0x1p-8), 0x3F80);
  EXPECT_EQ(toBf16(-1.0 - 0x1p-8 - 0x1p-40), 0xBF81);
  EXPECT_EQ(toBf16(std::numeric_limits<float>::infinity()), 0x7F80);
  EXPECT_EQ(toBf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_EQ(toBf16(1e300), 0x7F80);
  EXPECT_TRUE(std::isnan(fromBf16(toBf16(std::nanf("")))));
  EXPECT_EQ(fromBf16(0xC020), -2.5f);
}

TEST(Convert, F16IsExact) {
  EXPECT_EQ(fromF16(0x3C00), 1.0f);
  EXPECT_EQ(fromF16(0xC500), -5.0f);
  EXPECT_EQ(fromF16(0x7BFF), 65504.0f);
  EXPECT_EQ(fromF16(0x0001), 0x1p-24f);
  EXPECT_EQ(fromF16(0x03FF), 1023 * 0x1p-24f);
  EXPECT_EQ(fromF16(0x0400), 0x1p-14f);
  EXPECT_TRUE(std::signbit(fromF16(0x8000)));
  EXPECT_EQ(fromF16(0xFC00), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(fromF16(0x7E00)));
}

TEST(FormatBytes, PicksTheUnit) {
  EXPECT_EQ(formatBytes(17), "17 bytes");
  EXPECT_EQ(formatBytes(1536), "1.50 KiB");
  EXPECT_EQ(formatBytes(uint64_t(5) << 30), "5.00 GiB");
}

TEST(ShadowMemory, ChecksReadsAndPoisons) {
  std::vector<std::byte> arena(256);
  ShadowMemory shadow(arena.data(), arena.size());
  EXPECT_ERROR(shadow.use(arena.data(), 8, "op 'add' operand 1"), ExitFailure,
               "memory check: op 'add' operand 1: reads offset 0, which was "
               "never written or is retired");
  shadow.define(arena.data(), 64, "x");
  shadow.use(arena.data(), 64, "x");
  EXPECT_ERROR(shadow.use(arena.data() + 32, 64, "y"), ExitFailure,
               "y: reads offset 64");
  shadow.define(arena.data() + 128, 64, "z");
  EXPECT_EQ(shadow.peakLive(), 128u);
  EXPECT_EQ(shadow.highWater(), 192u);
  shadow.retire(arena.data(), 32, "x");
  EXPECT_EQ(arena[0], std::byte(0xFF));
  EXPECT_EQ(arena[31], std::byte(0xFF));
  EXPECT_EQ(arena[32], std::byte(0));
  float poisoned;
  std::memcpy(&poisoned, arena.data(), 4);
  EXPECT_TRUE(std::isnan(poisoned));
  EXPECT_ERROR(shadow.use(arena.data(), 64, "x"), ExitFailure, "offset 0");
  // Writing again revives; writing twice counts once.
  shadow.define(arena.data(), 64, "x");
  shadow.define(arena.data(), 64, "x");
  EXPECT_EQ(shadow.peakLive(), 128u);
  shadow.forget(64);
  shadow.use(arena.data(), 64, "x");
  EXPECT_ERROR(shadow.use(arena.data() + 128, 1, "z"), ExitFailure, "128");
  EXPECT_ERROR(shadow.define(arena.data() + 200, 57, "w"), ExitFailure,
               "w: 57 bytes at offset 200 lie outside the arena of 256 bytes");
  EXPECT_ERROR(shadow.use(arena.data(), UINT64_MAX, "w"), ExitFailure,
               "outside the arena");
}

namespace {

class VocabularyFile : public TestFolder {
protected:
  std::string tokenizer(const std::vector<std::string> &tokens, int32_t end,
                        int32_t version = 2) {
    std::string bytes =
        shardHeader(20240328, version, uint32_t(tokens.size()), end);
    for (const std::string &token : tokens)
      bytes += char(token.size()) + token;
    return bytes;
  }
};

} // namespace

TEST_F(VocabularyFile, DecodesAndEncodesGreedily) {
  writeFile(path("t"), tokenizer({"a", "b", "ab", "abc", "<end>"}, 4));
  Vocabulary v = Vocabulary::fromFile(path("t"), 5);
  EXPECT_EQ(v.text(3), "abc");
  EXPECT_EQ(v.endOfText(), 4);
  EXPECT_EQ(v.encode("ababca"), (std::vector<int32_t>{2, 3, 0}));
  // The end of text is no text: its spelling is not matched.
  EXPECT_ERROR(v.encode("ab<end>"), ExitBadInput,
               "byte 2 (0x3C) has no token in a vocabulary of 5");
}

TEST_F(VocabularyFile, RefusesDamagedFiles) {
  std::string good = tokenizer({"a", "bcd"}, 1);
  auto bad = [&](const std::string &bytes, int64_t size, const char *part) {
    writeFile(path("t"), bytes);
    EXPECT_ERROR(Vocabulary::fromFile(path("t"), size), ExitBadInput, part);
  };
  bad(good.substr(0, good.size() - 1), 2, "truncated in token 1 of 2");
  bad(good.substr(0, 1024), 2, "truncated in token 0 of 2");
  bad(good + "x", 2, "1 bytes follow the last token");
  bad(good, 3, "expected the 3 tokens of the model's vocabulary, got 2");
  bad(tokenizer({"a"}, 0, 1), 1, "tokenizer file version 2, got 1");
  bad(tokenizer({"a"}, 1), 1, "end-of-text id below 1, got 1");
  bad("short", 1, "header of 1024 bytes, got 5");
  bad(shard16({1}), 1, "magic number 20240328, got 20240520");
}

TEST(Vocabulary, BytesStandForThemselves) {
  Vocabulary v = Vocabulary::bytes(128);
  EXPECT_EQ(v.encode("hi"), (std::vector<int32_t>{'h', 'i'}));
  EXPECT_FALSE(v.endOfText());
  EXPECT_ERROR(v.encode("\xC3\xA9"), ExitBadInput, "byte 0 (0xC3)");
  EXPECT_EQ(Vocabulary::bytes(256).encode("\xFF"), (std::vector<int32_t>{255}));
}
