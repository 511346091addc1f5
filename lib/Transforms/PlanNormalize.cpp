//===- PlanNormalize.cpp - copies that every placement needs --------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "PlanDetail.h"
#include "blutrain/Analysis/Placement.h"

using namespace blutrain;
using namespace mlir;
using blurt::LoopOp;

blurt::GroupOp blutrain::createCopy(OpBuilder &builder, Location loc,
                                    Value source, Value target) {
  auto type = cast<ShapedType>(source.getType());
  AffineMap map =
      builder.getMultiDimIdentityMap(static_cast<unsigned>(type.getRank()));
  SmallVector<Value> outs;
  SmallVector<Type> results;
  if (target)
    outs.push_back(target);
  else
    results.push_back(type);
  return blurt::GroupOp::create(builder, loc, "copy", type.getShape(),
                                /*reduce=*/{}, source, map,
                                /*tables=*/{}, outs, results, map,
                                [](OpBuilder &, Location, ValueRange scalars) {
                                  return SmallVector<Value>(scalars);
                                });
}

namespace {

/// Follows the strides that values have if everything with bytes of its own is
/// row-major. The placement deviates from that only where all views of a value
/// stay expressible.
class Normalizer {
public:
  void run(func::FuncOp func) {
    for (BlockArgument argument : func.getArguments())
      setContiguous(argument);
    visit(func.getBody().front());
  }

private:
  void setContiguous(Value value) {
    views.insert_or_assign(
        value,
        ArenaView::contiguous(0, cast<RankedTensorType>(value.getType())));
  }
  const ArenaView &getView(Value value) const {
    return views.find(value)->second;
  }

  void copyOperand(OpOperand &operand) {
    OpBuilder builder(operand.getOwner());
    Operation *copy = createCopy(builder, operand.getOwner()->getLoc(),
                                 operand.get(), /*target=*/{});
    operand.set(copy->getResult(0));
    setContiguous(operand.get());
  }

  void visit(Block &block);
  void visitView(Operation *op);
  void visitLoop(LoopOp loop);

  DenseMap<Value, ArenaView> views;
};

} // namespace

void Normalizer::visit(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (isView(&op)) {
      visitView(&op);
    } else if (auto loop = dyn_cast<LoopOp>(op)) {
      visitLoop(loop);
    } else {
      for (OpOperand &operand : op.getOpOperands())
        if (!acceptsOperandLayout(operand, getView(operand.get())))
          copyOperand(operand);
      for (Value result : op.getResults())
        setContiguous(result);
    }
  }
}

void Normalizer::visitView(Operation *op) {
  Value result = op->getResult(0);
  const ArenaView &source = getView(op->getOperand(0));
  ArrayRef<int64_t> shape = cast<RankedTensorType>(result.getType()).getShape();
  std::optional<ArenaView> view;
  if (auto transpose = dyn_cast<blurt::TransposeOp>(op)) {
    view = source.transposed(transpose.getPermutation());
  } else if (auto slice = dyn_cast<blurt::SliceOp>(op)) {
    view = source.sliced(slice.getOffsets(), shape);
  } else {
    view = source.reshaped(shape);
    if (!view) {
      copyOperand(op->getOpOperand(0));
      view = getView(op->getOperand(0)).reshaped(shape);
    }
  }
  views.insert_or_assign(result, *view);
}

void Normalizer::visitLoop(LoopOp loop) {
  setContiguous(loop.getIteration());
  for (unsigned i = 0, e = loop.getCarries().size(); i < e; ++i)
    setContiguous(loop.getCarryArg(i));
  for (unsigned i = 0, e = loop.getSlices().size(); i < e; ++i)
    views.insert_or_assign(loop.getSliceArg(i),
                           getView(loop.getSlices()[i]).element(loop));
  visit(*loop.getBodyBlock());
  // Yielded values are put in place one after the other at the iteration's end:
  // one that lies in the place of a carry must be saved before.
  Operation *yield = loop.getBodyBlock()->getTerminator();
  for (unsigned i = 0, e = loop.getCarries().size(); i < e; ++i) {
    Value root = yield->getOperand(i);
    while (root.getDefiningOp() && isView(root.getDefiningOp()))
      root = root.getDefiningOp()->getOperand(0);
    auto argument = dyn_cast<BlockArgument>(root);
    if (!argument || argument.getOwner() != loop.getBodyBlock())
      continue;
    unsigned number = argument.getArgNumber();
    bool isCarry = number >= 1 && number <= loop.getCarries().size();
    if (isCarry && yield->getOperand(i) != loop.getCarryArg(i))
      copyOperand(yield->getOpOperand(i));
  }
  for (Value result : loop.getResults())
    setContiguous(result);
}

void blutrain::normalizeForPlan(func::FuncOp func) { Normalizer().run(func); }
