//===- AttentionTest.cpp - tiled against naive attention ------*- C++ -*-===//
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

struct Shape {
  int64_t batch, queries, keys, heads, keyHeads, depth;
  bool causal;
  int64_t position = -1;
};

/// Attention and its gradient in f64, straight from the formulas.
struct Naive {
  Naive(KernelHarness &h, const Shape &s, unsigned q, unsigned k, unsigned v,
        unsigned d_o) {
    int64_t B = s.batch, T = s.queries, S = s.keys, H = s.heads, D = s.depth;
    double scale = 1 / std::sqrt(double(D));
    o.assign(B * T * H * D, 0);
    lse.assign(B * H * T, 0);
    dq.assign(o.size(), 0);
    dk.assign(B * S * s.keyHeads * D, 0);
    dv.assign(dk.size(), 0);
    for (int64_t b = 0; b < B; ++b)
      for (int64_t n = 0; n < H; ++n)
        for (int64_t t = 0; t < T; ++t) {
          int64_t m = n / (H / s.keyHeads);
          int64_t end = s.position >= 0 ? s.position + t + 1
                        : s.causal      ? t + S - T + 1
                                        : S;
          end = std::clamp<int64_t>(end, 0, S);
          std::vector<double> p(end);
          double max = -INFINITY, sum = 0;
          for (int64_t i = 0; i < end; ++i) {
            double dot = 0;
            for (int64_t d = 0; d < D; ++d)
              dot += h.get(q, {b, t, n, d}) * h.get(k, {b, i, m, d});
            p[i] = scale * dot;
            max = std::max(max, p[i]);
          }
          for (double &x : p)
            sum += x = std::exp(x - max);
          lse[(b * H + n) * T + t] = end ? max + std::log(sum) : -INFINITY;
          auto row = [&](int64_t d) { return ((b * T + t) * H + n) * D + d; };
          auto keyRow = [&](int64_t i, int64_t d) {
            return ((b * S + i) * s.keyHeads + m) * D + d;
          };
          for (int64_t i = 0; i < end; ++i) {
            p[i] /= sum;
            for (int64_t d = 0; d < D; ++d)
              o[row(d)] += p[i] * h.get(v, {b, i, m, d});
          }
          double delta = 0;
          for (int64_t d = 0; d < D; ++d)
            delta += o[row(d)] * h.get(d_o, {b, t, n, d});
          for (int64_t i = 0; i < end; ++i) {
            double dp = 0;
            for (int64_t d = 0; d < D; ++d) {
              dp += h.get(d_o, {b, t, n, d}) * h.get(v, {b, i, m, d});
              dv[keyRow(i, d)] += p[i] * h.get(d_o, {b, t, n, d});
            }
            double ds = p[i] * (dp - delta) * scale;
            for (int64_t d = 0; d < D; ++d) {
              dq[row(d)] += ds * h.get(k, {b, i, m, d});
              dk[keyRow(i, d)] += ds * h.get(q, {b, t, n, d});
            }
          }
        }
  }
  std::vector<double> o, lse, dq, dk, dv;
};

/// Forward and (without a position) backward over views of one packed buffer.
void checkAttention(const Shape &s, bool isDouble) {
  KernelHarness h;
  h.random().seed(s.queries * 100 + s.keys);
  Type type = isDouble ? h.f64() : h.f32();
  int64_t D = s.depth;
  unsigned q, k, v;
  bool packed = s.queries == s.keys;
  if (packed) {
    int64_t row = (s.heads + 2 * s.keyHeads) * D;
    unsigned all = h.add({s.batch, s.queries, row}, type);
    h.randomize(all);
    SmallVector<int64_t> strides{s.queries * row, row, D, 1};
    q = h.alias(all, {s.batch, s.queries, s.heads, D}, strides);
    k = h.alias(all, {s.batch, s.keys, s.keyHeads, D}, strides, s.heads * D);
    v = h.alias(all, {s.batch, s.keys, s.keyHeads, D}, strides,
                (s.heads + s.keyHeads) * D);
  } else {
    q = h.add({s.batch, s.queries, s.heads, D}, type);
    k = h.add({s.batch, s.keys, s.keyHeads, D}, type);
    v = h.add({s.batch, s.keys, s.keyHeads, D}, type);
    for (unsigned buffer : {q, k, v})
      h.randomize(buffer);
  }
  unsigned d_o = h.add({s.batch, s.queries, s.heads, D}, type);
  unsigned o = h.add({s.batch, s.queries, s.heads, D}, type);
  unsigned lse = h.add({s.batch, s.heads, s.queries}, type);
  unsigned dq = h.add({s.batch, s.queries, s.heads, D}, type);
  unsigned dk = h.add({s.batch, s.keys, s.keyHeads, D}, type);
  unsigned dv = h.add({s.batch, s.keys, s.keyHeads, D}, type);
  h.randomize(d_o);
  Value position;
  if (s.position >= 0) {
    unsigned slot = h.add({}, h.builder().getI64Type());
    h.set(slot, {}, double(s.position));
    position = h.value(slot);
  }
  APFloat scale(1 / std::sqrt(double(D)));
  AttentionOp::create(h.builder(), TypeRange(), h.value(q), h.value(k),
                      h.value(v), position,
                      ValueRange{h.value(o), h.value(lse)}, scale, s.causal);
  std::vector<unsigned> outs{o, lse};
  bool backward = s.position < 0;
  if (backward) {
    AttentionGradOp::create(h.builder(), TypeRange(), h.value(q), h.value(k),
                            h.value(v), h.value(o), h.value(lse), h.value(d_o),
                            ValueRange{h.value(dq), h.value(dk), h.value(dv)},
                            scale, s.causal);
    outs.insert(outs.end(), {dq, dk, dv});
  }
  ASSERT_TRUE(h.compile()) << h.dump;
  h.run(1);
  ASSERT_TRUE(h.othersUntouched(outs));
  std::string single = h.bytes();
  Naive naive(h, s, q, k, v, d_o);
  auto compare = [&](const char *what, unsigned buffer,
                     const std::vector<double> &expected) {
    std::vector<double> found = h.contents(buffer);
    // Sums over keys, depth or queries of values of size about 1.
    double terms = double(std::max({s.keys, s.queries * s.heads, D}));
    double tolerance =
        (isDouble ? 0x1p-52 : 0x1p-23) * (32 + 2 * std::sqrt(terms));
    for (size_t i = 0; i < found.size(); ++i) {
      if (std::isinf(expected[i])) {
        ASSERT_EQ(found[i], expected[i]) << what << ' ' << i;
        continue;
      }
      ASSERT_NEAR(found[i], expected[i],
                  tolerance * (1 + std::abs(expected[i])))
          << what << ' ' << i << "\n"
          << h.dump;
    }
  };
  compare("o", o, naive.o);
  compare("lse", lse, naive.lse);
  if (backward) {
    compare("dq", dq, naive.dq);
    compare("dk", dk, naive.dk);
    compare("dv", dv, naive.dv);
  }
  h.run(2);
  EXPECT_TRUE(single == h.bytes()) << "threads change bits";
}

TEST(Attention, Shapes) {
  for (bool isDouble : {false, true})
    for (const Shape &shape :
         {Shape{1, 1, 1, 1, 1, 1, false}, Shape{2, 5, 5, 2, 2, 3, true},
          Shape{1, 64, 64, 1, 1, 16, true}, Shape{2, 65, 65, 3, 3, 7, true},
          Shape{1, 130, 130, 2, 1, 33, true},
          Shape{1, 130, 130, 2, 2, 64, false},
          Shape{1, 300, 300, 1, 1, 24, true}})
      checkAttention(shape, isDouble);
}

TEST(Attention, DifferentLengths) {
  for (bool isDouble : {false, true})
    for (const Shape &shape :
         {Shape{2, 3, 290, 4, 2, 8, true}, Shape{1, 70, 300, 2, 1, 16, false},
          // More queries than keys: the first rows see nothing.
          Shape{1, 20, 13, 2, 2, 8, true}, Shape{1, 90, 17, 2, 2, 8, false}})
      checkAttention(shape, isDouble);
}

TEST(Attention, AtPosition) {
  for (bool isDouble : {false, true})
    for (int64_t position : {0, 1, 100, 270})
      checkAttention({2, 1, 300, 4, 2, 16, false, position}, isDouble);
  checkAttention({1, 16, 300, 2, 2, 16, true, 37}, false);
}

} // namespace
