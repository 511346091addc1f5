//===- SetSplit.cpp - the fp32tc policy on products
//------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blurt/BlurtDialect.h"
#include "blutrain/Conversion/Passes.h"

#include "mlir/IR/BuiltinOps.h"

namespace blutrain {
#define GEN_PASS_DEF_SETSPLIT
#include "blutrain/Conversion/Passes.h.inc"
} // namespace blutrain

using namespace mlir;

namespace {
struct SetSplit : public blutrain::impl::SetSplitBase<SetSplit> {
  void runOnOperation() override {
    if (!getOperation()->hasAttr("blu.split"))
      return;
    getOperation().walk([](blurt::GemmOp op) {
      if (getElementTypeOrSelf(op.getA().getType()).isF32())
        op.setSplit(true);
    });
  }
};
} // namespace
