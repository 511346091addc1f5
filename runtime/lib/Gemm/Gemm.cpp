//===- Gemm.cpp - Matrix products of compiled programs --------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// The products are OpenBLAS calls, each on one thread, under our own tiling.
// docs/results/cpu-gemm-choice.md has the measurements behind both.
//
//===----------------------------------------------------------------------===//

#include "blurt/Context.h"
#include "blurt/GemmTiling.h"
#include "blurt/blurt.h"

#include <bit>
#include <cblas.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

using namespace blurt;

namespace {

/// OpenBLAS reads its environment in a constructor of its own, at the default
/// priority: this one comes first. Its own threads are never used. On a
/// processor with AVX-512 that OpenBLAS does not know by name it would fall
/// back to AVX2 kernels, so it is told; what the user set is kept.
__attribute__((constructor(101))) void configureOpenBlas() {
  setenv("OPENBLAS_NUM_THREADS", "1", 1);
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
#endif
}

/// For a shared OpenBLAS, which read its environment before us. Not in a
/// constructor: that of a static OpenBLAS may come after ours.
void limitOpenBlas() {
  static const bool once = (openblas_set_num_threads(1), true);
  (void)once;
}

int toBlasInt(int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    std::fprintf(stderr,
                 "error: matrix product: expected extents below 2^31, got "
                 "%lld\n",
                 static_cast<long long>(value));
    std::exit(2);
  }
  return static_cast<int>(value);
}

void gemm(bool ta, bool tb, int m, int n, int k, float alpha, const float *a,
          int lda, const float *b, int ldb, float beta, float *c, int ldc) {
  cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,
              tb ? CblasTrans : CblasNoTrans, m, n, k, alpha, a, lda, b, ldb,
              beta, c, ldc);
}
void gemm(bool ta, bool tb, int m, int n, int k, double alpha, const double *a,
          int lda, const double *b, int ldb, double beta, double *c, int ldc) {
  cblas_dgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,
              tb ? CblasTrans : CblasNoTrans, m, n, k, alpha, a, lda, b, ldb,
              beta, c, ldc);
}
void gemv(bool trans, int rows, int cols, float alpha, const float *a, int lda,
          const float *x, int incx, float *y, int incy) {
  cblas_sgemv(CblasRowMajor, trans ? CblasTrans : CblasNoTrans, rows, cols,
              alpha, a, lda, x, incx, 1, y, incy);
}
void gemv(bool trans, int rows, int cols, double alpha, const double *a,
          int lda, const double *x, int incx, double *y, int incy) {
  cblas_dgemv(CblasRowMajor, trans ? CblasTrans : CblasNoTrans, rows, cols,
              alpha, a, lda, x, incx, 1, y, incy);
}

template <typename T>
void scaleRows(int64_t m, int64_t n, T beta, T *c, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i) {
    T *row = c + i * ldc;
    if (beta == T(0))
      std::fill(row, row + n, T(0));
    else if (beta != T(1))
      std::transform(row, row + n, row, [=](T x) { return beta * x; });
  }
}

template <typename T>
void gemmTile(bool ta, bool tb, int64_t m, int64_t n, int64_t k, T alpha,
              const T *a, int64_t lda, const T *b, int64_t ldb, T beta, T *c,
              int64_t ldc) {
  if (m <= 0 || n <= 0)
    return;
  if (k <= 0)
    return scaleRows(m, n, beta, c, ldc);
  limitOpenBlas();
  // BLAS wants a row length of at least the extent even where there is only
  // one row.
  int ldA = toBlasInt(std::max(lda, ta ? m : k));
  int ldB = toBlasInt(std::max(ldb, tb ? k : n));
  int ldC = toBlasInt(std::max(ldc, n));
  int blasM = toBlasInt(m), blasN = toBlasInt(n), blasK = toBlasInt(k);
  if (m == 1) {
    // One row, as in decoding: a matrix-vector product reads B once and packs
    // nothing.
    scaleRows(m, n, beta, c, ldc);
    return gemv(!tb, tb ? blasN : blasK, tb ? blasK : blasN, alpha, b, ldB, a,
                ta ? ldA : 1, c, 1);
  }
  gemm(ta, tb, blasM, blasN, blasK, alpha, a, ldA, b, ldB, beta, c, ldC);
}

template <typename T>
void gemmTiled(void *ctx, bool ta, bool tb, int64_t batch, int64_t m, int64_t n,
               int64_t k, const T *a, int64_t lda, int64_t strideA, const T *b,
               int64_t ldb, int64_t strideB, T beta, T *c, int64_t ldc,
               int64_t strideC) {
  if (batch <= 0 || m <= 0 || n <= 0)
    return;
  GemmTiling tiling = GemmTiling::forShape(batch, m, n, k);
  auto body = [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t matrix = task / tiling.tasks(), tile = task % tiling.tasks();
      int64_t row = tile / tiling.countN * tiling.tileM;
      int64_t col = tile % tiling.countN * tiling.tileN;
      const T *tileA = a + matrix * strideA + (ta ? row : row * lda);
      const T *tileB = b + matrix * strideB + (tb ? col * ldb : col);
      gemmTile<T>(ta, tb, std::min(tiling.tileM, m - row),
                  std::min(tiling.tileN, n - col), k, T(1), tileA, lda, tileB,
                  ldb, beta, c + matrix * strideC + row * ldc + col, ldc);
    }
  };
  static_cast<Context *>(ctx)->pool().forEach(batch * tiling.tasks(),
                                              tiling.grain(k), body);
}

//===----------------------------------------------------------------------===//
// bf16
//===----------------------------------------------------------------------===//

float widen(uint16_t x) { return std::bit_cast<float>(uint32_t(x) << 16); }

/// To nearest even; a NaN stays one.
uint16_t narrow(float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  if (x != x)
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Copies rows × cols elements, as stored, to `to`, row after row.
void widenBlock(int64_t rows, int64_t cols, const uint16_t *from, int64_t ld,
                float *to) {
  for (int64_t i = 0; i < rows; ++i)
    std::transform(from + i * ld, from + i * ld + cols, to + i * cols, widen);
}

/// Columns of op(A) that are widened at a time, fixed so that sums are, too.
constexpr int64_t kDepth = 1024;

/// One tile. Scratch stays with the thread.
void gemmTileBf16(bool ta, bool tb, int64_t m, int64_t n, int64_t k,
                  const uint16_t *a, int64_t lda, const uint16_t *b,
                  int64_t ldb, float beta, bool isNarrow, void *c,
                  int64_t ldc) {
  thread_local std::vector<float> wideA, wideB, wideC;
  int64_t depth = std::min(k, kDepth);
  wideA.resize(std::max<size_t>(wideA.size(), m * depth));
  wideB.resize(std::max<size_t>(wideB.size(), depth * n));
  auto *sums = static_cast<float *>(c);
  auto *rounded = static_cast<uint16_t *>(c);
  int64_t ldSums = ldc;
  if (isNarrow) {
    wideC.resize(std::max<size_t>(wideC.size(), m * n));
    sums = wideC.data();
    ldSums = n;
    if (beta != 0)
      widenBlock(m, n, rounded, ldc, sums);
  }
  if (k <= 0)
    scaleRows(m, n, beta, sums, ldSums);
  for (int64_t done = 0; done < k; done += depth) {
    int64_t part = std::min(depth, k - done);
    widenBlock(ta ? part : m, ta ? m : part, a + (ta ? done * lda : done), lda,
               wideA.data());
    widenBlock(tb ? n : part, tb ? part : n, b + (tb ? done : done * ldb), ldb,
               wideB.data());
    gemmTile<float>(ta, tb, m, n, part, 1, wideA.data(), ta ? m : part,
                    wideB.data(), tb ? part : n, done == 0 ? beta : 1, sums,
                    ldSums);
  }
  if (isNarrow)
    for (int64_t i = 0; i < m; ++i)
      std::transform(sums + i * n, sums + (i + 1) * n, rounded + i * ldc,
                     narrow);
}

} // namespace

void blurt_gemm_bf16(void *ctx, int32_t transA, int32_t transB, int64_t batch,
                     int64_t m, int64_t n, int64_t k, const uint16_t *a,
                     int64_t lda, int64_t strideA, const uint16_t *b,
                     int64_t ldb, int64_t strideB, float beta, int32_t isNarrow,
                     void *c, int64_t ldc, int64_t strideC) {
  if (batch <= 0 || m <= 0 || n <= 0)
    return;
  GemmTiling tiling = GemmTiling::forShape(batch, m, n, k);
  auto body = [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      int64_t matrix = task / tiling.tasks(), tile = task % tiling.tasks();
      int64_t row = tile / tiling.countN * tiling.tileM;
      int64_t col = tile % tiling.countN * tiling.tileN;
      int64_t at = matrix * strideC + row * ldc + col;
      gemmTileBf16(transA, transB, std::min(tiling.tileM, m - row),
                   std::min(tiling.tileN, n - col), k,
                   a + matrix * strideA + (transA ? row : row * lda), lda,
                   b + matrix * strideB + (transB ? col * ldb : col), ldb, beta,
                   isNarrow != 0,
                   static_cast<char *>(c) + at * (isNarrow ? 2 : 4), ldc);
    }
  };
  static_cast<Context *>(ctx)->pool().forEach(batch * tiling.tasks(),
                                              tiling.grain(k), body);
}

void blurt_gemm_f32(void *ctx, int32_t transA, int32_t transB, int64_t batch,
                    int64_t m, int64_t n, int64_t k, const float *a,
                    int64_t lda, int64_t strideA, const float *b, int64_t ldb,
                    int64_t strideB, float beta, float *c, int64_t ldc,
                    int64_t strideC) {
  gemmTiled<float>(ctx, transA, transB, batch, m, n, k, a, lda, strideA, b, ldb,
                   strideB, beta, c, ldc, strideC);
}

void blurt_gemm_f64(void *ctx, int32_t transA, int32_t transB, int64_t batch,
                    int64_t m, int64_t n, int64_t k, const double *a,
                    int64_t lda, int64_t strideA, const double *b, int64_t ldb,
                    int64_t strideB, double beta, double *c, int64_t ldc,
                    int64_t strideC) {
  gemmTiled<double>(ctx, transA, transB, batch, m, n, k, a, lda, strideA, b,
                    ldb, strideB, beta, c, ldc, strideC);
}

void blurt_gemm_tile_f32(int32_t transA, int32_t transB, int64_t m, int64_t n,
                         int64_t k, float alpha, const float *a, int64_t lda,
                         const float *b, int64_t ldb, float beta, float *c,
                         int64_t ldc) {
  gemmTile<float>(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void blurt_gemm_tile_f64(int32_t transA, int32_t transB, int64_t m, int64_t n,
                         int64_t k, double alpha, const double *a, int64_t lda,
                         const double *b, int64_t ldb, double beta, double *c,
                         int64_t ldc) {
  gemmTile<double>(transA, transB, m, n, k, alpha, a, lda, b, ldb, beta, c,
                   ldc);
}
