//===- FuseCases.h - steps that conversion and fusion are tried on -*- C++ -*-//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_TEST_UNIT_COMPILER_FUSECASES_H
#define BLUTRAIN_TEST_UNIT_COMPILER_FUSECASES_H

#include <ostream>
#include <string>
#include <vector>

namespace blutrain::test {

/// A step with arguments %a0, %a1, … and results %r0, %r1, …
struct FuseCase {
  std::string name;
  std::vector<std::string> arguments, results; ///< `4x5xf32`
  std::string body;
  /// Groups that are left after fusion; -1 for as many as there are.
  int groups = -1;
  /// Relative to the largest element.
  double tolerance = 2e-6;
};

/// What a failing test prints.
inline void PrintTo(const FuseCase &test, std::ostream *os) {
  *os << test.body;
}

std::vector<FuseCase> getFuseCases();

} // namespace blutrain::test

#endif // BLUTRAIN_TEST_UNIT_COMPILER_FUSECASES_H
