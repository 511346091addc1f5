//===- FusionPass.cpp - which groups merge --------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// The rules, in the order they are tried until none applies:
//
//   clone    a cheap group whose readers are all groups goes into each of them,
//            if that moves no more bytes, and fewer than if it joined the group
//            that it reads;
//   edge     a group joins the first reader that can take it; one that widens
//            is left to its own readers, so that no wide copy is stored;
//   scalar   groups of one point join;
//   sibling  groups that read the same value join.
//
// Cost: bytes read and written by the groups, each tensor once a group. A merge
// must not raise it; joining siblings must lower it.
//
//===----------------------------------------------------------------------===//

#include "FusionModel.h"
#include "blutrain/Conversion/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"

namespace blutrain {
#define GEN_PASS_DEF_FUSEGROUPS
#include "blutrain/Conversion/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace blutrain;
using blurt::GroupOp;

//===----------------------------------------------------------------------===//
// What groups are like
//===----------------------------------------------------------------------===//

/// Most operations of a body that is worth repeating in every reader.
static constexpr unsigned kMaxCheapOps = 8;
/// Most inputs of a scalar group that is repeated in every reader.
static constexpr unsigned kMaxScalarInputs = 6;
/// Longest single row that is written as well as reduced.
static constexpr int64_t kMaxSerialRow = 4096;
/// Most operations, views aside, between groups of which one has to wait for
/// the other: further apart, values would live longer, and what is recomputed
/// to save memory would be kept instead.
static constexpr unsigned kMaxDistance = 12;

static bool isCheapOp(Operation &op) {
  return isa<blurt::IndexOp, blurt::LoadOp, arith::ConstantOp, arith::AddFOp,
             arith::SubFOp, arith::MulFOp, arith::NegFOp, arith::MaximumFOp,
             arith::MinimumFOp, arith::CmpFOp, arith::CmpIOp, arith::SelectOp,
             arith::ExtFOp, arith::TruncFOp, arith::ExtSIOp, arith::ExtUIOp,
             arith::TruncIOp, arith::SIToFPOp, arith::UIToFPOp, arith::FPToSIOp,
             arith::AddIOp, arith::SubIOp, arith::MulIOp, math::AbsFOp>(op);
}

/// Whether evaluating the group again costs next to nothing.
static bool isCheap(GroupOp group) {
  if (!group.getReduce().empty())
    return false;
  // A uniform value is computed once a kernel.
  if (isScalarGroup(group))
    return group.getInputs().size() <= kMaxScalarInputs;
  unsigned count = 0;
  for (Operation &op : group.getBodyBlock()->without_terminator()) {
    if (!isCheapOp(op))
      return false;
    count += !isa<arith::ConstantOp>(op);
  }
  return count <= kMaxCheapOps;
}

/// Whether rows along the innermost dim are reduced: a row stays at hand while
/// it is read again.
static bool isRowGroup(GroupOp group) {
  for (int64_t dim = group.getDomain().size() - 1; dim >= 0; --dim)
    if (group.getDomain()[dim] > 1)
      return group.isReduced(dim);
  return !group.getReduce().empty();
}

/// Whether the group writes an output along all the dims that it reduces.
static bool writesAlong(GroupOp group) {
  return llvm::any_of(llvm::seq(group.getNumResults()), [&](unsigned i) {
    uint64_t dims = group.getMentionedDims(group.getOutputMap(i));
    return llvm::all_of(group.getReduce(),
                        [&](int64_t dim) { return dims >> dim & 1; });
  });
}

/// Whether one row is reduced that is too long to be more than a sum: nothing
/// runs in parallel over it.
static bool isSerialGroup(GroupOp group) {
  int64_t kept = 1, reduced = 1;
  for (auto [dim, extent] : llvm::enumerate(group.getDomain()))
    (group.isReduced(dim) ? reduced : kept) *= extent;
  return kept == 1 && reduced > kMaxSerialRow;
}

//===----------------------------------------------------------------------===//
// What lies between two groups
//===----------------------------------------------------------------------===//

/// Whether a value of `first` reaches `second` other than straight into an
/// input (`allowEdges`), that is through a third op or into a table.
static bool hasOtherPath(GroupOp first, GroupOp second, bool allowEdges) {
  Block *block = first->getBlock();
  SmallVector<std::pair<Value, bool>> work; // value, reached through views only
  DenseSet<std::pair<Operation *, unsigned>> seen;
  for (Value result : first.getResults())
    work.push_back({result, true});
  while (!work.empty()) {
    auto [value, isDirect] = work.pop_back_val();
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      Operation *op = block->findAncestorOpInBlock(*user);
      if (op == second) {
        if (!allowEdges || !isDirect ||
            use.getOperandNumber() >= second.getInputs().size())
          return true;
        continue;
      }
      if (!op || !op->isBeforeInBlock(second))
        continue;
      bool stillDirect = isDirect && isViewOp(op);
      if (!seen.insert({op, stillDirect}).second)
        continue;
      for (Value result : op->getResults())
        work.push_back({result, stillDirect});
    }
  }
  return false;
}

/// Whether `op` or what it contains uses a result of an op in `ops`.
static bool usesAny(Operation *op, const DenseSet<Operation *> &ops) {
  bool found = false;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (Operation *producer = operand.getDefiningOp())
        found |= ops.contains(producer);
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

static int64_t getResultBytes(Operation *op) {
  int64_t bytes = 0;
  if (!isViewOp(op))
    for (Value result : op->getResults())
      bytes += getBytes(result);
  return bytes;
}

/// What has to move so that two groups can stand in one place.
struct Between {
  SmallVector<Operation *> readers; ///< need `first`, would move behind
  SmallVector<Operation *> sources; ///< needed by `second`, would move before
  /// Bytes of what they compute, which would live longer.
  int64_t readerBytes = 0, sourceBytes = 0;
  unsigned distance = 0; ///< all in between, without views

  Between(GroupOp first, GroupOp second) {
    DenseSet<Operation *> needFirst{first};
    SmallVector<Operation *> ops;
    for (Operation *op = first->getNextNode(); op != second;
         op = op->getNextNode()) {
      ops.push_back(op);
      distance += !isViewOp(op);
      if (usesAny(op, needFirst)) {
        needFirst.insert(op);
        readers.push_back(op);
        readerBytes += getResultBytes(op);
      }
    }
    // From the end: an op is needed if a needed one uses it.
    DenseSet<Operation *> needed;
    auto need = [&](Operation *root) {
      root->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands())
          if (Operation *producer = operand.getDefiningOp())
            needed.insert(producer);
      });
    };
    need(second);
    for (Operation *op : llvm::reverse(ops))
      if (needed.contains(op) && !needFirst.contains(op)) {
        need(op);
        sources.push_back(op);
        sourceBytes += getResultBytes(op);
      }
    std::reverse(sources.begin(), sources.end());
  }

  /// Moves as little as possible and returns where the merged group goes.
  Operation *makeRoom(GroupOp first, GroupOp second) {
    if (sourceBytes < readerBytes) {
      for (Operation *op : sources)
        op->moveBefore(first);
      return first;
    }
    Operation *last = second;
    for (Operation *op : readers) {
      op->moveAfter(last);
      last = op;
    }
    return second;
  }
};

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct FuseGroups : public blutrain::impl::FuseGroupsBase<FuseGroups> {
  using FuseGroupsBase::FuseGroupsBase;

  void runOnOperation() override {
    numBefore += countGroups();
    clean();
    SmallVector<Block *> blocks;
    getOperation()->walk([&](Block *block) {
      if (!isa<GroupOp>(block->getParentOp()))
        blocks.push_back(block);
    });
    for (Block *block : blocks)
      fuseBlock(*block);
    clean();
    numAfter += countGroups();
  }

private:
  int64_t countGroups() {
    int64_t count = 0;
    getOperation()->walk([&](GroupOp) { ++count; });
    return count;
  }

  /// Drops what is dead and what bodies compute twice.
  void clean() {
    eraseDeadOps(getOperation());
    SmallVector<GroupOp> groups;
    getOperation()->walk([&](GroupOp group) { groups.push_back(group); });
    IRRewriter rewriter(&getContext());
    for (GroupOp group : llvm::reverse(groups))
      if ((group = cleanGroup(group))) {
        DominanceInfo dominance(group);
        eliminateCommonSubExpressions(rewriter, dominance, group);
      }
    eraseDeadOps(getOperation());
  }

  static SmallVector<GroupOp> groupsOf(Block &block) {
    return llvm::to_vector(block.getOps<GroupOp>());
  }

  void fuseBlock(Block &block) {
    bool changed = true;
    while (changed) {
      changed = false;
      while (cloneOne(block) || mergeOneEdge(block))
        changed = true;
      while (mergeOnePair(block, MergeKind::Scalar) ||
             mergeOnePair(block, MergeKind::Sibling))
        changed = true;
    }
  }

  bool fits(const MergePlan &plan) {
    DenseSet<Value> values;
    for (unsigned side : {0u, 1u})
      for (const MergePlan::Access &input : plan.inputs[side])
        values.insert(input.value);
    unsigned tables = GroupOp(plan.first).getTables().size() +
                      GroupOp(plan.second).getTables().size();
    return values.size() + tables + plan.outputs.size() <= maxOperands;
  }

  //===--------------------------------------------------------------------===//
  // Cheap groups into all readers
  //===--------------------------------------------------------------------===//

  /// The groups of the block that read `value`, through reshapes and
  /// transposes; false if anything else does.
  static bool collectReaders(Value value, Block &block,
                             llvm::SetVector<Operation *> &readers) {
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (user->getBlock() != &block)
        return false;
      if (isViewOp(user)) {
        if (!collectReaders(user->getResult(0), block, readers))
          return false;
        continue;
      }
      auto group = dyn_cast<GroupOp>(user);
      if (!group || use.getOperandNumber() >= group.getInputs().size())
        return false;
      readers.insert(group);
    }
    return true;
  }

  bool cloneOne(Block &block) {
    for (GroupOp group : groupsOf(block)) {
      if (!isCheap(group))
        continue;
      llvm::SetVector<Operation *> set;
      if (!llvm::all_of(group.getResults(), [&](Value result) {
            return collectReaders(result, block, set);
          }))
        continue;
      SmallVector<GroupOp> readers;
      for (Operation *op : set)
        readers.push_back(cast<GroupOp>(op));
      if (readers.size() < 2)
        continue;
      llvm::sort(readers,
                 [](GroupOp a, GroupOp b) { return a->isBeforeInBlock(b); });
      // All or none, so that the value need not be stored at all.
      int64_t before = getBytesMoved(group), after = 0;
      bool possible = true;
      for (GroupOp reader : readers) {
        auto plan = planMerge(group, reader, MergeKind::Clone);
        possible = plan && fits(*plan);
        if (!possible)
          break;
        before += plan->bytesBefore;
        after += plan->bytesAfter;
      }
      if (!possible || after > before)
        continue;
      if (std::optional<MergePlan> edge = bestEdgeTo(group);
          edge && !isLeftToReaders(group) && saving(*edge) > before - after) {
        merge(*edge, MergeKind::Edge, Between(edge->first, edge->second));
        return true;
      }
      for (GroupOp reader : readers) {
        auto plan = planMerge(group, reader, MergeKind::Clone);
        OpBuilder builder(reader);
        applyMerge(builder, *plan, MergeKind::Clone);
        ++numCloned;
      }
      cleanGroup(group);
      return true;
    }
    return false;
  }

  //===--------------------------------------------------------------------===//
  // Producers into readers
  //===--------------------------------------------------------------------===//

  bool mergeOneEdge(Block &block) {
    for (GroupOp reader : groupsOf(block)) {
      if (isLeftToReaders(reader))
        continue;
      for (GroupOp producer : producersOf(reader))
        if (std::optional<MergePlan> plan = planEdge(producer, reader)) {
          merge(*plan, MergeKind::Edge, Between(producer, reader));
          return true;
        }
    }
    return false;
  }

  /// The groups of the same block whose results `reader` reads, through views.
  static SmallVector<GroupOp> producersOf(GroupOp reader) {
    SmallVector<GroupOp> producers;
    for (Value input : reader.getInputs()) {
      Operation *op = input.getDefiningOp();
      while (op && isViewOp(op))
        op = op->getOperand(0).getDefiningOp();
      auto producer = dyn_cast_or_null<GroupOp>(op);
      if (producer && producer->getBlock() == reader->getBlock())
        producers.push_back(producer);
    }
    return producers;
  }

  /// Whether the group does no more than to store values in a wider type that
  /// other groups then read: each of those can widen what it reads.
  static bool isLeftToReaders(GroupOp group) {
    if (group.getInputs().size() != 1 || group.getNumResults() != 1 ||
        !group.getTables().empty() ||
        group.getYielded()[0] != group.getBodyBlock()->getArgument(0) ||
        getBytes(group.getInputs()[0]) >= getBytes(group.getResult(0)))
      return false;
    llvm::SetVector<Operation *> readers;
    return collectReaders(group.getResult(0), *group->getBlock(), readers) &&
           !readers.empty();
  }

  /// The plan to merge a group into one that reads it, if it should.
  std::optional<MergePlan> planEdge(GroupOp producer, GroupOp reader) {
    auto plan = planMerge(producer, reader, MergeKind::Edge);
    if (!plan || !fits(*plan) || plan->bytesAfter > plan->bytesBefore)
      return std::nullopt;
    // Evaluated more often than before: only if that is cheap.
    if (plan->recomputesFirst && !isCheap(producer))
      return std::nullopt;
    // Columns are not at hand any more when their sum is known.
    if (plan->secondVariesAlongReduced &&
        (!isRowGroup(producer) || isSerialGroup(producer)))
      return std::nullopt;
    if (hasOtherPath(producer, reader, /*allowEdges=*/true))
      return std::nullopt;
    Between between(producer, reader);
    bool staysOutput = plan->outputs.size() > reader.getNumResults();
    if (staysOutput &&
        (between.distance > kMaxDistance || isSerialGroup(reader)))
      return std::nullopt;
    return plan;
  }

  /// The edge into `reader` that saves most.
  std::optional<MergePlan> bestEdgeTo(GroupOp reader) {
    std::optional<MergePlan> best;
    for (GroupOp producer : producersOf(reader)) {
      std::optional<MergePlan> plan = planEdge(producer, reader);
      if (plan && (!best || saving(*plan) > saving(*best)))
        best = std::move(plan);
    }
    return best;
  }

  void merge(const MergePlan &plan, MergeKind kind, Between between) {
    Operation *place = between.makeRoom(plan.first, plan.second);
    OpBuilder builder(place);
    applyMerge(builder, plan, kind);
  }

  //===--------------------------------------------------------------------===//
  // Siblings and scalars
  //===--------------------------------------------------------------------===//

  static bool shareInput(GroupOp a, GroupOp b) {
    DenseSet<Value> values;
    for (Value input : a.getInputs())
      values.insert(stripReshapes(input));
    return llvm::any_of(b.getInputs(), [&](Value input) {
      return cast<RankedTensorType>(input.getType()).getNumElements() > 1 &&
             values.contains(stripReshapes(input));
    });
  }

  /// Merges the pair that saves most: a merge can stand in the way of others.
  bool mergeOnePair(Block &block, MergeKind kind) {
    SmallVector<GroupOp> groups = groupsOf(block);
    std::optional<MergePlan> best;
    for (auto [i, second] : llvm::enumerate(groups))
      for (GroupOp first : ArrayRef(groups).take_front(i)) {
        if (kind == MergeKind::Scalar
                ? !isScalarGroup(first) || !isScalarGroup(second) ||
                      !first.getReduce().empty() || !second.getReduce().empty()
                : !shareInput(first, second))
          continue;
        std::optional<MergePlan> plan = planPair(first, second, kind);
        if (plan && (!best || saving(*plan) > saving(*best)))
          best = std::move(plan);
      }
    if (!best)
      return false;
    merge(*best, kind, Between(best->first, best->second));
    return true;
  }

  static int64_t saving(const MergePlan &plan) {
    return plan.bytesBefore - plan.bytesAfter;
  }

  /// The plan to merge a pair, if it should merge.
  std::optional<MergePlan> planPair(GroupOp first, GroupOp second,
                                    MergeKind kind) {
    auto plan = planMerge(first, second, kind);
    if (!plan || !fits(*plan) || plan->recomputesFirst)
      return std::nullopt;
    if (kind == MergeKind::Sibling) {
      if (saving(*plan) <= 0)
        return std::nullopt;
      // Elementwise work joins columns that it does not feed only if they are
      // written along as well as reduced.
      bool oneReduces = first.getReduce().empty() != second.getReduce().empty();
      GroupOp reducing = first.getReduce().empty() ? second : first;
      if (oneReduces && (isRowGroup(reducing) ? isSerialGroup(reducing)
                                              : !writesAlong(reducing)))
        return std::nullopt;
      // What has to move should be small, for its values live longer.
      Between between(first, second);
      if (between.distance > kMaxDistance ||
          std::min(between.readerBytes, between.sourceBytes) > saving(*plan))
        return std::nullopt;
    }
    if (hasOtherPath(first, second, /*allowEdges=*/false))
      return std::nullopt;
    return plan;
  }
};
} // namespace
