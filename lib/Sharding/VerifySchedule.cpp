//===- VerifySchedule.cpp - ranks meet, and hold what they should ---------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Replication.h"
#include "blutrain/Sharding/Passes.h"

namespace blutrain {
#define GEN_PASS_DEF_VERIFYSCHEDULEPASS
#include "blutrain/Sharding/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

static bool isCollective(Operation *op) {
  return isa<AllReduceOp, ReduceScatterOp, AllGatherOp, LocalShardOp>(op);
}

/// Whether the devices of each group come to `op` as often and in the same
/// order: nothing around it but loops whose number of iterations is written
/// down, and groups that each device is in one of.
static LogicalResult checkPlace(Operation *op, const Mesh &mesh) {
  auto axis = op->getAttrOfType<StringAttr>("axis");
  auto size = op->getAttrOfType<IntegerAttr>("size").getInt();
  if (mesh.getSize(axis) == 1)
    return op->emitOpError("is along axis '")
           << axis.getValue() << "', which the mesh lacks";
  if (size != mesh.getSize(axis))
    return op->emitOpError("is met by ")
           << size << " devices, expected the " << mesh.getSize(axis)
           << " along axis '" << axis.getValue() << "'";
  for (Operation *at = op->getParentOp(); !isa<StepOp>(at);
       at = at->getParentOp()) {
    if (isa<ModuleOp>(at))
      return op->emitOpError("stands outside of a step");
    if (isa<StackOp, AccumulateOp, CheckpointOp>(at))
      continue;
    InFlightDiagnostic diag = op->emitOpError(
        "stands where not all devices may come, or not as often");
    diag.attachNote(at->getLoc()) << "'" << at->getName() << "' is around it";
    return diag;
  }
  return success();
}

namespace {
struct VerifySchedule : blutrain::impl::VerifySchedulePassBase<VerifySchedule> {
  using VerifySchedulePassBase::VerifySchedulePassBase;

  void runOnOperation() override {
    Mesh mesh = Mesh::get(getOperation());
    bool ok = true;
    getOperation().walk([&](Operation *op) {
      if (!isCollective(op))
        return;
      ok &= succeeded(checkPlace(op, mesh));
      ++numCollectives;
    });
    if (!ok)
      return signalPassFailure();
    for (StepOp step : getOperation().getOps<StepOp>())
      for (const auto &[axis, size] : mesh.axes)
        ok &= succeeded(Replication(step, axis, mesh).run());
    if (!ok)
      signalPassFailure();
  }
};
} // namespace
