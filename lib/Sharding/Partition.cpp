//===- Partition.cpp - whole values to a device's part --------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/StepUtils.h"
#include "blutrain/Sharding/Passes.h"

#include "Blu/BluSupport.h"
#include "Blu/Sharding.h"

namespace blutrain {
#define GEN_PASS_DEF_PARTITIONPASS
#include "blutrain/Sharding/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

namespace {

class Partitioner {
public:
  Partitioner(StepOp step, const Mesh &mesh) : step(step), mesh(mesh) {}

  LogicalResult run();

private:
  RankedTensorType localType(Value value, Attribute sharding) const {
    FailureOr<Sharding> parsed = Sharding::get(sharding);
    auto type = cast<RankedTensorType>(value.getType());
    return failed(parsed) ? type : parsed->getLocalType(type, mesh);
  }
  LogicalResult visit(Block &block);
  LogicalResult adapt(Operation *op, ArrayRef<Sharding> before);
  LogicalResult shiftKey(DropoutOp op, const Sharding &sharding);

  StepOp step;
  const Mesh &mesh;
};

} // namespace

/// The element of row-major index i of a part is that of index offset + i of
/// the whole if the part is a run of them.
LogicalResult Partitioner::shiftKey(DropoutOp op, const Sharding &sharding) {
  OpBuilder b(op);
  GradBuilder gb(b, op.getLoc());
  Type i64 = b.getI64Type();
  auto type = op.getType();
  for (auto [d, axes] : llvm::enumerate(sharding.dims)) {
    if (axes.empty() && type.getDimSize(d) == 1)
      continue;
    if (axes.size() == 1 &&
        !llvm::any_of(llvm::drop_begin(sharding.dims, d + 1),
                      [](auto &a) { return !a.empty(); })) {
      Value index =
          getScalar(step, (axes.front().getValue() + "_index").str(), i64);
      Value offset =
          gb.mul(index, gb.scalar(double(type.getNumElements()), index));
      op.getKeyMutable().assign(
          ShiftKeyOp::create(b, op.getLoc(), op.getKey(), offset));
      return success();
    }
    break;
  }
  return op.emitOpError("is cut along other dims than its outermost, whose "
                        "random numbers are not supported");
}

LogicalResult Partitioner::adapt(Operation *op, ArrayRef<Sharding> before) {
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    reshape.setShape(reshape.getType().getShape());
  } else if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto splat = cast<SplatElementsAttr>(constant.getValue());
    constant.setValueAttr(splat.resizeSplat(constant.getType()));
  } else if (auto dropout = dyn_cast<DropoutOp>(op)) {
    if (dropout.getKey())
      return shiftKey(dropout, before[0]);
  }
  return success();
}

/// How many devices share the elements that a mean is of.
static int64_t getSharers(const Sharding &sharding, const Mesh &mesh) {
  int64_t count = 1;
  for (StringAttr axis : sharding.partial)
    count *= mesh.getSize(axis);
  return count;
}

LogicalResult Partitioner::visit(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    SmallVector<Sharding> shardings;
    if (auto list = op.getAttrOfType<ArrayAttr>("blu.sharding")) {
      for (auto [result, attr] : llvm::zip_equal(op.getResults(), list)) {
        FailureOr<Sharding> sharding = Sharding::get(attr);
        if (failed(sharding))
          return op.emitOpError("attribute 'blu.sharding' is ") << attr;
        shardings.push_back(*sharding);
        result.setType(localType(result, attr));
      }
      op.removeAttr("blu.sharding");
    }
    if (auto stack = dyn_cast<StackOp>(op)) {
      for (unsigned i = 0, e = stack.getNumCarries(); i < e; ++i)
        stack.getCarryArg(i).setType(stack.getCarries()[i].getType());
      for (auto [i, value] : llvm::enumerate(stack.getSlices()))
        stack.getSliceArg(i).setType(StackOp::slicedType(value.getType()));
    } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
      for (auto [i, value] : llvm::enumerate(accumulate.getSlices()))
        accumulate.getBodyBlock()->getArgument(1 + i).setType(
            StackOp::slicedType(value.getType()));
    }
    for (Region &region : op.getRegions())
      if (failed(visit(region.front())))
        return failure();
    if (shardings.empty())
      continue;
    if (auto mean = dyn_cast<ReduceMeanOp>(op)) {
      OpBuilder b(mean->getContext());
      b.setInsertionPointAfter(mean);
      GradBuilder gb(b, mean.getLoc());
      auto count = double(getSharers(shardings[0], mesh));
      Value share = gb.div(mean, gb.scalar(count, mean));
      mean.getResult().replaceAllUsesExcept(share, share.getDefiningOp());
    }
    if (failed(adapt(&op, shardings)))
      return failure();
  }
  return success();
}

LogicalResult Partitioner::run() {
  bool isCut = false;
  for (BlockArgument argument : step.getArguments()) {
    unsigned i = argument.getArgNumber();
    if (Attribute attr = step.getArgAttr(i, "blu.sharding")) {
      argument.setType(localType(argument, attr));
      step.removeArgAttr(i, StringAttr::get(step.getContext(), "blu.sharding"));
      step.setArgAttr(i, "blu.part", attr);
      isCut = true;
    }
  }
  if (failed(visit(*step.getBodyBlock())))
    return failure();
  step.setFunctionType(FunctionType::get(
      step.getContext(), step.getBodyBlock()->getArgumentTypes(),
      step.getTerminator()->getOperandTypes()));
  if (!isCut)
    return success();
  NamedAttrList entry(step->getAttrOfType<DictionaryAttr>("blurt.entry"));
  if (auto batch = dyn_cast_or_null<IntegerAttr>(entry.get("batch"))) {
    Builder b(step.getContext());
    entry.set("batch",
              b.getI64IntegerAttr(batch.getInt() / mesh.getSize("dp")));
    step->setAttr("blurt.entry", entry.getDictionary(step.getContext()));
  }
  return success();
}

namespace {
struct PartitionPass : blutrain::impl::PartitionPassBase<PartitionPass> {
  using PartitionPassBase::PartitionPassBase;

  void runOnOperation() override {
    Mesh mesh = Mesh::get(getOperation());
    if (mesh.axes.empty())
      return;
    for (StepOp step : getOperation().getOps<StepOp>())
      if (failed(Partitioner(step, mesh).run()))
        return signalPassFailure();
  }
};
} // namespace
