//===- DeviceSplitTest.cpp - products of operands in pieces ---*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// What can be known without a device: that the kernels are emitted for every
// layout, assemble without spills and products that wait for each other; and
// what pieces and scales lose, in the same arithmetic on the processor.
//
//===----------------------------------------------------------------------===//

#include "Codegen/Cuda/SplitKernels.h"
#include "DeviceHarness.h"

#include "mlir/IR/Verifier.h"

#include "llvm/Support/FileSystem.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace mlir;
using namespace mlir::blurt;
using namespace mlir::blurt::test;

namespace {

struct Extents {
  int64_t batch, m, n, k;
  bool alongA, alongB, bias, accumulates;
};

SplitShape makeShape(const Extents &e) {
  SplitShape shape;
  shape.a.operand = {e.alongA, e.batch, e.m, e.k};
  shape.b.operand = {e.alongB, e.batch, e.n, e.k};
  for (SplitSource *source : {&shape.a, &shape.b}) {
    source->ld = source->operand.inner();
    source->stride = source->operand.outer() * source->ld;
    source->chunked = source->ld % 4 == 0;
  }
  shape.ldc = e.n;
  shape.strideC = e.m * e.n;
  shape.hasBias = e.bias;
  shape.accumulates = e.accumulates;
  shape.alignmentC = 16;
  blutrain::SplitProduct &p = shape.product;
  p.batch = e.batch;
  p.m = e.m, p.n = e.n, p.k = e.k;
  p.a = shape.a.operand;
  p.b = shape.b.operand;
  p.layOut();
  return shape;
}

/// Emits all kernels of a product; returns their number.
size_t emitAll(DeviceHarness &harness, const std::string &name,
               const SplitShape &shape) {
  gpu::GPUModuleOp module = harness.gpuModule();
  Location loc = module.getLoc();
  std::vector<DeviceLaunch> launches;
  std::vector<std::string> names;
  auto add = [&](const char *kernel, auto emit) {
    names.push_back(name + kernel);
    launches.push_back(emit(SplitEmission{module, loc, names.back(), shape}));
  };
  if (!shape.a.operand.along || !shape.b.operand.along)
    add("_maxima", emitSplitMaxima);
  add("_scales", emitSplitScales);
  for (SplitFormat format : {SplitFormat::Half, SplitFormat::Bfloat}) {
    if (format == SplitFormat::Half && shape.product.alwaysBfloat())
      continue;
    std::string suffix = format == SplitFormat::Half ? "_f16" : "_bf16";
    add(("_planes" + suffix).c_str(), [&](const SplitEmission &emission) {
      return emitSplitPlanes(emission, format);
    });
    add(("_product" + suffix).c_str(), [&](const SplitEmission &emission) {
      return emitSplitProduct(emission, format);
    });
    const DeviceLaunch &product = launches.back();
    EXPECT_LE(product.sharedBytes, 227 * 1024) << name;
    EXPECT_LE(product.grid[0], blutrain::SplitProduct::kProcessors) << name;
    EXPECT_EQ(product.maps.size(), 2u) << name;
    const SmallVector<blutrain::SplitOperand> operands{shape.a.operand,
                                                       shape.b.operand};
    for (auto [map, operand] : llvm::zip_equal(product.maps, operands)) {
      EXPECT_EQ(map.extents.size(), operand.along ? 3u : 4u) << name;
      EXPECT_EQ(map.swizzle, operand.along ? 64 : 128) << name;
      for (int64_t stride : ArrayRef(map.strides).drop_front())
        EXPECT_EQ(stride % 16, 0) << name;
    }
  }
  if (shape.product.parts > 1)
    add("_sum", emitSplitSum);
  return launches.size();
}

TEST(DeviceSplit, AssemblesEveryLayout) {
  if (DeviceHarness::findAssembler().empty())
    GTEST_SKIP() << "no ptxas";
  const Extents cases[] = {
      {1, 32768, 768, 3072, true, true, true, false},
      {1, 32768, 3072, 768, true, false, false, false},
      {1, 768, 3072, 32768, false, false, false, true},
      {1, 4096, 50304, 768, true, true, false, false},
      {1, 1003, 517, 131, true, true, true, false},
      {1, 771, 385, 4099, false, false, false, true},
      {1, 333, 1001, 258, true, false, true, true},
      {1, 40, 1, 64, false, true, false, false},
      {3, 130, 70, 200, true, true, true, false},
  };
  size_t number = 0;
  for (const Extents &extents : cases) {
    DeviceHarness harness;
    std::string name = "case" + std::to_string(number++);
    size_t kernels = emitAll(harness, name, makeShape(extents));
    EXPECT_TRUE(succeeded(verify(harness.gpuModule()))) << name;
    std::string ptx = harness.translate("sm_90a");
    ASSERT_FALSE(ptx.empty());
    EXPECT_EQ(ptx.find("m64n192k16.f32.f16.f16") != std::string::npos,
              extents.k >= blutrain::SplitProduct::kLeastHalfDepth);
    EXPECT_NE(ptx.find("m64n192k16.f32.bf16.bf16"), std::string::npos);
    bool both = extents.alongA && extents.alongB;
    EXPECT_EQ(ptx.find("cp.async.bulk.tensor.4d") == std::string::npos, both);
    EXPECT_EQ(ptx.find(".local"), std::string::npos);
    // What is counted, and nothing else.
    EXPECT_EQ(ptx.find("atom.global.add.f"), std::string::npos);
    EXPECT_EQ(ptx.find("red.global.add.f"), std::string::npos);
    llvm::SmallString<128> cubin;
    ASSERT_FALSE(llvm::sys::fs::createTemporaryFile("split", "cubin", cubin));
    std::vector<DeviceReport> reports =
        DeviceHarness::assemble(ptx, "sm_90a", cubin);
    EXPECT_EQ(reports.size(), kernels);
    for (const DeviceReport &report : reports) {
      EXPECT_EQ(report.spillBytes, 0) << report.kernel;
      EXPECT_EQ(report.stackBytes, 0) << report.kernel;
      EXPECT_EQ(report.warning, "") << report.kernel;
    }
    for (StringRef suffix : {"", ".ptx", ".log"})
      llvm::sys::fs::remove(cubin + suffix);
  }
}

TEST(DeviceSplit, CutsTheDepthWhereTilesAreFew) {
  auto parts = [](int64_t m, int64_t n, int64_t k) {
    blutrain::SplitProduct product;
    product.m = m, product.n = n, product.k = k;
    product.a = {false, 1, m, k};
    product.b = {false, 1, n, k};
    product.layOut();
    // No part is empty, and all but the last are whole steps.
    EXPECT_EQ(product.partDepth % blutrain::SplitProduct::kDepth, 0);
    EXPECT_LT((product.parts - 1) * product.partDepth, k);
    EXPECT_GE(product.parts * product.partDepth, k);
    return product.parts;
  };
  EXPECT_EQ(parts(32768, 3072, 768), 1);
  EXPECT_EQ(parts(768, 768, 64), 1);
  EXPECT_GT(parts(768, 768, 32768), 1);
  EXPECT_GT(parts(128, 192, 4099), 1);
  EXPECT_GE(parts(32768, 768, 50304), 13);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

float toBfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits += 0x7FFF + (bits >> 16 & 1);
  bits &= 0xFFFF0000;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// What is left of `value` when its pieces are taken away.
double restOf(float value, SplitFormat format) {
  double rest = value;
  float left = value;
  for (int32_t i = 0; i != getNumPlanes(format); ++i) {
    float piece =
        format == SplitFormat::Half ? float(_Float16(left)) : toBfloat(left);
    rest -= double(piece);
    left -= piece;
  }
  return std::abs(rest);
}

TEST(DeviceSplit, PiecesHoldWhatTheyAreSaidTo) {
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> exponents(-40, kScaledExponent + 1),
      mantissas(1, 2);
  const double small = std::ldexp(1.0, kSmallExponent);
  for (int i = 0; i != 200000; ++i) {
    auto value = float(std::ldexp(mantissas(rng), int(exponents(rng))));
    double half = restOf(value, SplitFormat::Half);
    // 22 bits, or what is left of them below fp16's smallest normal number.
    EXPECT_LE(half, std::max(std::ldexp(double(value), -22), 0x1p-25)) << value;
    if (value >= small)
      EXPECT_LE(half, std::ldexp(double(value), -22)) << value;
    EXPECT_LE(restOf(value, SplitFormat::Bfloat),
              std::ldexp(double(value), -24))
        << value;
  }
  // The greatest scaled element is finite in fp16, rounding included.
  float most = std::nextafter(std::ldexp(1.0F, kScaledExponent + 1), 0.0F);
  EXPECT_TRUE(std::isfinite(float(_Float16(most))));
}

TEST(DeviceSplit, ScalesAreInRangeForEveryMaximum) {
  auto factors = [](int32_t exponent) {
    int32_t half = exponent >> 1;
    return std::pair(std::ldexp(1.0F, half), std::ldexp(1.0F, exponent - half));
  };
  for (float most : {0x1p-149F, 0x1.8p-130F, 1e-36F, 1.0F, 3e38F}) {
    int32_t exponent = kScaledExponent - std::ilogb(most);
    auto [first, second] = factors(exponent);
    auto [back, again] = factors(-exponent);
    for (float factor : {first, second, back, again})
      EXPECT_TRUE(std::isnormal(factor)) << most;
    float scaled = most * first * second;
    EXPECT_EQ(std::ilogb(scaled), kScaledExponent) << most;
    EXPECT_EQ(scaled * back * again, most);
  }
}

} // namespace
