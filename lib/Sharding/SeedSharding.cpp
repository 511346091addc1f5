//===- SeedSharding.cpp - how inputs are cut ---------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/StepUtils.h"
#include "blutrain/Sharding/Passes.h"

#include "Blu/BluSupport.h"
#include "Blu/Sharding.h"

namespace blutrain {
#define GEN_PASS_DEF_SEEDSHARDINGPASS
#include "blutrain/Sharding/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

/// `sum / count` for a mean, which the devices have to add up on their own.
static void expandMean(CrossEntropyOp op) {
  OpBuilder b(op);
  GradBuilder gb(b, op.getLoc());
  auto sum = CrossEntropyOp::create(b, op.getLoc(), op.getLogits(),
                                    op.getTargets(), op.getIgnoreIndex(),
                                    LossReduction::Sum, op.getClassesAttr());
  Value targets = op.getTargets();
  Value ignored = gb.scalar(double(int64_t(op.getIgnoreIndex())), targets);
  Value counted = gb.cast(gb.compare(ComparePredicate::NE, targets, ignored),
                          sum.getType().getElementType());
  SmallVector<int64_t> all = llvm::to_vector(
      llvm::seq<int64_t>(0, GradBuilder::type(counted).getRank()));
  Value count = gb.reduceSum(counted, all, /*keepDims=*/false);
  op.replaceAllUsesWith(gb.div(sum, count));
  op.erase();
}

namespace {
struct SeedSharding : blutrain::impl::SeedShardingPassBase<SeedSharding> {
  using SeedShardingPassBase::SeedShardingPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<Mesh> parsed =
        Mesh::parse(mesh, [&] { return module.emitError(); });
    if (failed(parsed))
      return signalPassFailure();
    for (StringRef axis : kMeshAxes)
      if (axis != "dp" && parsed->getSize(axis) > 1) {
        module.emitError() << "mesh '" << mesh << "': axis " << axis
                           << " is not supported yet, expected dp alone";
        return signalPassFailure();
      }
    parsed->set(module);
    if (parsed->getSize("dp") == 1)
      return;
    for (StepOp step : module.getOps<StepOp>())
      if (step.getProgram() == Program::Train ||
          step.getProgram() == Program::Eval)
        seed(step);
  }

  static void seed(StepOp step) {
    auto entry = step->getAttrOfType<DictionaryAttr>("blurt.entry");
    auto count =
        entry ? entry.getAs<IntegerAttr>("microbatches") : IntegerAttr();
    unsigned batchDim = count && count.getInt() > 1 ? 1 : 0;
    StringAttr axis = StringAttr::get(step.getContext(), "dp");
    for (unsigned i = 0, e = step.getNumArguments(); i < e; ++i) {
      if (argumentRole(step, i) != "input")
        continue;
      Sharding sharding = Sharding::whole(step.getArgument(i).getType());
      if (batchDim < sharding.dims.size())
        sharding.dims[batchDim].push_back(axis);
      step.setArgAttr(i, "blu.sharding", sharding.getAttr(step.getContext()));
    }
    SmallVector<CrossEntropyOp> means;
    step.walk([&](CrossEntropyOp op) {
      if (op.getReduction() == LossReduction::Mean)
        means.push_back(op);
    });
    for (CrossEntropyOp op : means)
      expandMean(op);
  }
};
} // namespace
