//===- ArenaView.h - strided boxes of bytes inside a storage ----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// An ArenaView says where a tensor's elements lie: in which storage (a piece of
// the arena whose offset is not yet known), at which byte, with which strides,
// and how the place moves with the iterations of enclosing loops. Reshape,
// transpose, slice and loop slices are arithmetic on views; overlap and
// equality of views decide what may share memory.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_ANALYSIS_ARENAVIEW_H
#define BLUTRAIN_ANALYSIS_ARENAVIEW_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>

namespace mlir::blurt {
class LoopOp;
} // namespace mlir::blurt

namespace blutrain {

class ArenaView {
public:
  /// The view moves by `step` bytes from iteration i to i+1 of `loop`; in a
  /// ring it is back at the start after `count` iterations.
  struct Term {
    mlir::Operation *loop;
    int64_t count;
    int64_t step;
    bool isRing = false;
    bool operator==(const Term &other) const {
      return loop == other.loop && step == other.step && isRing == other.isRing;
    }
  };

  /// A row-major tensor of `type` at the start of `storage`.
  static ArenaView contiguous(unsigned storage, mlir::ShapedType type);

  /// The same with rows, runs of the innermost dim, that begin on multiples of
  /// `alignment` bytes; what lies between them is nobody's.
  static ArenaView padded(unsigned storage, mlir::ShapedType type,
                          int64_t alignment);

  unsigned getStorage() const { return storage; }
  int64_t getOffset() const { return offset; }
  llvm::ArrayRef<Term> getTerms() const { return terms; }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  /// Bytes between neighbours along each dim.
  llvm::ArrayRef<int64_t> getStrides() const { return strides; }
  int64_t getElementBytes() const { return elementBytes; }
  int64_t getRank() const { return static_cast<int64_t>(shape.size()); }
  bool isContiguous() const;

  /// Result dim i is dim permutation[i] of this.
  ArenaView transposed(llvm::ArrayRef<int64_t> permutation) const;
  /// The view whose `transposed(permutation)` is this.
  ArenaView untransposed(llvm::ArrayRef<int64_t> permutation) const;
  /// The box of `sizes` elements that begins at `offsets`.
  ArenaView sliced(llvm::ArrayRef<int64_t> offsets,
                   llvm::ArrayRef<int64_t> sizes) const;
  /// The same elements in row-major order under `newShape`, or nothing if no
  /// strides say so.
  std::optional<ArenaView> reshaped(llvm::ArrayRef<int64_t> newShape) const;
  /// Element i of the leading dim, where i is the iteration of `loop`.
  ArenaView element(mlir::blurt::LoopOp loop) const;
  /// The same modulo the extent of the leading dim.
  ArenaView ringElement(mlir::blurt::LoopOp loop) const;
  /// Elements [first, first + count) of the leading dim.
  ArenaView leading(int64_t first, int64_t count) const;
  /// Element `index` of the leading dim, which is dropped.
  ArenaView element(int64_t index) const;

  /// Whether both address the same bytes, element by element. Strides of dims
  /// of extent 1 do not matter.
  bool samePlace(const ArenaView &other) const;
  /// Whether no byte of this is a byte of `other` while both are in the same
  /// iteration of every loop. May say false for views that are disjoint.
  bool disjoint(const ArenaView &other) const;
  /// Whether every byte of this is within the first to the last byte of
  /// `other`, moving with the same loops, and `other` is contiguous.
  bool within(const ArenaView &other) const;

  /// First byte and past the last byte, over all iterations.
  std::pair<int64_t, int64_t> getByteRange() const;
  /// First byte and past the last byte, in iterations 0.
  std::pair<int64_t, int64_t> getBaseRange() const;

private:
  bool disjointModulo(const ArenaView &other, int64_t modulus) const;

  unsigned storage = 0;
  int64_t offset = 0;
  int64_t elementBytes = 1;
  llvm::SmallVector<Term, 2> terms;
  llvm::SmallVector<int64_t, 4> shape, strides;
};

} // namespace blutrain

#endif // BLUTRAIN_ANALYSIS_ARENAVIEW_H
