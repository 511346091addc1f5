//===- GemmTest.cpp -------------------------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Context.h"
#include "blurt/GemmTiling.h"
#include "blurt/Random.h"
#include "blurt/blurt.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>
#include <tuple>
#include <vector>

using namespace blurt;

namespace {

void gemm(Context &context, bool ta, bool tb, int64_t batch, int64_t m,
          int64_t n, int64_t k, const float *a, int64_t lda, int64_t sa,
          const float *b, int64_t ldb, int64_t sb, float beta, float *c,
          int64_t ldc, int64_t sc) {
  blurt_gemm_f32(&context, ta, tb, batch, m, n, k, a, lda, sa, b, ldb, sb, beta,
                 c, ldc, sc);
}
void gemm(Context &context, bool ta, bool tb, int64_t batch, int64_t m,
          int64_t n, int64_t k, const double *a, int64_t lda, int64_t sa,
          const double *b, int64_t ldb, int64_t sb, double beta, double *c,
          int64_t ldc, int64_t sc) {
  blurt_gemm_f64(&context, ta, tb, batch, m, n, k, a, lda, sa, b, ldb, sb, beta,
                 c, ldc, sc);
}

template <typename T>
std::vector<T> randomVector(size_t size, const char *name) {
  std::vector<T> result(size);
  RandomStream random(1, name);
  for (size_t i = 0; i < size; ++i)
    result[i] = T(random.uniform(i) - 0.5);
  return result;
}

/// One product with rows longer than the matrices, matrices apart, and the
/// bytes between them checked to be untouched.
template <typename T> struct Problem {
  bool ta, tb;
  int64_t batch, m, n, k;
  bool broadcastA = false;
  T beta = 0;
  int64_t padA = 3, padB = 1, padC = 2;

  int64_t lda() const { return (ta ? m : k) + padA; }
  int64_t ldb() const { return (tb ? k : n) + padB; }
  int64_t ldc() const { return n + padC; }
  int64_t sizeA() const { return (ta ? k : m) * lda() + 5; }
  int64_t sizeB() const { return (tb ? n : k) * ldb() + 7; }
  int64_t sizeC() const { return m * ldc() + 4; }

  std::vector<T> a() const {
    return randomVector<T>(size_t(batch * sizeA()) + 1, "a");
  }
  std::vector<T> b() const {
    return randomVector<T>(size_t(batch * sizeB()) + 1, "b");
  }
  std::vector<T> c() const {
    auto c = randomVector<T>(size_t(batch * sizeC()) + 1, "c");
    // With beta 0, C is only written: what it held must not matter.
    if (beta == 0)
      for (T &value : c)
        value = std::numeric_limits<T>::quiet_NaN();
    return c;
  }

  std::vector<T> run(unsigned threads) const {
    Context context(threads);
    auto va = a(), vb = b(), vc = c();
    gemm(context, ta, tb, batch, m, n, k, va.data(), lda(),
         broadcastA ? 0 : sizeA(), vb.data(), ldb(), sizeB(), beta, vc.data(),
         ldc(), sizeC());
    return vc;
  }

  void check() const {
    auto va = a(), vb = b(), before = c(), after = run(2);
    double unit = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;
    std::vector<bool> written(after.size());
    for (int64_t i = 0; i < batch; ++i)
      for (int64_t row = 0; row < m; ++row)
        for (int64_t col = 0; col < n; ++col) {
          size_t at = size_t(i * sizeC() + row * ldc() + col);
          written[at] = true;
          double sum = beta == 0 ? 0 : double(beta) * double(before[at]);
          double bound = std::abs(sum);
          for (int64_t p = 0; p < k; ++p) {
            double x =
                double(va[size_t((broadcastA ? 0 : i * sizeA()) +
                                 (ta ? p * lda() + row : row * lda() + p))]);
            double y = double(vb[size_t(
                i * sizeB() + (tb ? col * ldb() + p : p * ldb() + col))]);
            sum += x * y;
            bound += std::abs(x * y);
          }
          ASSERT_LE(std::abs(double(after[at]) - sum),
                    2 * double(k + 1) * unit * bound)
              << "matrix " << i << " row " << row << " column " << col;
        }
    for (size_t at = 0; at < after.size(); ++at)
      if (!written[at]) {
        ASSERT_EQ(std::memcmp(&after[at], &before[at], sizeof(T)), 0)
            << "element " << at << " is outside C and was written";
      }
  }
};

class GemmForms : public ::testing::TestWithParam<std::tuple<bool, bool, int>> {
};

/// Several threads multiply at once; each has to get what one alone gets. (The
/// serial flavour of Debian's OpenBLAS fails here.)
template <typename T> void checkConcurrentCalls() {
  const int64_t shapes[][3] = {{32, 16, 32}, {64, 64, 64}, {256, 64, 128}};
  for (auto [m, n, k] : shapes)
    for (int trans = 0; trans < 4; ++trans) {
      bool ta = trans & 1, tb = trans & 2;
      std::vector<T> a = randomVector<T>(size_t(m * k), "a");
      std::vector<T> b = randomVector<T>(size_t(k * n), "b");
      auto multiply = [&, m = m, n = n, k = k](std::vector<T> &c) {
        if constexpr (sizeof(T) == 4)
          blurt_gemm_tile_f32(ta, tb, m, n, k, 1, a.data(), ta ? m : k,
                              b.data(), tb ? k : n, 0, c.data(), n);
        else
          blurt_gemm_tile_f64(ta, tb, m, n, k, 1, a.data(), ta ? m : k,
                              b.data(), tb ? k : n, 0, c.data(), n);
      };
      std::vector<T> expected(size_t(m * n));
      multiply(expected);
      std::atomic<int> wrong = 0;
      std::vector<std::thread> threads;
      for (int t = 0; t < 3; ++t)
        threads.emplace_back([&] {
          std::vector<T> c(expected.size());
          for (int i = 0; i < 1000; ++i) {
            multiply(c);
            wrong += std::memcmp(c.data(), expected.data(),
                                 c.size() * sizeof(T)) != 0;
          }
        });
      for (std::thread &thread : threads)
        thread.join();
      EXPECT_EQ(wrong, 0) << m << "x" << n << "x" << k << " trans " << trans;
    }
}

TEST(GemmTest, ConcurrentCallsF32) { checkConcurrentCalls<float>(); }
TEST(GemmTest, ConcurrentCallsF64) { checkConcurrentCalls<double>(); }

} // namespace

TEST_P(GemmForms, MatchesTheNaiveLoop) {
  auto [ta, tb, beta] = GetParam();
  const int64_t shapes[][3] = {
      {1, 1, 1},   {1, 7, 5},    {7, 1, 5},     {5, 7, 1},      {1, 130, 33},
      {17, 3, 65}, {31, 33, 29}, {130, 67, 41}, {300, 270, 19}, {2, 2, 257}};
  for (auto [m, n, k] : shapes) {
    SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" +
                 std::to_string(k));
    Problem<float>{ta, tb, 1, m, n, k, false, float(beta)}.check();
    Problem<double>{ta, tb, 1, m, n, k, false, double(beta)}.check();
    Problem<float>{ta, tb, 3, m, n, k, false, float(beta)}.check();
    Problem<double>{ta, tb, 2, m, n, k, true, double(beta)}.check();
  }
}

INSTANTIATE_TEST_SUITE_P(All, GemmForms,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Bool(),
                                            ::testing::Values(0, 1)));

TEST(Gemm, EmptyProducts) {
  // k = 0: C becomes zero, or stays with beta 1.
  Problem<float> sum{false, true, 2, 3, 4, 0};
  sum.check();
  sum.beta = 1;
  sum.check();
  Problem<double>{true, false, 1, 1, 4, 0}.check();
  // No rows, no columns, no matrices: nothing is touched.
  Problem<float>{false, false, 2, 0, 4, 3}.check();
  Problem<float>{false, false, 2, 4, 0, 3}.check();
  Problem<float>{false, false, 0, 4, 4, 3}.check();
}

TEST(Gemm, SameBitsForAnyNumberOfThreads) {
  const int64_t shapes[][4] = {{1, 257, 513, 129},
                               {1, 1, 4000, 96},
                               {1, 1024, 96, 64},
                               {1, 96, 1000, 1030},
                               {12, 65, 65, 16}};
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (auto [batch, m, n, k] : shapes) {
        Problem<float> f{ta, tb, batch, m, n, k};
        f.beta = 1;
        Problem<double> d{ta, tb, batch, m, n, k};
        d.beta = 1;
        auto f1 = f.run(1);
        auto d1 = d.run(1);
        for (unsigned threads : {1u, 2u, 5u}) {
          auto ft = f.run(threads);
          auto dt = d.run(threads);
          EXPECT_EQ(std::memcmp(ft.data(), f1.data(), 4 * f1.size()), 0);
          EXPECT_EQ(std::memcmp(dt.data(), d1.data(), 8 * d1.size()), 0);
        }
      }
}

/// The bf16 product is the f32 product of the same numbers, whose sums over
/// more than one block of depth differ by rounding alone, and is rounded once.
class Bf16Gemm
    : public ::testing::TestWithParam<std::tuple<bool, bool, int64_t>> {};

TEST_P(Bf16Gemm, MatchesF32) {
  auto [ta, tb, k] = GetParam();
  const int64_t batch = 2, m = 37, n = 21, lda = (ta ? m : k) + 3,
                ldb = (tb ? k : n) + 1, ldc = n + 2;
  int64_t sizeA = (ta ? k : m) * lda, sizeB = (tb ? n : k) * ldb;
  auto half = [](int64_t count, const char *name, std::vector<float> &wide) {
    wide = randomVector<float>(size_t(count), name);
    std::vector<uint16_t> bits;
    for (float &x : wide) {
      bits.push_back(uint16_t(std::bit_cast<uint32_t>(x) >> 16));
      x = std::bit_cast<float>(uint32_t(bits.back()) << 16);
    }
    return bits;
  };
  std::vector<float> wideA, wideB;
  std::vector<uint16_t> a = half(batch * sizeA, "a", wideA);
  std::vector<uint16_t> b = half(batch * sizeB, "b", wideB);
  std::vector<float> start = randomVector<float>(size_t(batch * m * ldc), "c");
  for (float beta : {0.0f, 1.0f}) {
    Context context(3), serial(1);
    std::vector<float> expected = start, found = start, again = start;
    blurt_gemm_f32(&context, ta, tb, batch, m, n, k, wideA.data(), lda, sizeA,
                   wideB.data(), ldb, sizeB, beta, expected.data(), ldc,
                   m * ldc);
    auto run = [&](Context &on, int32_t narrow, void *c) {
      blurt_gemm_bf16(&on, ta, tb, batch, m, n, k, a.data(), lda, sizeA,
                      b.data(), ldb, sizeB, beta, narrow, c, ldc, m * ldc);
    };
    run(context, 0, found.data());
    run(serial, 0, again.data());
    EXPECT_EQ(found, again);
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 0x1p-24 * 4 * double(k + 1));
    if (beta != 0)
      continue;
    std::vector<uint16_t> rounded(found.size(), 0x7fc0);
    run(context, 1, rounded.data());
    for (int64_t row = 0; row < batch * m; ++row)
      for (int64_t col = 0; col < ldc; ++col) {
        size_t at = size_t(row * ldc + col);
        if (col >= n) {
          ASSERT_EQ(rounded[at], 0x7fc0);
          continue;
        }
        float value = std::bit_cast<float>(uint32_t(rounded[at]) << 16);
        ASSERT_LE(std::abs(value - found[at]), 0x1p-8 * std::abs(found[at]));
      }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Bf16Gemm,
                         ::testing::Combine(::testing::Bool(),
                                            ::testing::Bool(),
                                            ::testing::Values(0, 1, 40, 2500)));

TEST(Gemm, TileScalesByAlpha) {
  const float a[] = {1, 2, 3, 4}, b[] = {1, 0, 0, 1};
  float c[] = {10, 10, 10, 10};
  blurt_gemm_tile_f32(0, 0, 2, 2, 2, 0.5f, a, 2, b, 2, 1, c, 2);
  EXPECT_EQ(c[0], 10.5f);
  EXPECT_EQ(c[3], 12.0f);
  const double x[] = {1, 2}, y[] = {3, 4};
  double z[] = {NAN};
  blurt_gemm_tile_f64(0, 1, 1, 1, 2, 2, x, 2, y, 2, 0, z, 1);
  EXPECT_EQ(z[0], 22.0);
}

TEST(GemmTiling, CoversTheMatrixWithinItsLimits) {
  for (int64_t batch : {1, 3, 64})
    for (int64_t m : {1, 17, 256, 1000, 8192})
      for (int64_t n : {1, 33, 256, 50257})
        for (int64_t k : {1, 64, 4096}) {
          GemmTiling t = GemmTiling::forShape(batch, m, n, k);
          ASSERT_GE(t.tileM * t.countM, m);
          ASSERT_GE(t.tileN * t.countN, n);
          ASSERT_LT(t.tileM * (t.countM - 1), m);
          ASSERT_LT(t.tileN * (t.countN - 1), n);
          ASSERT_GE(t.grain(k), 1);
        }
  // A small product is not cut; a usual one gives a few threads equal shares.
  EXPECT_EQ(GemmTiling::forShape(1, 64, 64, 64).tasks(), 1);
  EXPECT_EQ(GemmTiling::forShape(1, 1024, 1024, 256).tasks(), 4);
  EXPECT_EQ(GemmTiling::forShape(64, 256, 256, 64).tasks(), 1);
}
