//===- FusionModel.h - whether and how two groups can be one ----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Groups that want to merge see the same elements through different domains:
// one has 8×64×768, the other 512×768 behind a reshape. Both are brought to
// digits. A digit is a part of an index: a dim starts as one digit and is cut
// where the other group's dims begin and end. An operand is accessed by a
// sequence of digits, row-major; reshapes do not change it, extents of 1 have
// no digit, and a digit that is missing broadcasts. Two groups are aligned by
// equating the digits through which they access the same value.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CONVERSION_FUSIONMODEL_H
#define BLUTRAIN_LIB_CONVERSION_FUSIONMODEL_H

#include "Blurt/BlurtDialect.h"

#include <optional>

namespace blutrain {

using mlir::ArrayRef;
using mlir::SmallVector;
using mlir::Value;

using Digits = SmallVector<unsigned, 4>;

/// The digits of two groups, and which of them are the same.
class IndexSpace {
public:
  /// A digit of group `side`, 0 or 1.
  unsigned create(int64_t extent, unsigned side);
  int64_t getExtent(unsigned digit) const { return nodes[digit].extent; }

  /// The digits that stand for `digits` after all cutting and equating.
  Digits resolve(ArrayRef<unsigned> digits);

  /// Equates two sequences of one extent. Fails if their digits do not divide
  /// into common ones or if two digits of one group would become the same.
  bool equate(ArrayRef<unsigned> a, ArrayRef<unsigned> b);

  /// Cuts a sequence into the dims of a shape.
  std::optional<SmallVector<Digits>> cut(ArrayRef<unsigned> digits,
                                         ArrayRef<int64_t> shape);

private:
  struct Node {
    int64_t extent;
    unsigned sides;          ///< bit set of groups that have it
    unsigned parent;         ///< itself, or an equal digit
    int high = -1, low = -1; ///< the digits it was cut into
  };
  unsigned find(unsigned digit);
  void resolve(unsigned digit, Digits &result);
  void split(unsigned digit, int64_t lowExtent);

  SmallVector<Node, 16> nodes;
};

/// How two groups become one. `first` precedes `second` in a block; its outputs
/// may be inputs of `second`.
struct MergePlan {
  mlir::blurt::GroupOp first, second;
  SmallVector<int64_t> domain, reduce;

  struct Access {
    Value value;               ///< read or written, without reshapes
    SmallVector<int64_t> dims; ///< of the domain, in row-major order
  };
  /// Inputs of both groups; those of `second` that `first` computes have the
  /// result as their value.
  SmallVector<Access> inputs[2];
  /// Outputs to write, with the old results as values.
  SmallVector<Access> outputs;
  /// What each index op of the bodies stands for.
  llvm::DenseMap<mlir::Operation *, SmallVector<int64_t>> indices;

  /// `first` is evaluated at more points than before.
  bool recomputesFirst = false;
  /// `second` writes or reads along dims that only `first` reduces.
  bool secondVariesAlongReduced = false;
  /// Bytes read and written, each tensor once, before and after.
  int64_t bytesBefore = 0, bytesAfter = 0;
};

enum class MergeKind {
  Edge,    ///< second reads what first computes
  Clone,   ///< the same, but first stays for its other readers
  Sibling, ///< both read the same value
  Scalar   ///< both have one point
};

/// The plan to merge, or none if no domain serves both groups. Does not look at
/// what lies between them.
std::optional<MergePlan> planMerge(mlir::blurt::GroupOp first,
                                   mlir::blurt::GroupOp second, MergeKind kind);

/// Builds the merged group at the insertion point and replaces the outputs of
/// both groups (of `second` only, when cloning) and the groups themselves.
mlir::blurt::GroupOp applyMerge(mlir::OpBuilder &builder, const MergePlan &plan,
                                MergeKind kind);

/// Drops outputs that nothing reads, what only they need, and duplicate inputs.
/// Returns the group, or null if nothing was left and it was erased.
mlir::blurt::GroupOp cleanGroup(mlir::blurt::GroupOp group);

/// Erases `blurt` ops that nothing reads.
void eraseDeadOps(mlir::Operation *root);

/// `value` without the reshapes on top of it.
Value stripReshapes(Value value);
bool isViewOp(mlir::Operation *op);
/// Bytes of all elements of a tensor.
int64_t getBytes(Value value);
/// Bytes that a group reads and writes, each tensor once.
int64_t getBytesMoved(mlir::blurt::GroupOp group);
/// Whether something other than inputs of `reader`, directly or through
/// reshapes and transposes, reads `value`.
bool hasOtherReaders(Value value, mlir::blurt::GroupOp reader);
bool isScalarGroup(mlir::blurt::GroupOp group);

} // namespace blutrain

#endif // BLUTRAIN_LIB_CONVERSION_FUSIONMODEL_H
