//===- GradientCases.h - models whose gradients are checked -----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_TEST_GRADIENTCASES_H
#define BLUTRAIN_TEST_GRADIENTCASES_H

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace blutrain::test {

/// Element i of an input.
using Fill = std::function<double(int64_t i)>;

/// Spread over [low, high) without a pattern.
Fill uniform(double low, double high, uint64_t stream = 0);
/// Of magnitude in [low, high) and either sign: away from 0.
Fill signedUniform(double low, double high, uint64_t stream = 0);
/// As given, repeated.
Fill values(std::vector<double> list);

/// In types, `t<2x3>` stands for tensor<2x3xf64>, `f<2x3>` for f32, `i<4>` for
/// i32, `l<>` for i64, `b<4>` for i1.
struct Arg {
  std::string name, type;
  Fill fill = nullptr; ///< [-1, 1) if null
  /// Steps are 2^-10 of this, of |x| where it is 0, or of the case's scale
  /// where it is negative.
  double scale = -1;
};

struct Case {
  std::string name;
  std::vector<Arg> args;
  std::string body;
  std::vector<std::pair<std::string, std::string>> results; ///< name, type
  /// Values of parameters by full name; those not here are in [-1, 1).
  std::vector<std::pair<std::string, Fill>> params = {};
  /// The distance over which the function changes: steps are 2^-10 of it, or of
  /// |x| if it is 0.
  double scale = 1;
  /// By how much more than its results' rounding the rounding inside may weigh:
  /// the largest ratio of an intermediate magnitude to what cancellation leaves
  /// of it.
  double amplification = 1;
};

std::vector<Case> elementwiseCases();
std::vector<Case> shapeCases();
std::vector<Case> reductionCases();
std::vector<Case> matmulCases();
std::vector<Case> normalizationCases();
std::vector<Case> attentionCases();
std::vector<Case> lossCases();
std::vector<Case> structureCases();
/// All of them.
std::vector<Case> gradientCases();

/// The text of the case's module.
std::string moduleText(const Case &gradientCase);

} // namespace blutrain::test

#endif // BLUTRAIN_TEST_GRADIENTCASES_H
