//===- ShardingRuleTest.cpp - every op says how it is cut -----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Sharding/ShardingRule.h"

#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace blutrain;

TEST(ShardingRuleTest, EveryOpHasARuleOrAReason) {
  MLIRContext context;
  context.loadDialect<blu::BluDialect>();
  int rules = 0, reasons = 0;
  for (RegisteredOperationName op :
       context.getRegisteredOperationsByDialect("blu")) {
    bool hasRule = hasShardingRule(op),
         hasReason = !whyNoShardingRule(op).empty();
    EXPECT_NE(hasRule, hasReason)
        << op.getStringRef().str()
        << (hasRule ? " has a sharding rule and a reason for none"
                    : " has no sharding rule; add one to ShardingRule.cpp, or "
                      "a reason why it has none");
    rules += hasRule;
    reasons += hasReason;
  }
  EXPECT_GT(rules, 40);
  EXPECT_LT(reasons, 12);
}
