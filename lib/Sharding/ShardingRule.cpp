//===- ShardingRule.cpp - how an op's dims belong together ----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "ShardingRule.h"

#include "Blu/Sharding.h"

#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

ShardingRule::ShardingRule(Operation *op) : linearIn(op->getNumOperands()) {
  for (Value operand : op->getOperands())
    operands.emplace_back(shapeOf(operand).size(), kWhole);
  for (Value result : op->getResults())
    results.emplace_back(shapeOf(result).size(), kWhole);
}

namespace {
using Linear = ShardingRule::Linear;
constexpr int kAny = ShardingRule::kAny;

/// Operands are aligned with the result at the last dim.
ShardingRule elementwise(Operation *op, Linear linear = Linear::None,
                         ArrayRef<unsigned> linearIn = {}) {
  ShardingRule rule(op);
  rule.linear = linear;
  for (unsigned operand : linearIn)
    rule.linearIn.set(operand);
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  auto rank = int(shape.size());
  for (auto [value, factors] :
       llvm::zip_equal(op->getOperands(), rule.operands)) {
    int first = rank - int(factors.size());
    for (int d = 0; d < int(factors.size()); ++d)
      factors[d] = shapeOf(value)[d] == shape[first + d] ? first + d : kAny;
  }
  for (ShardingRule::Factors &factors : rule.results)
    for (int d = 0; d < rank; ++d)
      factors[d] = d;
  return rule;
}

/// The first `count` dims of all values of at least that rank.
ShardingRule leading(Operation *op, int count) {
  ShardingRule rule(op);
  for (auto *list : {&rule.operands, &rule.results})
    for (ShardingRule::Factors &factors : *list)
      if (int(factors.size()) >= count)
        for (int d = 0; d < count; ++d)
          factors[d] = d;
  return rule;
}

ShardingRule reduction(Operation *op, ArrayRef<int64_t> dims, bool keepDims,
                       bool sums) {
  ShardingRule rule(op);
  unsigned at = 0;
  for (int d = 0; d < int(rule.operands[0].size()); ++d) {
    bool isReduced = llvm::is_contained(dims, d);
    if (!isReduced || sums)
      rule.operands[0][d] = d;
    if (!isReduced)
      rule.results[0][at] = d;
    else if (keepDims)
      rule.results[0][at] = kAny;
    at += !isReduced || keepDims;
  }
  if (sums) {
    rule.linear = Linear::Each;
    rule.linearIn.set(0);
  }
  return rule;
}

/// Dims are grouped so that each group has as many elements on both sides; a
/// cut of the outermost dim of a group is one of the other side's too.
ShardingRule reshape(ReshapeOp op) {
  ShardingRule rule(op);
  rule.linear = Linear::Each;
  rule.linearIn.set(0);
  ArrayRef<int64_t> in = shapeOf(op.getInput()), out = shapeOf(op.getResult());
  unsigned i = 0, j = 0;
  int factor = 0;
  while (i < in.size() || j < out.size()) {
    int64_t a = 1, b = 1;
    std::optional<unsigned> firstIn, firstOut;
    do {
      if (i < in.size() && (a <= b || j == out.size())) {
        if (in[i] == 1)
          rule.operands[0][i] = kAny;
        else if (!firstIn)
          firstIn = i;
        a *= in[i++];
      } else {
        if (out[j] == 1)
          rule.results[0][j] = kAny;
        else if (!firstOut)
          firstOut = j;
        b *= out[j++];
      }
    } while (a != b && (i < in.size() || j < out.size()));
    if (firstIn && firstOut) {
      rule.operands[0][*firstIn] = factor;
      rule.results[0][*firstOut] = factor++;
    }
  }
  return rule;
}

ShardingRule matmul(MatmulOp op) {
  ShardingRule rule(op);
  rule.linear = Linear::Each;
  rule.linearIn.set();
  auto rank = int(rule.results[0].size());
  int m = rank - 2, n = rank - 1, k = rank;
  for (auto [i, factors] : llvm::enumerate(rule.operands)) {
    auto itsRank = int(factors.size());
    bool isTransposed = i == 0 ? op.getTransA() : op.getTransB();
    int rows = i == 0 ? m : k, columns = i == 0 ? k : n;
    if (itsRank < 2)
      return ShardingRule(op);
    factors[itsRank - 2] = isTransposed ? columns : rows;
    factors[itsRank - 1] = isTransposed ? rows : columns;
    for (int d = 0; d < itsRank - 2; ++d) {
      int factor = d + rank - itsRank;
      factors[d] =
          shapeOf(op->getOperand(i))[d] == shapeOf(op.getResult())[factor]
              ? factor
              : kAny;
    }
  }
  for (int d = 0; d < rank; ++d)
    rule.results[0][d] = d;
  return rule;
}

ShardingRule linear(LinearOp op) {
  ShardingRule rule(op);
  auto last = int(rule.results[0].size()) - 1;
  for (int d = 0; d < last; ++d)
    rule.operands[0][d] = rule.results[0][d] = d;
  rule.results[0][last] = last;
  rule.operands[0][last] = last + 1;
  rule.operands[1] = {last, last + 1};
  if (op.getBias())
    rule.operands[2] = {last};
  // With a bias every device would add it.
  if (!op.getBias()) {
    rule.linear = Linear::Each;
    rule.linearIn.set();
  } else {
    rule.operands[0][last] = rule.operands[1][1] = ShardingRule::kWhole;
  }
  return rule;
}

/// Batches are independent.
ShardingRule batches(Operation *op) { return leading(op, 1); }

ShardingRule allBut(Operation *op, int64_t dim) {
  ShardingRule rule = elementwise(op);
  for (auto *list : {&rule.operands, &rule.results})
    for (ShardingRule::Factors &factors : *list)
      factors[dim] = ShardingRule::kWhole;
  return rule;
}

ShardingRule transpose(TransposeOp op) {
  ShardingRule rule(op);
  rule.linear = Linear::Each;
  rule.linearIn.set(0);
  for (auto [d, from] : llvm::enumerate(op.getPermutation()))
    rule.results[0][d] = rule.operands[0][from] = int(d);
  return rule;
}

ShardingRule concat(ConcatOp op) {
  ShardingRule rule = allBut(op, op.getDim());
  rule.linear = Linear::Joint;
  return rule;
}

ShardingRule part(Operation *op, int64_t dim) {
  ShardingRule rule(op);
  rule.linear = Linear::Each;
  rule.linearIn.set(0);
  for (auto *list : {&rule.operands, &rule.results})
    for (ShardingRule::Factors &factors : *list)
      for (int d = 0; d < int(factors.size()); ++d)
        factors[d] = d == dim ? ShardingRule::kWhole : d;
  return rule;
}

ShardingRule embedding(EmbeddingOp op) {
  ShardingRule rule(op);
  auto last = int(rule.results[0].size()) - 1;
  for (int d = 0; d < last; ++d)
    rule.operands[1][d] = rule.results[0][d] = d;
  rule.operands[0][1] = rule.results[0][last] = last;
  return rule;
}

ShardingRule embeddingGrad(EmbeddingGradOp op) {
  ShardingRule rule(op);
  auto last = int(rule.operands[1].size()) - 1;
  for (int d = 0; d < last; ++d)
    rule.operands[0][d] = rule.operands[1][d] = d;
  rule.operands[1][last] = rule.results[0][1] = last;
  rule.linear = Linear::Each;
  rule.linearIn.set(1);
  return rule;
}

/// Rows of the last dim are independent; cotangents of weights are sums.
ShardingRule normGrad(LayerNormGradOp op) {
  ShardingRule rule(op);
  auto last = int(rule.operands[0].size()) - 1;
  for (int d = 0; d < last; ++d)
    rule.operands[0][d] = rule.operands[2][d] = rule.results[0][d] = d;
  return rule;
}

ShardingRule norm(LayerNormOp op) {
  ShardingRule rule(op);
  auto last = int(rule.operands[0].size()) - 1;
  for (int d = 0; d < last; ++d)
    rule.operands[0][d] = rule.results[0][d] = d;
  return rule;
}

ShardingRule crossEntropy(CrossEntropyOp op) {
  ShardingRule rule(op);
  // A mean is of what is counted on all devices; it is written out before.
  if (op.getReduction() == LossReduction::Mean)
    return rule;
  for (int d = 0; d < int(rule.operands[1].size()); ++d) {
    rule.operands[0][d] = rule.operands[1][d] = d;
    if (op.getReduction() == LossReduction::None)
      rule.results[0][d] = d;
  }
  return rule;
}

ShardingRule crossEntropyGrad(CrossEntropyGradOp op) {
  ShardingRule rule(op);
  for (int d = 0; d < int(rule.operands[1].size()); ++d) {
    rule.operands[0][d] = rule.operands[1][d] = rule.results[0][d] = d;
    if (!rule.operands[2].empty())
      rule.operands[2][d] = d;
  }
  return rule;
}

ShardingRule positions(PositionsOp op) {
  ShardingRule rule(op);
  for (int d = 0; d < int(rule.operands[0].size()); ++d)
    if (d != int64_t(op.getDim()))
      rule.operands[0][d] = kAny;
  return rule;
}

/// A sum over all tensors does not know how they are cut.
ShardingRule whole(Operation *op) { return ShardingRule(op); }
} // namespace

namespace {
using RuleOf = ShardingRule (*)(Operation *);

/// The rule of each op that has one, and why the others have none.
struct Rules {
  llvm::StringMap<RuleOf> rules;
  llvm::StringMap<StringRef> refusals;

  template <typename... Ops, typename Rule> void add(Rule) {
    // A lambda without captures is nothing but its type.
    (rules.insert({Ops::getOperationName(),
                   [](Operation *op) { return Rule()(cast<Ops>(op)); }}),
     ...);
  }
  template <typename... Ops> void refuse(StringRef why) {
    (refusals.insert({Ops::getOperationName(), why}), ...);
  }

  Rules();
};

Rules::Rules() {
  add<AddOp, SubOp>([](auto o) { return elementwise(o, Linear::Joint); });
  add<MulOp>([](auto o) { return elementwise(o, Linear::Each, {0, 1}); });
  add<DivOp, NegOp, StopGradientOp, BroadcastOp>(
      [](auto o) { return elementwise(o, Linear::Each, {0}); });
  add<CastOp>([](CastOp o) {
    Type from = getElementTypeOrSelf(o.getInput().getType());
    Type to = getElementTypeOrSelf(o.getType());
    bool widens = isa<FloatType>(from) && isa<FloatType>(to) &&
                  from.getIntOrFloatBitWidth() <= to.getIntOrFloatBitWidth();
    return widens ? elementwise(o, Linear::Each, {0}) : elementwise(o);
  });
  add<DropoutOp, MaximumOp, MinimumOp, CompareOp, SelectOp, AbsOp, ExpOp, LogOp,
      SqrtOp, RsqrtOp, TanhOp, SigmoidOp, SiluOp, ReluOp, GeluOp, GeluGradOp,
      AdamWOp, SgdOp>([](auto o) { return elementwise(o); });
  add<ReduceSumOp, ReduceMeanOp>(
      [](auto o) { return reduction(o, o.getDims(), o.getKeepDims(), true); });
  add<ReduceMaxOp>(
      [](auto o) { return reduction(o, o.getDims(), o.getKeepDims(), false); });
  add<ReshapeOp>([](auto o) { return reshape(o); });
  add<TransposeOp>([](auto o) { return transpose(o); });
  add<ConcatOp>([](auto o) { return concat(o); });
  add<SliceOp, SplitOp>([](auto o) { return part(o, o.getDim()); });
  add<SoftmaxOp, LogSoftmaxOp>([](auto o) { return allBut(o, o.getDim()); });
  add<MatmulOp>([](auto o) { return matmul(o); });
  add<LinearOp>([](auto o) { return linear(o); });
  add<AttentionOp, AttentionGradOp>([](auto o) { return batches(o); });
  add<EmbeddingOp>([](auto o) { return embedding(o); });
  add<EmbeddingGradOp>([](auto o) { return embeddingGrad(o); });
  add<LayerNormOp>([](auto o) { return norm(o); });
  add<LayerNormGradOp>([](auto o) { return normGrad(o); });
  add<CrossEntropyOp>([](auto o) { return crossEntropy(o); });
  add<CrossEntropyGradOp>([](auto o) { return crossEntropyGrad(o); });
  add<PositionsOp>([](auto o) { return positions(o); });
  add<ConstantOp, RandomKeyOp, GlobalNormOp, ClipScaleOp, CachedAttentionOp,
      AllReduceOp, ReduceScatterOp, AllGatherOp, LocalShardOp, ShiftKeyOp>(
      [](auto o) { return whole(o); });
  refuse<ModelOp, StepOp, ReturnOp, YieldOp>(
      "it gives a program its structure");
  refuse<StackOp, AccumulateOp, CheckpointOp>(
      "propagation goes through its body");
  refuse<ParamOp>("blu-materialize-state has made it an argument");
}

const Rules &getRules() {
  static const Rules rules;
  return rules;
}
} // namespace

std::optional<ShardingRule> blutrain::getShardingRule(Operation *op) {
  auto it = getRules().rules.find(op->getName().getStringRef());
  if (it == getRules().rules.end())
    return std::nullopt;
  return it->second(op);
}

bool blutrain::hasShardingRule(OperationName name) {
  return getRules().rules.contains(name.getStringRef());
}

StringRef blutrain::whyNoShardingRule(OperationName name) {
  return getRules().refusals.lookup(name.getStringRef());
}
