//===- BluToBlurt.cpp - the pass that leaves blu --------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "../FusionModel.h"
#include "Lowering.h"
#include "blutrain/Conversion/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"

namespace blutrain {
#define GEN_PASS_DEF_CONVERTBLUTOBLURT
#include "blutrain/Conversion/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace blutrain;

/// Erases those of `values`' producers that nothing reads any more, then
/// theirs.
static void eraseDeadProducers(SmallVector<Value> values) {
  SetVector<Operation *> ops;
  auto push = [&](Value value) {
    Operation *op = value.getDefiningOp();
    if (op && isa<blurt::BlurtDialect>(op->getDialect()) &&
        isOpTriviallyDead(op))
      ops.insert(op);
  };
  llvm::for_each(values, push);
  while (!ops.empty()) {
    Operation *op = ops.pop_back_val();
    SmallVector<Value> operands(op->getOperands());
    op->erase();
    llvm::for_each(operands, push);
  }
}

/// Shapes are static and, where an op is more than a view of nothing, not
/// empty.
static LogicalResult checkTypes(Operation *op) {
  for (auto [kind, types] :
       {std::pair<StringRef, TypeRange>{"operand", op->getOperandTypes()},
        {"result", op->getResultTypes()}})
    for (auto [i, type] : llvm::enumerate(types)) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      if (!tensor || !tensor.hasStaticShape())
        return op->emitOpError() << kind << ' ' << i << " has type " << type
                                 << ", expected a static shape";
      // An empty contraction is 0.
      bool canBeEmpty = kind == "operand" && isa<blu::MatmulOp>(op);
      if (tensor.getNumElements() == 0 && !canBeEmpty)
        return op->emitOpError() << kind << ' ' << i << " has type " << type
                                 << ", an empty tensor is not supported";
    }
  return success();
}

/// Makes tensors of the constants that library calls, loops or returns read.
static LogicalResult lowerConstants(ArrayRef<blu::ConstantOp> constants) {
  for (blu::ConstantOp op : constants) {
    if (!op.use_empty()) {
      OpBuilder builder(op);
      Lowering lowering(builder, op.getLoc());
      Value tensor = lowering.constant(op.getValue());
      if (!tensor)
        return op.emitOpError("of more than 16 elements that are not all equal "
                              "is not supported");
      op.replaceAllUsesWith(tensor);
    }
    op.erase();
  }
  return success();
}

static LogicalResult convertBody(Operation *step, const LoweringTable &table) {
  inlineCheckpoints(step);
  SmallVector<Operation *> ops;
  SmallVector<blu::ConstantOp> constants;
  step->walk([&](Operation *op) {
    if (auto constant = dyn_cast<blu::ConstantOp>(op))
      constants.push_back(constant);
    else if (op != step && !isa<blu::YieldOp, blu::ReturnOp>(op))
      ops.push_back(op);
  });
  for (Operation *op : ops) {
    if (failed(checkTypes(op)))
      return failure();
    OpBuilder builder(op);
    Lowering lowering(builder, op->getLoc());
    LoweringResult results = table.lower(op, lowering);
    if (failed(results))
      return failure();
    SmallVector<Value> operands(op->getOperands());
    op->replaceAllUsesWith(*results);
    op->erase();
    eraseDeadProducers(operands);
  }
  return lowerConstants(constants);
}

/// The function that takes the place of a step whose body is converted.
static void convertStep(blu::StepOp step) {
  OpBuilder builder(step);
  auto func = func::FuncOp::create(builder, step.getLoc(), step.getSymName(),
                                   step.getFunctionType());
  for (NamedAttribute attribute : step->getDiscardableAttrs())
    func->setDiscardableAttr(attribute.getName(), attribute.getValue());
  if (ArrayAttr attributes = step.getArgAttrsAttr())
    func.setArgAttrsAttr(attributes);
  if (ArrayAttr attributes = step.getResAttrsAttr())
    func.setResAttrsAttr(attributes);
  func.getBody().takeBody(step.getBody());
  Operation *terminator = func.getBody().front().getTerminator();
  builder.setInsertionPoint(terminator);
  func::ReturnOp::create(builder, terminator->getLoc(),
                         terminator->getOperands());
  terminator->erase();
  step.erase();
}

namespace {
struct ConvertBluToBlurt
    : public blutrain::impl::ConvertBluToBlurtBase<ConvertBluToBlurt> {
  void runOnOperation() override {
    LoweringTable table;
    addAttentionLowerings(table);
    addElementwiseLowerings(table);
    addEmbeddingLowerings(table);
    addLossLowerings(table);
    addMatmulLowerings(table);
    addNormalizationLowerings(table);
    addOptimizerLowerings(table);
    addRandomLowerings(table);
    addReductionLowerings(table);
    addShapeLowerings(table);
    addShardingLowerings(table);
    addStructureLowerings(table);
    ModuleOp module = getOperation();
    for (blu::StepOp step :
         llvm::make_early_inc_range(module.getOps<blu::StepOp>())) {
      if (failed(convertBody(step, table)))
        return signalPassFailure();
      convertStep(step);
    }
    eraseDeadOps(module);
    module.walk([&](Operation *op) {
      numGroups += isa<blurt::GroupOp>(op);
      numGemms += isa<blurt::GemmOp>(op);
    });
  }
};
} // namespace
