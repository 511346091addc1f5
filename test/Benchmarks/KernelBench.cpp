//===- KernelBench.cpp - time of generated kernels ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// One thread; the best of several runs in processor time, so that a busy
// machine disturbs little. Not a test.
//
//===----------------------------------------------------------------------===//

#include "../Unit/Compiler/KernelHarness.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>
#include <cstdio>
#include <ctime>

using namespace mlir;
using namespace mlir::blurt;
using namespace mlir::blurt::test;

static double processorSeconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

/// Compiles and times; `bytes` and `flops` of one run give the rates.
static void bench(const char *name, KernelHarness &h, double bytes,
                  double flops) {
  double start = processorSeconds();
  if (!h.compile())
    return;
  double compileSeconds = processorSeconds() - start;
  double best = 1e9;
  for (int i = 0; i < 15; ++i)
    best = std::min(best, h.time());
  std::printf("%-28s %8.3f ms %7.1f GB/s %7.1f GFLOP/s   compile %5.0f ms\n",
              name, best * 1e3, bytes / best * 1e-9, flops / best * 1e-9,
              compileSeconds * 1e3);
}

static void benchAttention(int64_t B, int64_t T, int64_t H, int64_t D,
                           bool backward) {
  KernelHarness h;
  unsigned all = h.add({B, T, 3 * H * D}, h.f32());
  h.randomize(all);
  SmallVector<int64_t> strides{T * 3 * H * D, 3 * H * D, D, 1};
  unsigned q = h.alias(all, {B, T, H, D}, strides);
  unsigned k = h.alias(all, {B, T, H, D}, strides, H * D);
  unsigned v = h.alias(all, {B, T, H, D}, strides, 2 * H * D);
  unsigned o = h.add({B, T, H, D}, h.f32()), lse = h.add({B, H, T}, h.f32());
  unsigned g = h.add({B, T, H, D}, h.f32());
  APFloat scale(1 / std::sqrt(double(D)));
  // Products under the causal mask: 2 forward, 5 backward, of 2·T·T·D each.
  double product = 2.0 * double(B * H) * double(T * T / 2) * double(D);
  if (!backward) {
    AttentionOp::create(h.builder(), TypeRange(), h.value(q), h.value(k),
                        h.value(v), Value(),
                        ValueRange{h.value(o), h.value(lse)}, scale, true);
    return bench("attention", h, 0, 2 * product);
  }
  for (unsigned buffer : {o, lse, g})
    h.randomize(buffer);
  h.fill(lse, [] { return 8.0; });
  SmallVector<Value> outs;
  for (int i = 0; i < 3; ++i)
    outs.push_back(h.value(h.add({B, T, H, D}, h.f32())));
  AttentionGradOp::create(h.builder(), TypeRange(), h.value(q), h.value(k),
                          h.value(v), h.value(o), h.value(lse), h.value(g),
                          outs, scale, true);
  bench("attention gradient", h, 0, 5 * product);
}

using Body =
    std::function<SmallVector<Value>(ImplicitLocOpBuilder &, ValueRange)>;

/// A group over rows×columns with `inputs` full f32 inputs and, for each of
/// `outputs`, an out that keeps the dims named.
static void benchGroup(const char *name, int64_t rows, int64_t columns,
                       ArrayRef<int64_t> reduce, unsigned inputs,
                       ArrayRef<SmallVector<unsigned>> outputs,
                       const Body &body) {
  KernelHarness h;
  MLIRContext *ctx = &h.context();
  AffineMap full = AffineMap::getMultiDimIdentityMap(2, ctx);
  SmallVector<Value> ins, outs;
  SmallVector<AffineMap> inputMaps(inputs, full), outputMaps;
  int64_t extents[] = {rows, columns};
  double bytes = 4.0 * double(inputs * rows * columns);
  for (unsigned i = 0; i < inputs; ++i) {
    unsigned buffer = h.add({rows, columns}, h.f32());
    h.randomize(buffer);
    ins.push_back(h.value(buffer));
  }
  for (ArrayRef<unsigned> dims : outputs) {
    SmallVector<int64_t> shape;
    SmallVector<AffineExpr> exprs;
    double size = 4;
    for (unsigned dim : dims) {
      shape.push_back(extents[dim]);
      exprs.push_back(getAffineDimExpr(dim, ctx));
      size *= double(extents[dim]);
    }
    bytes += size;
    outs.push_back(h.value(h.add(shape, h.f32())));
    outputMaps.push_back(AffineMap::get(2, 0, exprs, ctx));
  }
  GroupOp::create(h.builder(), StringRef(name), ArrayRef<int64_t>(extents),
                  reduce, ins, inputMaps, ValueRange(), outs, TypeRange(),
                  outputMaps,
                  [&](OpBuilder &inner, Location loc, ValueRange args) {
                    ImplicitLocOpBuilder b(loc, inner);
                    return body(b, args);
                  });
  bench(name, h, bytes, 0);
}

int main() {
  benchAttention(4, 256, 4, 64, false);
  benchAttention(4, 256, 4, 64, true);
  benchAttention(1, 1024, 4, 64, false);
  benchAttention(1, 1024, 4, 64, true);
  benchGroup("add", 1024, 1024, {}, 2, {{0, 1}},
             [](ImplicitLocOpBuilder &b, ValueRange args) {
               return SmallVector<Value>{
                   arith::AddFOp::create(b, args[0], args[1])};
             });
  benchGroup("tanh", 1024, 1024, {}, 1, {{0, 1}},
             [](ImplicitLocOpBuilder &b, ValueRange args) {
               return SmallVector<Value>{math::TanhOp::create(b, args[0])};
             });
  benchGroup("column sum", 1024, 1024, {0}, 1, {{1}},
             [](ImplicitLocOpBuilder &b, ValueRange args) {
               return SmallVector<Value>{
                   ReduceOp::create(b, ReduceKind::Sum, args[0])};
             });
  benchGroup("row sum", 1024, 1024, {1}, 1, {{0}},
             [](ImplicitLocOpBuilder &b, ValueRange args) {
               return SmallVector<Value>{
                   ReduceOp::create(b, ReduceKind::Sum, args[0])};
             });
  benchGroup("softmax", 1024, 1024, {1}, 1, {{0, 1}},
             [](ImplicitLocOpBuilder &b, ValueRange args) {
               Value max = ReduceOp::create(b, ReduceKind::Max, args[0]);
               Value e = math::ExpOp::create(
                   b, arith::SubFOp::create(b, args[0], max));
               Value sum = ReduceOp::create(b, ReduceKind::Sum, e);
               return SmallVector<Value>{arith::DivFOp::create(b, e, sum)};
             });
  benchGroup("normalize", 1024, 1024, {1}, 1, {{0, 1}, {0}},
             [](ImplicitLocOpBuilder &b, ValueRange args) {
               Value n = arith::ConstantOp::create(b, b.getF32FloatAttr(1024));
               Value mean = arith::DivFOp::create(
                   b, ReduceOp::create(b, ReduceKind::Sum, args[0]), n);
               Value d = arith::SubFOp::create(b, args[0], mean);
               Value variance = arith::DivFOp::create(
                   b,
                   ReduceOp::create(b, ReduceKind::Sum,
                                    arith::MulFOp::create(b, d, d)),
                   n);
               Value r = math::RsqrtOp::create(b, variance);
               return SmallVector<Value>{arith::MulFOp::create(b, d, r), r};
             });
}
