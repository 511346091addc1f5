//===- SeedSharding.cpp - how inputs are cut ---------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Layout.h"

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
    Layout its;
    if (!layout.empty()) {
      FailureOr<Layout> read = Layout::read(&getContext(), layout);
      if (failed(read))
        return signalPassFailure();
      its = std::move(*read);
    }
    if (parsed->getSize("dp") == 1)
      return;
    for (StepOp step : module.getOps<StepOp>()) {
      // All programs share the state.
      if (failed(seedState(step, its, *parsed)))
        return signalPassFailure();
      if (step.getProgram() == Program::Train ||
          step.getProgram() == Program::Eval)
        if (failed(seed(step, its, *parsed)))
          return signalPassFailure();
    }
    if (failed(its.checkUsed()))
      signalPassFailure();
  }

  /// Of a parameter, without the dim of a stack.
  static RankedTensorType parameterType(StepOp step, unsigned i) {
    auto type = cast<RankedTensorType>(step.getArgument(i).getType());
    auto info = step.getArgAttrOfType<DictionaryAttr>(i, "blu.tensor");
    auto count = info.getAs<IntegerAttr>("stack_count");
    return count && count.getInt() > 0
               ? type.clone(type.getShape().drop_front())
               : type;
  }

  static LogicalResult seedState(StepOp step, Layout &layout,
                                 const Mesh &mesh) {
    for (unsigned i = 0, e = step.getNumArguments(); i < e; ++i) {
      if (argumentRole(step, i) != "param")
        continue;
      FailureOr<bool> isUnsharded = layout.isUnsharded(
          argumentName(step, i), parameterType(step, i), mesh);
      if (failed(isUnsharded))
        return failure();
      if (*isUnsharded)
        step.setArgAttr(i, "blu.unsharded", UnitAttr::get(step.getContext()));
    }
    return success();
  }

  static LogicalResult seed(StepOp step, Layout &layout, const Mesh &mesh) {
    auto entry = step->getAttrOfType<DictionaryAttr>("blurt.entry");
    auto count =
        entry ? entry.getAs<IntegerAttr>("microbatches") : IntegerAttr();
    unsigned batchDim = count && count.getInt() > 1 ? 1 : 0;
    StringAttr axis = StringAttr::get(step.getContext(), "dp");
    for (unsigned i = 0, e = step.getNumArguments(); i < e; ++i) {
      auto type = cast<RankedTensorType>(step.getArgument(i).getType());
      StringRef role = argumentRole(step, i), name = argumentName(step, i);
      if (role != "input")
        continue;
      Sharding sharding = Sharding::whole(type);
      if (batchDim < sharding.dims.size())
        sharding.dims[batchDim].push_back(axis);
      auto said = layout.getInput(
          name, type.clone(type.getShape().drop_front(batchDim)), mesh);
      if (failed(said))
        return failure();
      if (*said)
        llvm::copy((*said)->dims, sharding.dims.begin() + batchDim);
      step.setArgAttr(i, "blu.sharding", sharding.getAttr(step.getContext()));
    }
    SmallVector<CrossEntropyOp> means;
    step.walk([&](CrossEntropyOp op) {
      if (op.getReduction() == LossReduction::Mean)
        means.push_back(op);
    });
    for (CrossEntropyOp op : means)
      expandMean(op);
    return success();
  }
};
} // namespace
