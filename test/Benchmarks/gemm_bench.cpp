//===- gemm_bench.cpp - Compare matrix products of CPU libraries ----------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Times C = op(A)·op(B) in the shapes of a GPT-2 training step:
//
//   gemm_bench --threads 1,2 --reps 20 --library openblas=PATH.so
//              --library dnnl=PATH.so [--tile 256x512]…
//
// Row kinds: the library's own call with its own threads (set those with the
// library's environment variables), the library's single-threaded call under
// our tiling and thread pool for each --tile, and `blurt_gemm_f32` as shipped.
// A library named `dnnl…` is called through dnnl_sgemm, any other through
// cblas_sgemm. Prints GFLOP/s of the fastest repetition; checks nothing else.
//
//===----------------------------------------------------------------------===//

#include "blurt/Context.h"
#include "blurt/GemmTiling.h"
#include "blurt/ThreadPool.h"
#include "blurt/blurt.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

using namespace blurt;

namespace {

using CblasFn = void (*)(int, int, int, int, int, int, float, const float *,
                         int, const float *, int, float, float *, int);
using DnnlFn = int (*)(char, char, int64_t, int64_t, int64_t, float,
                       const float *, int64_t, const float *, int64_t, float,
                       float *, int64_t);
using SetThreadsFn = void (*)(int);

struct Library {
  std::string name;
  CblasFn cblas = nullptr;
  DnnlFn dnnl = nullptr;
  SetThreadsFn openblasThreads = nullptr, ompThreads = nullptr;

  void setThreads(int count) const {
    if (openblasThreads)
      openblasThreads(count);
    if (ompThreads)
      ompThreads(count);
  }

  void call(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const float *a,
            int64_t lda, const float *b, int64_t ldb, float *c,
            int64_t ldc) const {
    if (dnnl)
      dnnl(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, 1, a, lda, b, ldb, 0, c,
           ldc);
    else
      cblas(101, ta ? 112 : 111, tb ? 112 : 111, int(m), int(n), int(k), 1, a,
            int(lda), b, int(ldb), 0, c, int(ldc));
  }
};

Library load(const std::string &spec) {
  size_t eq = spec.find('=');
  std::string path = spec.substr(eq + 1);
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    std::fprintf(stderr, "error: %s\n", dlerror());
    std::exit(1);
  }
  Library lib;
  lib.name = spec.substr(0, eq);
  if (lib.name.rfind("dnnl", 0) == 0)
    lib.dnnl = reinterpret_cast<DnnlFn>(dlsym(handle, "dnnl_sgemm"));
  else
    lib.cblas = reinterpret_cast<CblasFn>(dlsym(handle, "cblas_sgemm"));
  lib.openblasThreads =
      reinterpret_cast<SetThreadsFn>(dlsym(handle, "openblas_set_num_threads"));
  if (lib.dnnl)
    lib.ompThreads =
        reinterpret_cast<SetThreadsFn>(dlsym(handle, "omp_set_num_threads"));
  if (!lib.dnnl && !lib.cblas) {
    std::fprintf(stderr, "error: %s: no matrix product found\n", path.c_str());
    std::exit(1);
  }
  return lib;
}

struct Shape {
  const char *form;
  bool ta, tb;
  int64_t m, n, k;
};

/// GFLOP/s of the fastest of `reps` calls of each candidate. The candidates
/// take turns, so that what else the machine does hits all of them.
std::vector<double> race(const Shape &s, int reps,
                         const std::vector<std::function<void()>> &candidates) {
  std::vector<double> best(candidates.size(), 1e30);
  for (int rep = 0; rep <= reps; ++rep)
    for (size_t i = 0; i < candidates.size(); ++i) {
      auto start = std::chrono::steady_clock::now();
      candidates[i]();
      std::chrono::duration<double> took =
          std::chrono::steady_clock::now() - start;
      if (rep > 0)
        best[i] = std::min(best[i], took.count());
    }
  for (double &value : best)
    value = 2.0 * double(s.m) * double(s.n) * double(s.k) / value * 1e-9;
  return best;
}

} // namespace

int main(int argc, char **argv) {
  std::vector<int> threadCounts{1, 2};
  std::vector<std::pair<int64_t, int64_t>> tiles;
  std::vector<Library> libraries;
  bool shipped = true;
  int reps = 15;
  int64_t rows = 1024;
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--threads") {
      threadCounts.clear();
      std::stringstream list(value);
      for (std::string item; std::getline(list, item, ',');)
        threadCounts.push_back(std::atoi(item.c_str()));
    } else if (flag == "--reps") {
      reps = std::atoi(value.c_str());
    } else if (flag == "--rows") {
      rows = std::atoll(value.c_str());
    } else if (flag == "--shipped") {
      shipped = value == "1";
    } else if (flag == "--library") {
      libraries.push_back(load(value));
    } else if (flag == "--tile") {
      tiles.emplace_back(std::atoll(value.c_str()),
                         std::atoll(value.c_str() + value.find('x') + 1));
    } else {
      std::fprintf(stderr, "error: unknown flag '%s'\n", flag.c_str());
      return 1;
    }
  }

  std::vector<Shape> shapes;
  const int64_t layers[][2] = {
      {768, 256}, {256, 256}, {1024, 256}, {256, 1024}, {8192, 256}};
  for (auto [n, k] : layers)
    shapes.push_back({"fwd A*Bt", false, true, rows, n, k});
  for (auto [n, k] : layers)
    shapes.push_back({"dgrad A*B", false, false, rows, k, n});
  for (auto [n, k] : layers)
    shapes.push_back({"wgrad At*B", true, false, n, k, rows});

  for (int threads : threadCounts) {
    Context context(static_cast<unsigned>(threads));
    std::printf("# threads %d\n%-11s %5s %5s %5s", threads, "form", "m", "n",
                "k");
    for (const Library &lib : libraries) {
      std::printf(" %9s", lib.name.c_str());
      for (auto [tm, tn] : tiles)
        std::printf(" %9s",
                    (std::to_string(tm) + "x" + std::to_string(tn)).c_str());
    }
    std::printf(shipped ? "     blurt\n" : "\n");
    for (const Shape &s : shapes) {
      std::vector<float> a(size_t(s.m * s.k)), b(size_t(s.k * s.n)),
          c(size_t(s.m * s.n));
      for (size_t i = 0; i < a.size(); ++i)
        a[i] = float(i % 17) * 0.125f - 1;
      for (size_t i = 0; i < b.size(); ++i)
        b[i] = float(i % 23) * 0.0625f - 0.5f;
      int64_t lda = s.ta ? s.m : s.k, ldb = s.tb ? s.k : s.n;
      std::printf("%-11s %5lld %5lld %5lld", s.form, (long long)s.m,
                  (long long)s.n, (long long)s.k);
      std::vector<std::function<void()>> candidates;
      for (const Library &lib : libraries) {
        candidates.push_back([&] {
          lib.setThreads(threads);
          lib.call(s.ta, s.tb, s.m, s.n, s.k, a.data(), lda, b.data(), ldb,
                   c.data(), s.n);
        });
        for (auto [tm, tn] : tiles)
          candidates.push_back(
              [&, t = GemmTiling::withTiles(s.m, s.n, tm, tn)] {
                lib.setThreads(1);
                auto body = [&](int64_t begin, int64_t end) {
                  if (lib.ompThreads)
                    lib.ompThreads(1);
                  for (int64_t i = begin; i < end; ++i) {
                    int64_t row = i / t.countN * t.tileM;
                    int64_t col = i % t.countN * t.tileN;
                    lib.call(s.ta, s.tb, std::min(t.tileM, s.m - row),
                             std::min(t.tileN, s.n - col), s.k,
                             a.data() + (s.ta ? row : row * lda), lda,
                             b.data() + (s.tb ? col * ldb : col), ldb,
                             c.data() + row * s.n + col, s.n);
                  }
                };
                context.pool().forEach(t.tasks(), 1, body);
              });
      }
      if (shipped)
        candidates.push_back([&] {
          blurt_gemm_f32(&context, s.ta, s.tb, 1, s.m, s.n, s.k, a.data(), lda,
                         0, b.data(), ldb, 0, 0, c.data(), s.n, 0);
        });
      for (double value : race(s, reps, candidates))
        std::printf(" %9.1f", value);
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  return 0;
}
