//===- Replication.h - what the devices hold of each value ------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A forward analysis of a step that is partitioned, for one axis of the mesh.
// It knows nothing of how the step came about: inputs are parts, state is whole
// or in pieces as their attributes say, and everything else follows from the
// ops and their sharding rules.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_SHARDING_REPLICATION_H
#define BLUTRAIN_LIB_SHARDING_REPLICATION_H

#include "ShardingRule.h"

#include "Blu/Sharding.h"

namespace blutrain {

/// What the devices along an axis hold of a value.
struct Holding {
  enum class Kind {
    Whole,   ///< the same on all of them
    Part,    ///< a block each, cut along one of `dims`
    Piece,   ///< a piece each of the elements in row-major order
    Partial, ///< the terms of a sum
    Terms,   ///< all of them the terms of all, by device along dim 0
    Index,   ///< a number that comes from the device's place
    Key,     ///< a random key that is moved to the device's part
    Broken,  ///< an error was found before
  };
  Kind kind = Kind::Whole;
  /// Of a part the dims that it may be cut along, more than one where reshapes
  /// of extents of 1 leave it open; of a whole value the dims along which all
  /// its elements are equal.
  uint32_t dims = 0;
  /// A whole value that is computed from constants alone: also a part of
  /// itself, or a term of what such parts add up to.
  bool isConstant = false;
  bool isZero = false;
  /// There are zeros behind a short piece.
  bool isPadded = false;

  bool operator==(const Holding &other) const = default;
};

class Replication {
public:
  Replication(mlir::blu::StepOp step, llvm::StringRef axis,
              const mlir::blu::Mesh &mesh)
      : step(step), axis(axis), size(mesh.getSize(axis)) {}

  /// Fails, after an error at its place, if a value is used as what it is not
  /// on every device, or if a result of the step is not what the runtime takes
  /// it for.
  llvm::LogicalResult run();

private:
  using Kind = Holding::Kind;

  Holding get(mlir::Value value) const { return known.lookup(value); }
  Holding getCut(mlir::DictionaryAttr info) const;
  Holding getArgument(unsigned i);
  void set(mlir::Value value, Holding holding) { known[value] = holding; }
  void setAll(mlir::Operation *op, Holding holding);
  void setBroken(mlir::Operation *op);

  void visit(mlir::Block &block);
  void visitOp(mlir::Operation *op);
  void visitByRule(mlir::Operation *op, const ShardingRule &rule);
  void visitWhole(mlir::Operation *op, const ShardingRule &rule);
  void visitSums(mlir::Operation *op, const ShardingRule &rule);
  void visitCut(mlir::Operation *op, const ShardingRule &rule);
  void visitCollective(mlir::Operation *op);
  Holding collect(mlir::Operation *op, unsigned i);
  bool visitReshape(mlir::blu::ReshapeOp op);
  /// Of ops that take what no others take. False if `op` is to be visited as
  /// any other.
  bool visitSpecial(mlir::Operation *op);
  void visitStack(mlir::blu::StackOp op);
  void visitAccumulate(mlir::blu::AccumulateOp op);
  void setSlice(mlir::Operation *op, unsigned operand,
                mlir::BlockArgument slice, bool isLocal);
  bool keepsPadding(mlir::Operation *op) const;
  Holding join(Holding before, Holding after) const;
  void checkResult(unsigned i);

  std::string describe(Holding holding) const;
  /// Says that operand `i` is not what `op` needs.
  void reject(mlir::Operation *op, unsigned i, const llvm::Twine &why);
  void reject(mlir::Operation *op, const llvm::Twine &why);

  mlir::blu::StepOp step;
  std::string axis;
  int64_t size;
  llvm::DenseMap<mlir::Value, Holding> known;
  /// Above 0 while it is not settled what a stack carries.
  unsigned unsettled = 0;
  bool failed = false;
};

} // namespace blutrain

#endif // BLUTRAIN_LIB_SHARDING_REPLICATION_H
