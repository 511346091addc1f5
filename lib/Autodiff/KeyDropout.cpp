//===- KeyDropout.cpp - random keys for dropout ---------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Autodiff/StepUtils.h"

#include "mlir/IR/Builders.h"

namespace blutrain {
#define GEN_PASS_DEF_KEYDROPOUTPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

namespace {
struct KeyDropout : blutrain::impl::KeyDropoutPassBase<KeyDropout> {
  using KeyDropoutPassBase::KeyDropoutPassBase;

  void runOnOperation() override {
    if (rate >= 1) {
      getOperation().emitError() << "dropout rate is " << double(rate)
                                 << ", expected at least 0 and less than 1";
      return signalPassFailure();
    }
    for (StepOp step : getOperation().getOps<StepOp>()) {
      bool isTraining = step.getProgram() == Program::Train;
      SmallVector<DropoutOp> dropouts;
      step.walk([&](DropoutOp op) { dropouts.push_back(op); });
      int64_t site = 0;
      for (DropoutOp op : dropouts) {
        if (rate >= 0)
          op.setRate(APFloat(double(rate)));
        if (isTraining && !op.getRate().isZero()) {
          addKey(step, op, site++);
          continue;
        }
        op.replaceAllUsesWith(op.getInput());
        op.erase();
      }
    }
  }

  /// Chains one key a level, outermost stack first, each the seed of the next.
  void addKey(StepOp step, DropoutOp op, int64_t site) {
    OpBuilder b(op);
    Type i64 = b.getI64Type();
    Value key = getScalar(step, "seed", i64);
    Value stepNumber = getScalar(step, "step", i64);
    SmallVector<Value> iterations;
    for (Operation *parent = op->getParentOp(); parent;
         parent = parent->getParentOp())
      if (auto stack = dyn_cast<StackOp>(parent))
        iterations.push_back(stack.getIteration());
    if (iterations.empty())
      key = RandomKeyOp::create(b, op.getLoc(), key, stepNumber, Value(), site);
    for (Value iteration : llvm::reverse(iterations))
      key =
          RandomKeyOp::create(b, op.getLoc(), key, stepNumber, iteration, site);
    op.getKeyMutable().assign(key);
  }
};
} // namespace
