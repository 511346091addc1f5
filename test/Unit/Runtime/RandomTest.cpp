//===- RandomTest.cpp -----------------------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Random.h"

#include <gtest/gtest.h>
#include <vector>

using namespace blurt;

// The known answers that the authors of Philox publish with Random123.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                       {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                       {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(HashName, KnownAnswers) {
  EXPECT_EQ(hashName(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hashName("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(hashName("foobar"), 0x85944171f73967e8u);
}

TEST(RandomStream, NormalMoments) {
  RandomStream random(7, "wte.weight");
  const int64_t count = 400'000;
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  for (int64_t i = 0; i < count; ++i) {
    double x = random.normal(uint64_t(i));
    m1 += x;
    m2 += x * x;
    m3 += x * x * x;
    m4 += x * x * x * x;
  }
  // Five standard errors: of the k-th moment, sqrt(E[x^2k] - E[x^k]^2) / n.
  double root = std::sqrt(double(count));
  EXPECT_NEAR(m1 / count, 0, 5 * 1.0 / root);
  EXPECT_NEAR(m2 / count, 1, 5 * std::sqrt(2.0) / root);
  EXPECT_NEAR(m3 / count, 0, 5 * std::sqrt(15.0) / root);
  EXPECT_NEAR(m4 / count, 3, 5 * std::sqrt(96.0) / root);
}

TEST(RandomStream, UniformIsFlatAndInRange) {
  RandomStream random(7, "x");
  const int64_t count = 160'000;
  std::vector<int64_t> bins(16);
  for (int64_t i = 0; i < count; ++i) {
    double x = random.uniform(uint64_t(i));
    ASSERT_GE(x, 0);
    ASSERT_LT(x, 1);
    ++bins[size_t(x * 16)];
  }
  double chi = 0;
  for (int64_t bin : bins)
    chi += (double(bin) - 1e4) * (double(bin) - 1e4) / 1e4;
  // The 0.1% and 99.9% points of chi-squared with 15 degrees of freedom.
  EXPECT_GT(chi, 3.48);
  EXPECT_LT(chi, 37.7);
}

TEST(RandomStream, DependsOnSeedNameAndIndex) {
  RandomStream a(1, "x"), b(2, "x"), c(1, "y"), again(1, "x"),
      highSeed(1 | uint64_t(1) << 32, "x");
  EXPECT_EQ(a.bits(5), again.bits(5));
  EXPECT_NE(a.bits(5), b.bits(5));
  EXPECT_NE(a.bits(5), c.bits(5));
  EXPECT_NE(a.bits(5), highSeed.bits(5));
  EXPECT_NE(a.bits(4), a.bits(5));
  // The index does not wrap at 32 bits.
  EXPECT_NE(a.bits(8), a.bits(8 + (uint64_t(1) << 33)));
}

TEST(RandomStream, NeighbouringNormalsAreUncorrelated) {
  RandomStream random(3, "x");
  const int64_t count = 200'000;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += random.normal(uint64_t(i)) * random.normal(uint64_t(i) + 1);
  EXPECT_NEAR(sum / count, 0, 5 / std::sqrt(double(count)));
}

TEST(Permuted, IsAPermutationForEverySize) {
  for (uint64_t count : {1, 2, 3, 5, 16, 17, 1000}) {
    std::vector<bool> seen(count);
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t to = permuted(9, 4, i, count);
      ASSERT_LT(to, count);
      EXPECT_FALSE(seen[to]) << count << " " << i;
      seen[to] = true;
    }
  }
}

TEST(Permuted, DiffersBySeedAndEpoch) {
  int sameSeed = 0, sameEpoch = 0, fixed = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    uint64_t to = permuted(1, 0, i, 1000);
    sameSeed += to == permuted(2, 0, i, 1000);
    sameEpoch += to == permuted(1, 1, i, 1000);
    fixed += to == i;
  }
  // One in a thousand agrees by chance.
  EXPECT_LT(sameSeed, 10);
  EXPECT_LT(sameEpoch, 10);
  EXPECT_LT(fixed, 10);
}
