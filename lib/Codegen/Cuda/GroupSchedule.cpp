//===- GroupSchedule.cpp - how a group becomes threads ----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "GroupKernels.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::blurt;

/// Map: blocks that fill any device; each thread then takes several vectors.
static constexpr int64_t kMapBlocks = 4096;
/// Row: vectors of a thread that may stay in registers, and registers of all
/// that a row reads anew.
static constexpr int64_t kRegisterVectors = 8;
static constexpr int64_t kRegisterScalars = 128;
/// Row: vectors from which a row has twice as many threads, for few of such
/// rows stay on a multiprocessor at a time.
static constexpr int64_t kManyVectors = 8192;
/// Row: rows of a block if each has one warp. They share nothing, and small
/// blocks leave fewer registers unused.
static constexpr int64_t kBlockRows = 4;
/// Row: elements of a part, and elements from which a row is cut.
static constexpr int64_t kRowPart = 8192;
/// Column: rows of a part.
static constexpr int64_t kColumnPart = 256;
static constexpr int64_t kMaxSplits = 1024;
/// Row: shared memory of one block on every architecture, less what the
/// reductions use.
static constexpr int64_t kCacheBytes = 99 * 1024 - 512;

/// True if the partial results of the group's reductions can be written by one
/// kernel and added up by another: one phase, and nothing that varies along the
/// reduced dims depends on a result.
static bool isSplittable(GroupOp group, const GroupPlan &plan) {
  if (plan.phases.size() != 1)
    return false;
  uint64_t reduced = 0;
  for (int64_t dim : group.getReduce())
    reduced |= uint64_t(1) << dim;
  for (unsigned i = 0, e = plan.outputs.size(); i < e; ++i)
    if ((group.getMentionedDims(group.getOutputMap(i)) & reduced) &&
        plan.reducedValues.contains(group.getYielded()[i]))
      return false;
  return true;
}

/// Row: lanes that make 16 bytes of f32, or of anything shorter if nothing
/// along the row is longer.
static int64_t mostRowLanes(const GroupPlan &plan) {
  int64_t bytes = plan.vectorDims.empty() ? 4 : 2;
  for (ArrayRef<Operand> operands :
       {ArrayRef(plan.inputs), ArrayRef(plan.outputs)})
    for (const Operand &operand : operands)
      if (!plan.vectorDims.empty() &&
          operand.strides[plan.vectorDims.back()] != 0)
        bytes = std::max<int64_t>(bytes, getElementBytes(operand.element));
  return bytes > 2 ? 4 : 8;
}

static int64_t largestWidth(int64_t extent, int64_t most) {
  while (most > 1 && extent % most != 0)
    most /= 2;
  return most;
}

bool blurt::isOfTask(const GroupPlan &plan, const Operand &operand) {
  return llvm::any_of(plan.taskDims,
                      [&](unsigned dim) { return operand.strides[dim] != 0; });
}

bool blurt::isCacheable(const GroupPlan &plan, const Operand &operand) {
  int64_t stride = 1;
  for (unsigned dim : llvm::reverse(plan.vectorDims)) {
    if (operand.strides[dim] != stride)
      return false;
    stride *= plan.extents[dim];
  }
  return true;
}

int64_t blurt::getCacheBytes(const GroupPlan &plan, const Operand &operand) {
  return llvm::alignTo(plan.vectorPoints * getElementBytes(operand.element),
                       16);
}

bool blurt::isTurned(const Operand &operand, unsigned vectorDim, unsigned dim) {
  return operand.strides[dim] == 1 && operand.strides[vectorDim] > 1;
}

/// The dim along which an input lies but no output, if both it and the vector
/// dim are long enough for tiles; -1 if there is none.
static int64_t findTurnedDim(const GroupPlan &plan) {
  unsigned vectorDim = plan.vectorDims.back();
  if (plan.extents[vectorDim] < kTile / 2)
    return -1;
  for (const Operand &operand : plan.outputs)
    if (operand.strides[vectorDim] != 1)
      return -1;
  for (unsigned dim : plan.taskDims)
    if (plan.extents[dim] >= kTile / 2)
      for (const Operand &operand : plan.inputs)
        if (isTurned(operand, vectorDim, dim))
          return dim;
  return -1;
}

DeviceSchedule DeviceSchedule::get(GroupOp group, const GroupPlan &plan,
                                   int64_t workspaceBytes, bool hopper) {
  DeviceSchedule s;
  int64_t kept = plan.taskPoints;
  // Partial results of each reduction begin on a multiple of 16 bytes.
  int64_t slack = plan.phases.empty() ? 0 : 16 * int64_t(plan.phases[0].size());
  switch (plan.schedule) {
  case Schedule::Map: {
    if (plan.vectorDims.empty()) {
      s.blocks = 1;
      return s;
    }
    s.turnedDim = findTurnedDim(plan);
    if (s.turnedDim >= 0) {
      s.vectors = plan.vectorPoints;
      return s;
    }
    // 16 bytes of the narrowest element that lies along the vector dim.
    int64_t bytes = 8;
    bool contiguous = false;
    auto look = [&](ArrayRef<Operand> operands) {
      for (const Operand &operand : operands)
        if (operand.strides[plan.vectorDims.back()] == 1) {
          bytes = std::min<int64_t>(bytes, getElementBytes(operand.element));
          contiguous = true;
        }
    };
    look(plan.inputs);
    look(plan.outputs);
    for (Value table : group.getTables())
      bytes = std::min<int64_t>(
          bytes, getElementBytes(getElementTypeOrSelf(table.getType())));
    s.width = contiguous ? largestWidth(plan.vectorPoints,
                                        std::min<int64_t>(8, 16 / bytes))
                         : 1;
    s.vectors = plan.vectorPoints / s.width;
    s.blocks = std::clamp<int64_t>(
        llvm::divideCeil(kept * s.vectors, kGroupThreads), 1, kMapBlocks);
    return s;
  }
  case Schedule::Row: {
    s.width = largestWidth(plan.vectorPoints, mostRowLanes(plan));
    s.vectors = plan.vectorPoints / s.width;
    bool single = plan.loopDims.empty();
    if (single && isSplittable(group, plan) &&
        plan.vectorPoints >= 2 * kRowPart && kept <= 4096) {
      s.splits = std::min<int64_t>(
          kMaxSplits, llvm::divideCeil(plan.vectorPoints, kRowPart));
      int64_t bytes = 8 * kept * int64_t(plan.phases[0].size());
      while (s.splits > 1 && s.splits * bytes + slack > workspaceBytes)
        s.splits /= 2;
      s.threads = kGroupThreads;
    }
    if (s.splits == 1)
      s.threads = s.vectors <= 32 * kRegisterVectors ? 32
                  : s.vectors <= kGroupThreads * kRegisterVectors
                      ? kGroupThreads
                  : s.vectors <= kManyVectors ? kRowThreads
                                              : 2 * kRowThreads;
    s.rows = s.threads == 32 ? std::min<int64_t>(kBlockRows, kept) : 1;
    int64_t perThread = llvm::divideCeil(s.vectors, s.threads);
    // What is the same in all rows can be read again: it is in the cache.
    int64_t live = 0;
    for (auto [operand, argument] :
         llvm::zip(plan.inputs, group.getBodyBlock()->getArguments()))
      if ((plan.classOf(argument) & kVector) && isOfTask(plan, operand))
        live += llvm::divideCeil(
            perThread * s.width * getElementBytes(operand.element), 4);
    s.registers = single && s.splits == 1 && perThread <= kRegisterVectors &&
                  live <= kRegisterScalars;
    // A long row that is read again for each reduction and for the outputs.
    bool again = plan.phases.size() > 1;
    for (Value yielded : group.getYielded())
      again |= plan.reducedValues.contains(yielded) &&
               (plan.classOf(yielded) & kVector);
    if (single && s.splits == 1 && !s.registers && s.rows == 1 && again) {
      for (const Operand &operand : plan.inputs)
        if (isCacheable(plan, operand))
          s.cacheBytes += getCacheBytes(plan, operand);
      if (s.cacheBytes > (hopper ? kHopperCacheBytes : kCacheBytes))
        s.cacheBytes = 0;
    }
    return s;
  }
  case Schedule::Column: {
    int64_t rows = plan.loopPoints;
    s.width = largestWidth(plan.vectorPoints, 4);
    s.vectors = plan.vectorPoints / s.width;
    s.lanesY = rows < 64 ? 1 : 8;
    s.lanesX = rows < 64 ? 128 : 32;
    s.columnBlocks = llvm::divideCeil(s.vectors, s.lanesX);
    s.partRows = rows;
    if (isSplittable(group, plan) && rows >= 2 * kColumnPart) {
      s.splits =
          std::min<int64_t>(kMaxSplits, llvm::divideCeil(rows, kColumnPart));
      int64_t bytes =
          8 * kept * plan.vectorPoints * int64_t(plan.phases[0].size());
      while (s.splits > 1 && s.splits * bytes + slack > workspaceBytes)
        s.splits /= 2;
      s.partRows = llvm::divideCeil(rows, s.splits);
      s.splits = llvm::divideCeil(rows, s.partRows);
    }
    return s;
  }
  }
  llvm_unreachable("covered switch");
}
