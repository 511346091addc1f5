//===- GroupPlan.cpp - how a group's domain is walked ---------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "GroupPlan.h"

using namespace mlir;
using namespace mlir::blurt;

/// Strides of a memref read or written through `map`, one per dim of the
/// domain.
static SmallVector<int64_t> getDomainStrides(AffineMap map, MemRefType type,
                                             ArrayRef<int64_t> domain) {
  SmallVector<int64_t> strides(domain.size(), 0);
  auto [memrefStrides, offset] = type.getStridesAndOffset();
  for (auto [expr, stride] : llvm::zip_equal(map.getResults(), memrefStrides))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      if (domain[dim.getPosition()] != 1)
        strides[dim.getPosition()] = stride;
  return strides;
}

/// Merges neighbours of one kind (kept or reduced) that are one dim to every
/// operand.
static void mergeDims(GroupOp group, GroupPlan &plan) {
  ArrayRef<int64_t> domain = group.getDomain();
  llvm::SmallDenseSet<int64_t> indexed;
  for (auto index : group.getBodyBlock()->getOps<IndexOp>())
    indexed.insert(index.getDim());

  SmallVector<SmallVector<int64_t>> strides;
  auto addOperands = [&](ValueRange values, bool isInput) {
    for (auto [i, value] : llvm::enumerate(values))
      strides.push_back(getDomainStrides(
          isInput ? group.getInputMap(i) : group.getOutputMap(i),
          cast<MemRefType>(value.getType()), domain));
  };
  addOperands(group.getInputs(), true);
  addOperands(group.getOuts(), false);

  plan.walked.assign(domain.size(), -1);
  SmallVector<unsigned> last; // innermost domain dim of each walked dim
  for (unsigned dim = 0; dim < domain.size(); ++dim) {
    if (domain[dim] == 1)
      continue;
    bool merge = !last.empty() && !indexed.contains(dim) &&
                 !indexed.contains(last.back()) &&
                 group.isReduced(dim) == group.isReduced(last.back());
    for (auto &operand : strides)
      merge = merge && operand[last.back()] == operand[dim] * domain[dim];
    if (merge) {
      plan.extents.back() *= domain[dim];
      plan.members.back() |= uint64_t(1) << dim;
      last.back() = dim;
    } else {
      plan.extents.push_back(domain[dim]);
      plan.members.push_back(uint64_t(1) << dim);
      last.push_back(dim);
    }
    plan.walked[dim] = plan.extents.size() - 1;
  }

  unsigned numInputs = group.getInputs().size();
  unsigned firstOut = numInputs + group.getTables().size();
  for (auto [i, operand] : llvm::enumerate(strides)) {
    bool isInput = i < numInputs;
    Value value =
        isInput ? group.getInputs()[i] : group.getOuts()[i - numInputs];
    Operand result{getElementTypeOrSelf(value.getType()),
                   unsigned(isInput ? i : firstOut + i - numInputs),
                   {},
                   0};
    for (unsigned dim : last)
      result.strides.push_back(operand[dim]);
    (isInput ? plan.inputs : plan.outputs).push_back(std::move(result));
  }
}

/// The vector dim of a map: where most operands are contiguous; outputs count
/// twice, the innermost wins ties.
static unsigned chooseVectorDim(const GroupPlan &plan) {
  unsigned best = 0;
  int64_t bestScore = std::numeric_limits<int64_t>::min();
  for (unsigned dim = 0; dim < plan.extents.size(); ++dim) {
    int64_t score = 0;
    auto count = [&](const Operand &operand, int64_t weight) {
      if (operand.strides[dim] > 1)
        score -= weight;
      else if (operand.strides[dim] == 1)
        score += weight;
    };
    for (const Operand &operand : plan.inputs)
      count(operand, 1);
    for (const Operand &operand : plan.outputs)
      count(operand, 2);
    // A short dim leaves most lanes idle.
    if (plan.extents[dim] < 8)
      score -= 4;
    if (score >= bestScore) {
      bestScore = score;
      best = dim;
    }
  }
  return best;
}

GroupPlan GroupPlan::compute(GroupOp group) {
  GroupPlan plan;
  mergeDims(group, plan);
  unsigned rank = plan.extents.size();
  auto isReduced = [&](unsigned dim) {
    return group.isReduced(llvm::countr_zero(plan.members[dim]));
  };

  bool anyReduced = false;
  for (unsigned dim = 0; dim < rank; ++dim)
    anyReduced |= isReduced(dim);
  // Reductions over extents of 1 only are the value combined with the
  // identity: a row of one element.
  bool hasReduce = !group.getBodyBlock()->getOps<ReduceOp>().empty();

  if (!anyReduced && !hasReduce) {
    plan.schedule = Schedule::Map;
    if (rank != 0) {
      unsigned vectorDim = chooseVectorDim(plan);
      for (unsigned dim = 0; dim < rank; ++dim)
        (dim == vectorDim ? plan.vectorDims : plan.taskDims).push_back(dim);
    }
  } else if (rank != 0 && anyReduced && !isReduced(rank - 1)) {
    plan.schedule = Schedule::Column;
    plan.vectorDims.push_back(rank - 1);
    for (unsigned dim = 0; dim + 1 < rank; ++dim)
      (isReduced(dim) ? plan.loopDims : plan.taskDims).push_back(dim);
  } else {
    plan.schedule = Schedule::Row;
    unsigned run = rank;
    while (run > 0 && isReduced(run - 1))
      --run;
    for (unsigned dim = 0; dim < rank; ++dim)
      (dim >= run       ? plan.vectorDims
       : isReduced(dim) ? plan.loopDims
                        : plan.taskDims)
          .push_back(dim);
  }
  for (unsigned dim : plan.taskDims)
    plan.taskPoints *= plan.extents[dim];
  for (unsigned dim : plan.loopDims) {
    plan.loopPoints *= plan.extents[dim];
    plan.loopMask |= plan.members[dim];
  }
  for (unsigned dim : plan.vectorDims) {
    plan.vectorPoints *= plan.extents[dim];
    plan.vectorMask |= plan.members[dim];
  }

  // Where values vary, and how deep reductions nest.
  uint64_t reduced = 0;
  for (int64_t dim : group.getReduce())
    reduced |= uint64_t(1) << dim;
  DenseMap<Value, unsigned> depth;
  for (unsigned i = 0, e = group.getInputs().size(); i < e; ++i)
    plan.varying[group.getBodyBlock()->getArgument(i)] =
        group.getMentionedDims(group.getInputMap(i));
  for (Operation &op : group.getBodyBlock()->without_terminator()) {
    uint64_t dims = 0;
    unsigned opDepth = 0;
    bool usesReduced = isa<ReduceOp>(op);
    for (Value operand : op.getOperands()) {
      dims |= plan.varying.lookup(operand);
      opDepth = std::max(opDepth, depth.lookup(operand));
      usesReduced |= plan.reducedValues.contains(operand);
    }
    if (auto index = dyn_cast<IndexOp>(op)) {
      if (group.getDomain()[index.getDim()] != 1)
        dims = uint64_t(1) << index.getDim();
    } else if (auto reduce = dyn_cast<ReduceOp>(op)) {
      dims &= ~reduced;
      if (plan.phases.size() <= opDepth)
        plan.phases.resize(opDepth + 1);
      plan.phases[opDepth++].push_back(reduce);
    }
    for (Value result : op.getResults()) {
      plan.varying[result] = dims;
      depth[result] = opDepth;
      if (usesReduced)
        plan.reducedValues.insert(result);
    }
  }
  return plan;
}
