//===- SetTf32.cpp - the tf32 policy on products and attention ------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blurt/BlurtDialect.h"
#include "blutrain/Conversion/Passes.h"

#include "mlir/IR/BuiltinOps.h"

namespace blutrain {
#define GEN_PASS_DEF_SETTF32
#include "blutrain/Conversion/Passes.h.inc"
} // namespace blutrain

using namespace mlir;

namespace {
struct SetTf32 : public blutrain::impl::SetTf32Base<SetTf32> {
  void runOnOperation() override {
    if (!getOperation()->hasAttr("blu.tf32"))
      return;
    auto set = [](auto op, Value operand) {
      if (getElementTypeOrSelf(operand.getType()).isF32())
        op.setTf32(true);
    };
    getOperation().walk([&](blurt::GemmOp op) { set(op, op.getA()); });
    getOperation().walk([&](blurt::AttentionOp op) { set(op, op.getQ()); });
    getOperation().walk([&](blurt::AttentionGradOp op) { set(op, op.getQ()); });
  }
};
} // namespace
