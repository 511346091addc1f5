//===- MathTest.cpp - expansions against libm -----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace mlir::blurt;
using namespace mlir::blurt::test;

namespace {

constexpr int64_t kSamples = 1 << 20;

float fromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

/// Units of the last place of an f32 of the size of `exact`.
double ulp(double exact) {
  int exponent;
  std::frexp(exact, &exponent);
  return std::ldexp(1.0, std::max(exponent - 24, -149));
}

/// Compiles y = function(x[, z]) over kSamples elements.
struct Function : KernelHarness {
  unsigned x, z, y;
  template <typename OpTy> static std::unique_ptr<Function> make(bool binary) {
    auto f = std::make_unique<Function>();
    f->x = f->add({kSamples}, f->f32());
    f->z = f->add({kSamples}, f->f32());
    f->y = f->add({kSamples}, f->f32());
    AffineMap map = AffineMap::getMultiDimIdentityMap(1, &f->context());
    SmallVector<Value> inputs{f->value(f->x)};
    if (binary)
      inputs.push_back(f->value(f->z));
    SmallVector<AffineMap> maps(inputs.size(), map);
    GroupOp::create(f->builder(), StringRef("f"), ArrayRef<int64_t>{kSamples},
                    ArrayRef<int64_t>(), inputs, maps, ValueRange(),
                    ValueRange{f->value(f->y)}, TypeRange(),
                    ArrayRef<AffineMap>(map),
                    [&](OpBuilder &b, Location loc, ValueRange args) {
                      return SmallVector<Value>{
                          OpTy::create(b, loc, args[0].getType(), args)};
                    });
    EXPECT_TRUE(f->compile());
    return f;
  }
  float *data(unsigned buffer) { return static_cast<float *>(address(buffer)); }
};

/// The largest error in ulp over a sweep of all exponents and signs.
double worstError(Function &f, double (*exact)(double), float low, float high) {
  double worst = 0;
  // Two sweeps: evenly over bit patterns, evenly over the values.
  for (int sweep = 0; sweep < 2; ++sweep) {
    float *x = f.data(f.x), *y = f.data(f.y);
    for (int64_t i = 0; i < kSamples; ++i)
      x[i] = sweep == 0
                 ? fromBits(uint32_t(i * ((int64_t(1) << 32) / kSamples) + 977))
                 : float(low + (double(high) - low) * double(i) / kSamples);
    f.run(1);
    for (int64_t i = 0; i < kSamples; ++i) {
      double expected = exact(x[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(y[i])) << x[i];
        continue;
      }
      if (std::isinf(float(expected)) || std::isinf(y[i])) {
        EXPECT_EQ(y[i], float(expected)) << x[i];
        continue;
      }
      double error = std::abs(y[i] - expected) / ulp(expected);
      if (error > worst)
        worst = error;
    }
  }
  return worst;
}

template <typename OpTy>
void checkFunction(const char *name, double (*exact)(double), float low,
                   float high, double limit) {
  auto f = Function::make<OpTy>(false);
  double worst = worstError(*f, exact, low, high);
  ::testing::Test::RecordProperty(name, std::to_string(worst));
  std::printf("%s: %.3f ulp\n", name, worst);
  EXPECT_LE(worst, limit);
}

TEST(Math, Exp) { checkFunction<math::ExpOp>("exp", std::exp, -110, 90, 1.5); }
TEST(Math, Log) {
  checkFunction<math::LogOp>("log", std::log, 0.4f, 2.5f, 1.5);
}
TEST(Math, Tanh) {
  checkFunction<math::TanhOp>("tanh", std::tanh, -10, 10, 1.5);
}
TEST(Math, Erf) { checkFunction<math::ErfOp>("erf", std::erf, -5, 5, 1.5); }
TEST(Math, Rsqrt) {
  checkFunction<math::RsqrtOp>(
      "rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0, 10, 1.5);
}
TEST(Math, Sqrt) {
  checkFunction<math::SqrtOp>("sqrt", std::sqrt, 0, 10, 0.51);
}

TEST(Math, Pow) {
  auto f = Function::make<math::PowFOp>(true);
  const float special[] = {
      0.0f,    -0.0f, 1.0f,     -1.0f,     2.0f, -2.0f,      0.5f,
      3.0f,    -3.0f, INFINITY, -INFINITY, NAN,  1e-40f,     1e38f,
      -1e-40f, 7.0f,  2.5f,     -0.5f,     1e9f, 16777216.f, 16777218.f};
  constexpr int64_t n = std::size(special);
  for (int64_t i = 0; i < kSamples; ++i) {
    float *x = f->data(f->x), *z = f->data(f->z);
    if (i < n * n) {
      x[i] = special[i / n];
      z[i] = special[i % n];
    } else {
      x[i] = std::exp2(
          std::uniform_real_distribution<float>(-20, 20)(f->random()));
      z[i] = std::uniform_real_distribution<float>(-6, 6)(f->random());
    }
  }
  f->run(1);
  double worst = 0;
  for (int64_t i = 0; i < kSamples; ++i) {
    double x = f->data(f->x)[i], z = f->data(f->z)[i];
    float y = f->data(f->y)[i];
    double expected = std::pow(x, z);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(y)) << x << "^" << z;
      continue;
    }
    if (std::isinf(float(expected)) || float(expected) == 0) {
      EXPECT_EQ(y, float(expected)) << x << "^" << z;
      EXPECT_EQ(std::signbit(y), std::signbit(expected)) << x << "^" << z;
      continue;
    }
    worst = std::max(worst, std::abs(y - expected) / ulp(expected));
  }
  std::printf("pow: %.3f ulp\n", worst);
  EXPECT_LE(worst, 0.55);
}

} // namespace
