//===- LibraryTest.cpp - GEMM, scatter, cache -----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blurt;
using namespace mlir::blurt::test;

namespace {

/// A matrix buffer: extents as stored, row-major or column-major, padded rows.
unsigned addMatrix(KernelHarness &h, Type type, int64_t batch, int64_t rows,
                   int64_t columns, bool columnMajor, int64_t pad) {
  int64_t ld = (columnMajor ? rows : columns) + pad;
  SmallVector<int64_t> shape{rows, columns};
  SmallVector<int64_t> strides{columnMajor ? 1 : ld, columnMajor ? ld : 1};
  if (batch > 0) {
    shape.insert(shape.begin(), batch);
    strides.insert(strides.begin(), ld * (columnMajor ? columns : rows));
  }
  return h.add(shape, type, strides);
}

void checkGemm(bool isDouble, int64_t batch, int64_t batchB, int64_t m,
               int64_t n, int64_t k, unsigned flags, bool accumulate) {
  KernelHarness h;
  h.random().seed(flags + 1000 * m + n);
  Type type = isDouble ? h.f64() : h.f32();
  bool transA = flags & 1, transB = flags & 2;
  auto matrix = [&](int64_t batch, int64_t rows, int64_t columns, bool swap,
                    bool columnMajor) {
    return addMatrix(h, type, batch, swap ? columns : rows,
                     swap ? rows : columns, columnMajor, (flags >> 5) * 3);
  };
  unsigned a = matrix(batch, m, k, transA, flags & 4);
  unsigned b = matrix(batchB, k, n, transB, flags & 8);
  unsigned c = matrix(batch, m, n, false, flags & 16);
  for (unsigned buffer : {a, b, c})
    h.randomize(buffer);
  GemmOp::create(h.builder(), TypeRange(), h.value(a), h.value(b),
                 accumulate ? h.value(c) : Value(), Value(),
                 ValueRange{h.value(c)}, transA, transB);
  std::vector<double> start = h.contents(c);
  ASSERT_TRUE(h.compile()) << h.dump;
  h.run(2);
  ASSERT_TRUE(h.othersUntouched({c})) << h.dump;
  std::vector<double> found = h.contents(c);
  size_t i = 0;
  for (int64_t p = 0; p < std::max<int64_t>(1, batch); ++p)
    for (int64_t r = 0; r < m; ++r)
      for (int64_t s = 0; s < n; ++s, ++i) {
        double total = accumulate ? start[i] : 0;
        for (int64_t t = 0; t < k; ++t) {
          Coordinates atA{transA ? t : r, transA ? r : t};
          Coordinates atB{transB ? s : t, transB ? t : s};
          if (batch > 0) {
            atA.insert(atA.begin(), p);
            atB.insert(atB.begin(), batchB == 1 ? 0 : p);
          }
          total += h.get(a, atA) * h.get(b, atB);
        }
        double epsilon = isDouble ? 0x1p-52 : 0x1p-23;
        ASSERT_NEAR(found[i], total, epsilon * (4 + k) * (1 + std::abs(total)))
            << h.dump;
      }
}

TEST(Gemm, LayoutsAndFlags) {
  for (unsigned flags = 0; flags < 64; ++flags)
    checkGemm(flags % 3 == 0, 0, 0, 5, 7, 9, flags, flags & 1);
}

TEST(Gemm, ThinMatrices) {
  for (unsigned flags : {0u, 4u, 8u, 16u, 31u, 33u})
    for (auto [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 7, 3},
                           {7, 1, 3},
                           {7, 5, 1},
                           {1, 1, 1},
                           {1, 1, 9}})
      checkGemm(false, 0, 0, m, n, k, flags, false);
}

TEST(Gemm, Batches) {
  for (unsigned flags = 0; flags < 32; flags += 3) {
    checkGemm(false, 3, 3, 4, 6, 5, flags, false);
    checkGemm(false, 3, 1, 4, 6, 5, flags, true);
    checkGemm(true, 1, 1, 4, 6, 5, flags, false);
  }
}

TEST(ScatterAdd, InOrderOfIds) {
  for (int64_t columns : {1, 16, 64, 67, 150})
    for (bool wide : {false, true}) {
      KernelHarness h;
      Type idType = wide ? h.builder().getI64Type() : h.builder().getI32Type();
      constexpr int64_t rows = 12, count = 50;
      unsigned ids = h.add({count}, idType);
      unsigned updates = h.add({count, columns}, h.f32());
      unsigned out = h.add({rows, columns}, h.f32());
      h.randomize(ids);
      h.randomize(updates);
      ScatterAddOp::create(h.builder(), TypeRange(), h.value(ids),
                           h.value(updates), ValueRange{h.value(out)});
      ASSERT_TRUE(h.compile()) << h.dump;
      h.run(2);
      ASSERT_TRUE(h.othersUntouched({out}));
      for (int64_t v = 0; v < rows; ++v)
        for (int64_t c = 0; c < columns; ++c) {
          // The order is defined, so the bits are.
          float total = 0;
          for (int64_t n = 0; n < count; ++n)
            if (h.get(ids, {n}) == v)
              total += float(h.get(updates, {n, c}));
          ASSERT_EQ(h.get(out, {v, c}), total) << v << ' ' << c;
        }
    }
}

TEST(CacheUpdate, CopiesRowsToPosition) {
  for (bool strided : {false, true}) {
    KernelHarness h;
    unsigned cache = h.add({2, 10, 3, 5}, h.f32());
    // Rows as a view of a packed buffer, and with the inner dims swapped.
    unsigned rows = strided ? h.add({2, 4, 3, 5}, h.f32(), {100, 25, 1, 3})
                            : h.add({2, 4, 3, 5}, h.f32(), {180, 45, 5, 1});
    unsigned position = h.add({}, h.builder().getI64Type());
    h.randomize(cache);
    h.randomize(rows);
    h.set(position, {}, 3);
    CacheUpdateOp::create(h.builder(), TypeRange(), h.value(cache),
                          h.value(rows), h.value(position),
                          ValueRange{h.value(cache)});
    std::vector<double> expected = h.contents(cache);
    size_t i = 0;
    forEachPoint({2, 10, 3, 5}, [&](const Coordinates &at) {
      if (at[1] >= 3 && at[1] < 7)
        expected[i] = h.get(rows, {at[0], at[1] - 3, at[2], at[3]});
      ++i;
    });
    ASSERT_TRUE(h.compile()) << h.dump;
    h.run(2);
    EXPECT_EQ(h.contents(cache), expected);
    EXPECT_TRUE(h.othersUntouched({cache}));
  }
}

} // namespace
