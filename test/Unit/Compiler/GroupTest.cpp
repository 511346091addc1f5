//===- GroupTest.cpp - groups against point-wise evaluation ---*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blurt;
using namespace mlir::blurt::test;

namespace {

/// A group to build: its operands over a domain, with random strides.
struct Case : KernelHarness {
  SmallVector<int64_t> domain, reduce;
  SmallVector<unsigned> inputs, tables, outs;
  SmallVector<AffineMap> inputMaps, outputMaps;

  AffineMap map(ArrayRef<unsigned> dims) {
    SmallVector<AffineExpr> exprs;
    for (unsigned dim : dims)
      exprs.push_back(getAffineDimExpr(dim, &context()));
    return AffineMap::get(domain.size(), 0, exprs, &context());
  }
  /// A buffer over `dims` of the domain, padded if `padded`.
  unsigned makeBuffer(ArrayRef<unsigned> dims, Type element, bool padded) {
    SmallVector<int64_t> shape, strides(dims.size());
    for (unsigned dim : dims)
      shape.push_back(domain[dim]);
    int64_t inner = 1;
    for (int64_t i = int64_t(dims.size()) - 1; i >= 0; --i) {
      strides[i] = inner;
      inner *= shape[i] + (padded ? pick(0, 3) : 0);
    }
    return add(shape, element,
               padded ? ArrayRef(strides) : ArrayRef<int64_t>());
  }
  void input(ArrayRef<unsigned> dims, Type element, bool padded = false) {
    inputs.push_back(makeBuffer(dims, element, padded));
    inputMaps.push_back(map(dims));
    randomize(inputs.back());
  }
  void output(ArrayRef<unsigned> dims, Type element, bool padded = false) {
    outs.push_back(makeBuffer(dims, element, padded));
    outputMaps.push_back(map(dims));
  }
  SmallVector<unsigned> all() {
    return llvm::to_vector(llvm::seq<unsigned>(0, domain.size()));
  }
  SmallVector<unsigned> kept() {
    SmallVector<unsigned> dims;
    for (unsigned dim : all())
      if (!llvm::is_contained(reduce, int64_t(dim)))
        dims.push_back(dim);
    return dims;
  }

  using Body =
      std::function<SmallVector<Value>(ImplicitLocOpBuilder &, ValueRange)>;
  GroupOp build(const Body &body) {
    auto values = [&](ArrayRef<unsigned> list) {
      SmallVector<Value> result;
      for (unsigned i : list)
        result.push_back(value(i));
      return result;
    };
    return GroupOp::create(
        builder(), StringRef("test"), domain, reduce, values(inputs), inputMaps,
        values(tables), values(outs), TypeRange(), outputMaps,
        [&](OpBuilder &inner, Location loc, ValueRange args) {
          ImplicitLocOpBuilder b(loc, inner);
          return body(b, args);
        });
  }

  /// Compiles, runs with 1 and 2 threads, and compares with the interpreter.
  /// `scale` is the size of values whose rounding enters a result.
  void check(GroupOp group, double scale = 1) {
    std::vector<std::vector<double>> expected;
    interpretGroup(*this, group, inputs, tables, expected);
    int64_t reducedPoints = 1;
    for (int64_t dim : reduce)
      reducedPoints *= domain[dim];
    ASSERT_TRUE(compile()) << dump;
    std::string start = bytes();
    run(1);
    ASSERT_TRUE(othersUntouched(outs)) << dump;
    for (unsigned i = 0; i < outs.size(); ++i) {
      Type element = buffer(outs[i]).type.getElementType();
      double epsilon = element.isF64()    ? 0x1p-52
                       : element.isBF16() ? 0x1p-8
                                          : 0x1p-23;
      // Blocked summation of n terms of size about 1 in 16 lanes or more.
      double rounding = 16 + std::sqrt(double(reducedPoints));
      std::vector<double> found = contents(outs[i]);
      ASSERT_EQ(found.size(), expected[i].size());
      for (size_t j = 0; j < found.size(); ++j)
        ASSERT_NEAR(found[j], expected[i][j],
                    epsilon * rounding * (std::abs(expected[i][j]) + scale))
            << "output " << i << " element " << j << "\n"
            << dump;
    }
    std::string single = bytes();
    run(2);
    ASSERT_TRUE(single == bytes()) << "threads change bits\n" << dump;
  }
};

/// Mean and variance along the reduced dims, normalised values, and an input
/// that is broadcast.
SmallVector<Value> normalize(ImplicitLocOpBuilder &b, ValueRange args,
                             int64_t count, unsigned outputs) {
  Type type = args[0].getType();
  auto constant = [&](double value) -> Value {
    return arith::ConstantOp::create(b, b.getFloatAttr(type, value));
  };
  Value n = constant(double(count));
  Value x = arith::AddFOp::create(b, args[0], args[1]);
  Value sum = ReduceOp::create(b, ReduceKind::Sum, x);
  Value mean = arith::DivFOp::create(b, sum, n);
  Value d = arith::SubFOp::create(b, x, mean);
  Value square = arith::MulFOp::create(b, d, d);
  Value total = ReduceOp::create(b, ReduceKind::Sum, square);
  Value largest = ReduceOp::create(b, ReduceKind::Max, square);
  Value variance = arith::DivFOp::create(b, total, n);
  Value shifted = arith::AddFOp::create(b, variance, constant(0.1));
  Value r = math::RsqrtOp::create(b, shifted);
  Value y = arith::MulFOp::create(b, d, r);
  SmallVector<Value> results{y, mean, variance, largest};
  results.resize(outputs);
  return results;
}

int64_t product(ArrayRef<int64_t> domain, ArrayRef<int64_t> dims) {
  int64_t total = 1;
  for (int64_t dim : dims)
    total *= domain[dim];
  return total;
}

void checkNormalize(ArrayRef<int64_t> domain, ArrayRef<int64_t> reduce,
                    bool isDouble, bool padded, bool permuted, unsigned seed) {
  Case test;
  test.random().seed(seed);
  test.domain = SmallVector<int64_t>(domain);
  test.reduce = SmallVector<int64_t>(reduce);
  Type type = isDouble ? test.f64() : test.f32();
  SmallVector<unsigned> order = test.all();
  if (permuted)
    std::shuffle(order.begin(), order.end(), test.random());
  test.input(order, type, padded);
  // A broadcast input over a random subset of the dims.
  SmallVector<unsigned> some;
  for (unsigned dim : test.all())
    if (test.pick(0, 1))
      some.push_back(dim);
  test.input(some, type, padded);
  test.output(test.all(), type, padded);
  for (int i = 0; i < 3; ++i)
    test.output(test.kept(), type);
  GroupOp group = test.build([&](ImplicitLocOpBuilder &b, ValueRange args) {
    return normalize(b, args, product(domain, reduce), 4);
  });
  test.check(group, 4);
}

TEST(Group, RowsOfEveryLength) {
  for (int64_t length :
       {1, 2, 15, 16, 17, 31, 63, 64, 65, 80, 511, 512, 513, 577, 1200})
    checkNormalize({3, length}, {1}, false, false, false, length);
}

TEST(Group, ColumnsOfEveryWidth) {
  for (int64_t width : {1, 2, 15, 16, 17, 33, 64, 65, 96, 1024, 1030})
    checkNormalize({37, width}, {0}, false, width == 33, false, width);
  for (int64_t rows : {1, 2, 31, 32, 33, 64, 100})
    checkNormalize({rows, 20}, {0}, false, false, false, rows);
}

TEST(Group, FullReductions) {
  checkNormalize({4, 9, 5}, {0, 1, 2}, false, false, false, 1);
  checkNormalize({4, 9, 5}, {0, 1, 2}, false, true, false, 2);
  checkNormalize({4, 9, 5}, {0, 1, 2}, true, true, true, 3);
  checkNormalize({3, 4, 16}, {0, 1, 2}, false, false, true, 4);
  checkNormalize({2000}, {0}, false, false, false, 5);
  checkNormalize({1}, {0}, false, false, false, 6);
}

TEST(Group, RandomDomains) {
  const int64_t extents[] = {1, 2, 3, 5, 7, 13, 16, 17, 32, 67};
  std::mt19937 rng(7);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
  };
  for (unsigned trial = 0; trial < 60; ++trial) {
    SmallVector<int64_t> domain, reduce;
    int64_t rank = pick(1, 4), points = 1;
    for (int64_t dim = 0; dim < rank; ++dim) {
      int64_t extent = extents[pick(0, 9)];
      if (points * extent > 8000)
        extent = 1;
      points *= extent;
      domain.push_back(extent);
      if (pick(0, 1))
        reduce.push_back(dim);
    }
    checkNormalize(domain, reduce, pick(0, 3) == 0, pick(0, 1), pick(0, 1),
                   trial);
  }
}

SmallVector<Value> everyFunction(ImplicitLocOpBuilder &b, ValueRange args) {
  Value x = math::TanhOp::create(b, args[0]);
  Value y = math::ErfOp::create(b, args[1]);
  Value z = math::ExpOp::create(b, x);
  Value w = arith::MulFOp::create(b, y, z);
  Value zero = arith::ConstantOp::create(b, b.getFloatAttr(w.getType(), 0));
  Value positive =
      arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, args[0], zero);
  return {arith::SelectOp::create(b, positive, w, z), positive};
}

TEST(Group, Maps) {
  struct {
    SmallVector<int64_t> domain;
    SmallVector<unsigned> first, second;
    bool padded;
  } cases[] = {
      {{1}, {0}, {0}, false},
      {{17}, {0}, {0}, false},
      {{5000}, {0}, {}, false},
      {{40, 130}, {0, 1}, {1}, false},
      {{40, 130}, {0, 1}, {0}, true},
      {{40, 130}, {1, 0}, {0, 1}, false},
      {{3, 5, 33}, {2, 0}, {1}, true},
      {{3, 5, 33}, {1, 2, 0}, {2}, false},
      {{9, 1, 4}, {0, 1, 2}, {2}, false},
      {{2, 9000}, {0, 1}, {0}, false},
      {{}, {}, {}, false},
  };
  unsigned seed = 0;
  for (auto &each : cases)
    for (bool isDouble : {false, true}) {
      Case test;
      test.random().seed(++seed);
      test.domain = each.domain;
      Type type = isDouble ? test.f64() : test.f32();
      test.input(each.first, type, each.padded);
      test.input(each.second, type, each.padded);
      test.output(test.all(), type, each.padded);
      test.output(test.all(), test.builder().getI1Type());
      GroupOp group = test.build(everyFunction);
      test.check(group);
    }
}

TEST(Group, InPlace) {
  // y = x + tanh(x), written over x.
  Case test;
  test.domain = {7, 33};
  test.input({0, 1}, test.f32());
  test.outs = test.inputs;
  test.outputMaps = test.inputMaps;
  GroupOp group = test.build([](ImplicitLocOpBuilder &b, ValueRange args) {
    Value t = math::TanhOp::create(b, args[0]);
    return SmallVector<Value>{arith::AddFOp::create(b, args[0], t)};
  });
  std::vector<std::vector<double>> expected;
  interpretGroup(test, group, test.inputs, {}, expected);
  ASSERT_TRUE(test.compile());
  test.run(2);
  ASSERT_TRUE(test.othersUntouched(test.outs));
  std::vector<double> found = test.contents(test.outs[0]);
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[0][i], 1e-6);
}

TEST(Group, Bfloat16AndIntegers) {
  for (int64_t width : {16, 37, 128}) {
    Case test;
    test.domain = {5, width};
    Type bf16 = test.builder().getBF16Type();
    test.input({0, 1}, bf16);
    test.input({1, 0}, bf16, true);
    test.input({0, 1}, test.builder().getI1Type());
    test.input({0}, test.builder().getI32Type());
    test.output({0, 1}, bf16);
    test.output({1, 0}, bf16, true);
    GroupOp group = test.build([](ImplicitLocOpBuilder &b, ValueRange args) {
      Value i = arith::SIToFPOp::create(b, b.getF32Type(), args[3]);
      Value s = arith::AddFOp::create(b, args[0], i);
      Value p = arith::MulFOp::create(b, s, args[1]);
      return SmallVector<Value>{arith::SelectOp::create(b, args[2], p, s), p};
    });
    test.check(group);
  }
}

TEST(Group, RoundsBfloat16ToNearestEven) {
  Case test;
  test.domain = {6};
  test.input({0}, test.f32());
  test.output({0}, test.builder().getBF16Type());
  const float inputs[] = {
      1.00390625f,              // tie, to even 1.0
      1.01171875f,              // tie, to even 1.015625
      1.00390637f,              // just above the tie
      INFINITY,    NAN, 3.4e38f // rounds up to infinity
  };
  for (int64_t i = 0; i < 6; ++i)
    test.set(test.inputs[0], {i}, inputs[i]);
  test.build([](ImplicitLocOpBuilder &, ValueRange args) {
    return SmallVector<Value>{args[0]};
  });
  ASSERT_TRUE(test.compile());
  test.run();
  EXPECT_EQ(test.get(test.outs[0], {0}), 1.0);
  EXPECT_EQ(test.get(test.outs[0], {1}), 1.015625);
  EXPECT_EQ(test.get(test.outs[0], {2}), 1.0078125);
  EXPECT_EQ(test.get(test.outs[0], {3}), INFINITY);
  EXPECT_TRUE(std::isnan(test.get(test.outs[0], {4})));
  EXPECT_EQ(test.get(test.outs[0], {5}), INFINITY);
}

TEST(Group, TablesAndIndices) {
  for (int64_t width : {5, 16, 40, 67}) {
    Case test;
    OpBuilder &b = test.builder();
    test.domain = {9, width};
    test.input({0}, b.getI32Type());
    test.tables.push_back(test.add({10, width + 3}, test.f32()));
    test.tables.push_back(test.add({2, 10}, test.f32()));
    test.randomize(test.tables[0]);
    test.randomize(test.tables[1]);
    test.output({0, 1}, test.f32());
    test.output({0, 1}, test.f32());
    test.output({0, 1}, test.f32());
    GroupOp group = test.build([&](ImplicitLocOpBuilder &b, ValueRange args) {
      auto constant = [&](int64_t value) -> Value {
        return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
      };
      Value row = arith::ExtSIOp::create(b, b.getI64Type(), args[0]);
      Value i = IndexOp::create(b, 0);
      Value j = IndexOp::create(b, 1);
      // Contiguous, contiguous with a shift, lane by lane, uniform.
      Value contiguous =
          LoadOp::create(b, b.getF32Type(), args[1], ValueRange{row, j});
      Value shifted = LoadOp::create(
          b, b.getF32Type(), args[1],
          ValueRange{i, arith::AddIOp::create(b, j, constant(3))});
      Value column = arith::RemSIOp::create(b, j, constant(10));
      Value gathered = LoadOp::create(b, b.getF32Type(), args[2],
                                      ValueRange{constant(1), column});
      Value uniform = LoadOp::create(b, b.getF32Type(), args[2],
                                     ValueRange{constant(0), row});
      Value below = arith::CmpIOp::create(b, arith::CmpIPredicate::sle, j, i);
      Value sum = arith::AddFOp::create(b, gathered, uniform);
      return SmallVector<Value>{
          contiguous, shifted, arith::SelectOp::create(b, below, sum, uniform)};
    });
    test.check(group);
  }
}

TEST(Group, CountsInIntegers) {
  // How many i32 labels equal 3, by row and over all.
  for (SmallVector<int64_t> reduce :
       {SmallVector<int64_t>{1}, SmallVector<int64_t>{0, 1},
        SmallVector<int64_t>{0}}) {
    Case test;
    test.domain = {5, 83};
    test.reduce = reduce;
    test.input({0, 1}, test.builder().getI64Type());
    test.output(test.kept(), test.builder().getI64Type());
    GroupOp group = test.build([](ImplicitLocOpBuilder &b, ValueRange args) {
      auto constant = [&](int64_t value) -> Value {
        return arith::ConstantOp::create(b, b.getI64IntegerAttr(value));
      };
      Value equal = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, args[0],
                                          constant(3));
      Value one = arith::SelectOp::create(b, equal, constant(1), constant(0));
      return SmallVector<Value>{ReduceOp::create(b, ReduceKind::Sum, one)};
    });
    test.check(group, 0);
  }
}

/// The bits of the sum of x over `reduce` when it is computed alone, and when
/// other work is fused into the same group.
TEST(Group, FusionChangesNoBits) {
  struct {
    SmallVector<int64_t> domain, reduce;
  } cases[] = {{{6, 1000}, {1}},
               {{300, 40}, {0}},
               {{4, 9, 50}, {0, 2}},
               {{4, 9, 5}, {0, 1, 2}},
               {{70, 3, 20}, {0, 1}}};
  for (auto &each : cases) {
    auto sum = [&](bool fused) {
      Case test;
      test.domain = each.domain;
      test.reduce = each.reduce;
      test.input(test.all(), test.f32());
      if (fused) {
        // Operands that keep dims from being merged, and a long body.
        SmallVector<unsigned> reversed = test.all();
        std::reverse(reversed.begin(), reversed.end());
        test.input(reversed, test.f32(), true);
        test.output(test.all(), test.f32(), true);
      }
      test.output(test.kept(), test.f32());
      test.build([&](ImplicitLocOpBuilder &b, ValueRange args) {
        SmallVector<Value> results;
        Value total = ReduceOp::create(b, ReduceKind::Sum, args[0]);
        if (fused) {
          Value y = math::ExpOp::create(b, args[1]);
          for (int i = 0; i < 12; ++i)
            y = arith::AddFOp::create(b, arith::MulFOp::create(b, y, args[1]),
                                      args[0]);
          Value other = ReduceOp::create(b, ReduceKind::Sum, y);
          results.push_back(arith::AddFOp::create(b, y, other));
        }
        results.push_back(total);
        return results;
      });
      EXPECT_TRUE(test.compile());
      test.run(2);
      return test.contents(test.outs.back());
    };
    EXPECT_EQ(sum(false), sum(true));
  }
}

} // namespace
