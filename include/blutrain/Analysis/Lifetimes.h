//===- Lifetimes.h - what must be kept, and from when to when ---*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Lifetimes of the tensors of one `blurt` function in tensor form.
//
// Time is a number per operation in program order. A loop has three: its own
// (initial carries are put in place), that of its terminator (yielded values
// are put in place) and its end. What is defined in a loop's body lives within
// one iteration; what is defined outside and used inside lives to the loop's
// end.
//
// A Content is a value with bytes of its own: views share their source's
// content. Loops make contents that are more than one value:
// - Carry: the block argument and the result of a carried value; each yielded
//   value is written over the last one.
// - Collected: a loop's collection; iteration i writes slot i.
// - Saved: a carried value that is collected too. It lies in count+1 slots,
//   iteration i reads one and writes the next, and the collection is the first
//   or last `count` of them.
// A result that an asynchronous collective reads through the next iteration
// lies in a ring of slots, which iterations take in turns.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_ANALYSIS_LIFETIMES_H
#define BLUTRAIN_ANALYSIS_LIFETIMES_H

#include "Blurt/BlurtDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace mlir::blurt {
class CollectiveOp;
} // namespace mlir::blurt

namespace blutrain {

/// Numbers the operations of a function in program order.
class Timeline {
public:
  explicit Timeline(mlir::func::FuncOp func);

  /// Before the first operation: arguments are live from here.
  int64_t getEntry() const { return 0; }
  /// The return: outputs and state are live at this time.
  int64_t getExit() const { return exit; }
  int64_t at(mlir::Operation *op) const { return positions.lookup(op); }
  /// The first time within the loop's body.
  int64_t getBodyBegin(mlir::blurt::LoopOp loop) const {
    return at(loop.getOperation()) + 1;
  }
  /// The time of the loop's terminator.
  int64_t getBodyEnd(mlir::blurt::LoopOp loop) const;
  /// After the last iteration.
  int64_t getEnd(mlir::blurt::LoopOp loop) const {
    return getBodyEnd(loop) + 1;
  }
  /// The operation at `time`, or null.
  mlir::Operation *getOperation(int64_t time) const {
    return operations.lookup(time);
  }

private:
  void number(mlir::Block &block, int64_t &next);

  llvm::DenseMap<mlir::Operation *, int64_t> positions;
  llvm::DenseMap<int64_t, mlir::Operation *> operations;
  int64_t exit = 0;
};

/// One stretch of time, begin and end included, in which (part of) a content
/// must be kept.
struct Lifetime {
  /// Which part: everything, what `value` shows, or the slot that the current
  /// iteration writes.
  enum class Region { All, OfValue, WriteSlot };
  /// During a loop, the part that the current iteration does not touch:
  /// Unvisited is the slices of iterations to come, Visited the slots of
  /// iterations past. Both leave out `slot` (the slice argument, or the write
  /// slot if null) and are disjoint from each other.
  enum class Phase { Whole, Unvisited, Visited };

  int64_t begin, end;
  Region region = Region::All;
  mlir::Value value = {};
  Phase phase = Phase::Whole;
  mlir::Value slot = {};
  /// During this lifetime the region holds, or is given, the elements of
  /// `sameAs`: sharing is safe with a value that lies in exactly that place.
  mlir::Value sameAs = {};
};

struct Content {
  enum class Kind {
    Argument,  ///< of the function
    Result,    ///< of a group or library operation
    Concat,    ///< result of blurt.concat
    Carry,     ///< carried through a loop
    Collected, ///< collected by a loop
    Saved,     ///< carried and collected
    Iteration, ///< the loop's counter as a tensor
    Output     ///< the place that a function's result is returned in
  };

  explicit Content(Kind kind) : kind(kind) {}

  Kind kind;
  /// The operation that defines it; null for arguments and outputs.
  mlir::Operation *def = nullptr;
  /// Number of the function argument, result, carry or collection.
  unsigned index = 0;
  /// The loop whose iterations take turns in its slots, if it is a ring.
  mlir::blurt::LoopOp ring = {};
  /// The type of all its bytes (with count+1 leading slots for Saved, with
  /// kRingSlots for a ring).
  mlir::RankedTensorType type;
  llvm::SmallVector<Lifetime, 2> lifetimes;
  /// The values that lie in it, sources before views of them.
  llvm::SmallVector<mlir::Value, 4> values;
  /// The value yielded for it, for Carry, Collected and Saved; the value
  /// returned, for Output.
  mlir::Value yielded = {};

  mlir::blurt::LoopOp getLoop() const {
    return llvm::cast<mlir::blurt::LoopOp>(def);
  }
  int64_t getBegin() const;
  int64_t getEnd() const;
};

using ContentId = unsigned;

/// Contents and lifetimes of one function.
class Lifetimes {
public:
  explicit Lifetimes(mlir::func::FuncOp func);

  const Timeline &getTimeline() const { return timeline; }
  llvm::ArrayRef<Content> getContents() const { return contents; }
  const Content &operator[](ContentId id) const { return contents[id]; }
  ContentId getContent(mlir::Value value) const {
    return contentOf.lookup(value);
  }
  /// The content of carry `i` (Carry or Saved).
  ContentId getCarry(mlir::blurt::LoopOp loop, unsigned i) const {
    return getContent(loop.getCarryArg(i));
  }
  /// The content of the loop's counter, if anything reads it.
  std::optional<ContentId> getIteration(mlir::blurt::LoopOp loop) const;
  /// The content of function result `i` if it has a place of its own, i.e. is
  /// not donated.
  std::optional<ContentId> getOutput(unsigned i) const;

private:
  ContentId add(Content content, mlir::ValueRange members);
  void build(mlir::Block &block);
  void buildLoop(mlir::blurt::LoopOp loop);
  void computeLifetimes(Content &content);
  /// When the results of an asynchronous collective are needed, or at least its
  /// iteration is over.
  int64_t getCollectiveEnd(mlir::blurt::CollectiveOp collective) const;
  void addRingLifetimes(Content &content);
  /// The last time at which `value`, defined in `home`, is used, through views
  /// too; adds the lifetimes of slices to `content`.
  int64_t getLastUse(Content &content, mlir::Value value, mlir::Block *home,
                     int64_t begin);

  mlir::func::FuncOp func;
  Timeline timeline;
  std::vector<Content> contents;
  llvm::DenseMap<mlir::Value, ContentId> contentOf;
  llvm::DenseMap<unsigned, ContentId> outputs;
};

/// Whether `op` only shows its source's bytes in another way.
bool isView(mlir::Operation *op);

/// The number of the argument whose place function result `i` takes, if any.
std::optional<unsigned> getDonatedArgument(mlir::func::FuncOp func, unsigned i);

/// Whether some result takes the place of `argument`.
bool isDonated(mlir::func::FuncOp func, unsigned argument);

/// Whether the argument persists between calls: a parameter, a moment or a
/// cache, by the role in its `blu.tensor`.
bool isStateArgument(mlir::func::FuncOp func, unsigned argument);

/// The value that the loop yields for carry `i`.
mlir::Value getYieldedCarry(mlir::blurt::LoopOp loop, unsigned i);
/// The value that the loop yields for collection `i`.
mlir::Value getYieldedCollected(mlir::blurt::LoopOp loop, unsigned i);
/// The result of collection `i`.
mlir::Value getCollectedResult(mlir::blurt::LoopOp loop, unsigned i);

/// What `value` is a reshape of; slots are contiguous, so a reshape of a slot
/// is the same bytes.
mlir::Value skipReshapes(mlir::Value value);

/// The collections that hold what carry `i` is at the begin of each iteration
/// (its argument) or at the end (what is yielded for it), if the carry is to be
/// planned as Saved; both are empty otherwise.
struct SavedCollections {
  llvm::SmallVector<unsigned> ofArgument, ofYielded;
  bool empty() const { return ofArgument.empty() && ofYielded.empty(); }
};
SavedCollections getSavedCollections(mlir::blurt::LoopOp loop, unsigned i);

} // namespace blutrain

#endif // BLUTRAIN_ANALYSIS_LIFETIMES_H
