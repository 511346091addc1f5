//===- Placement.h - which tensors share bytes ------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Gives every tensor value of a function an ArenaView: a storage and a place in
// it. Placing two contents in one storage avoids a copy or saves space, and is
// done only when no byte of one is needed after the other may have changed it.
//
// Decisions go backwards through the program. An operation that wants a value
// somewhere (the return its donated results, a concat its parts, a loop its
// carried and collected values, a GEMM its addend) demands that place for the
// value before the value's producer is reached; the producer then writes there
// directly. Where the demand cannot be met the value stays elsewhere, and the
// difference between the two views tells the rewriting to copy.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_ANALYSIS_PLACEMENT_H
#define BLUTRAIN_ANALYSIS_PLACEMENT_H

#include "blutrain/Analysis/ArenaView.h"
#include "blutrain/Analysis/Lifetimes.h"

namespace blutrain {

/// A piece of the arena that is allocated as a whole.
struct Storage {
  int64_t bytes;
  /// The content that it was made for.
  ContentId owner;
  /// Lies at a fixed place that survives the call.
  bool isState;
  /// The hull of the lifetimes of all contents in it.
  int64_t begin, end;
};

/// Rows of the matrices that products read and write begin on multiples of
/// `alignment` bytes where nothing asks for them in one piece, from matrices of
/// `leastBytes` on.
struct RowPadding {
  int64_t alignment = 1;
  int64_t leastBytes = 1 << 12;
};

class Placement {
public:
  /// Places every value. Fails, with an error that names the state tensor, if a
  /// donated result cannot be computed in place.
  static mlir::FailureOr<Placement> compute(mlir::func::FuncOp func,
                                            const Lifetimes &lifetimes,
                                            const RowPadding &padding = {});

  llvm::ArrayRef<Storage> getStorages() const { return storages; }
  /// Where `value` lies. For the block argument of a Saved carry this moves
  /// with the loop.
  const ArenaView &getView(mlir::Value value) const {
    return views.find(value)->second;
  }
  /// Where the initial value of carry `i` belongs.
  ArenaView getInitialView(mlir::blurt::LoopOp loop, unsigned i) const;
  /// Where the value yielded for a Carry, Collected or Saved content belongs.
  ArenaView getWriteView(ContentId content) const;
  /// Where all of a content lies.
  const ArenaView &getContentView(ContentId content) const {
    return *places[content];
  }

private:
  Placement(mlir::func::FuncOp func, const Lifetimes &lifetimes,
            const RowPadding &padding)
      : func(func), lifetimes(&lifetimes), padding(padding),
        places(lifetimes.getContents().size()) {}

  using Views = llvm::DenseMap<mlir::Value, ArenaView>;
  class Trial;

  mlir::LogicalResult run();
  void visit(mlir::Block &block);
  void visitConcat(mlir::blurt::ConcatOp concat);
  mlir::LogicalResult visitLoop(mlir::blurt::LoopOp loop);
  void visitLeaf(mlir::Operation *op);
  /// Lets dying inputs of a group share the place of output `i`, or the other
  /// way round.
  void shareWithInputs(mlir::blurt::GroupOp group, unsigned i);
  mlir::LogicalResult placeResults();
  mlir::InFlightDiagnostic emitNotInPlace(mlir::Location loc,
                                          unsigned argument);

  /// Asks that `value` lie at `view`; true if it does afterwards.
  bool demand(mlir::Value value, const ArenaView &view);
  /// Places `content` at `view` if that is safe.
  bool tryPlace(ContentId content, const ArenaView &view);
  /// Places `content` in a storage of its own, if it has no place yet.
  void placeAlone(ContentId content);
  /// Whether rows of `content` should be aligned.
  bool wantsPadding(const Content &content) const;
  void commit(ContentId content, const ArenaView &view, Views &&contentViews);

  mlir::func::FuncOp func;
  const Lifetimes *lifetimes;
  RowPadding padding;
  llvm::SmallVector<Storage> storages;
  std::vector<std::optional<ArenaView>> places;
  std::vector<llvm::SmallVector<ContentId, 4>> contentsIn;
  Views views;
  bool failed = false;
  /// The content that the last refused demand collided with, and the time to
  /// which it is needed.
  std::optional<std::pair<ContentId, int64_t>> obstacle;
};

/// Whether `op` can read its operand `index` from, or write its result `index`
/// to, memory with these strides.
bool acceptsOperandLayout(mlir::OpOperand &operand, const ArenaView &view);
bool acceptsResultLayout(mlir::OpResult result, const ArenaView &view);

/// Where part `i` of `concat` belongs if the result lies at `view`.
ArenaView getPartView(mlir::blurt::ConcatOp concat, unsigned i,
                      const ArenaView &view);

} // namespace blutrain

#endif // BLUTRAIN_ANALYSIS_PLACEMENT_H
