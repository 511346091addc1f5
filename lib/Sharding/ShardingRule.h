//===- ShardingRule.h - how an op's dims belong together --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// What an op does is the same for every index of some of its dims: it can work
// on a part of them. A rule gives such dims of operands and results one number,
// a factor. A factor that no result has is summed over.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_SHARDING_SHARDINGRULE_H
#define BLUTRAIN_LIB_SHARDING_SHARDINGRULE_H

#include "Blu/Blu.h"

#include <optional>

namespace blutrain {

struct ShardingRule {
  /// Instead of a factor: the dim has to be whole, or how it is cut is of no
  /// matter to the result.
  static constexpr int kWhole = -1, kAny = -2;
  /// How a sum whose terms lie on several devices passes through: not at all,
  /// through one operand if the others are no such sums, or through all at
  /// once.
  enum class Linear { None, Each, Joint };

  using Factors = mlir::SmallVector<int>;
  mlir::SmallVector<Factors> operands, results;
  Linear linear = Linear::None;
  /// Operands through which a sum passes where `linear` is Each.
  llvm::SmallBitVector linearIn;

  /// All dims of operands and results whole, but for those given.
  explicit ShardingRule(mlir::Operation *op);
};

/// Nothing for an op without one: stacks and the like, and ops that are not
/// known.
std::optional<ShardingRule> getShardingRule(mlir::Operation *op);

/// Every op of `blu` has a rule, or a reason why it has none.
bool hasShardingRule(mlir::OperationName name);
llvm::StringRef whyNoShardingRule(mlir::OperationName name);

} // namespace blutrain

#endif // BLUTRAIN_LIB_SHARDING_SHARDINGRULE_H
