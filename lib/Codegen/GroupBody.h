//===- GroupBody.h - the body of a group at a point -----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// What the schedules of all targets share: a group's body, inputs and outputs
// at one vector of points of the loop nest that a schedule has built.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_GROUPBODY_H
#define BLUTRAIN_LIB_CODEGEN_GROUPBODY_H

#include "GroupPlan.h"
#include "KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace mlir::blurt {

/// Code that belongs to one place of the loop nest: it is put before `anchor`,
/// each value of the body once.
struct Scope {
  Operation *anchor = nullptr;
  DenseMap<Value, Value> values;
  DenseMap<const Operand *, Value> pointers;
};

/// One vector of points, and the scopes around it by what varies there.
struct Point {
  Scope *scopes[4] = {};
  Value vectorStart; ///< index of lane 0 in the vector dims
  Lanes lanes;
  int64_t below = 0; ///< indices of all lanes are less; 0: not known
};

class GroupBody {
public:
  virtual ~GroupBody() = default;

protected:
  GroupBody(GroupOp group, KernelBuilder &builder);

  //===--------------------------------------------------------------------===//
  // The body at a point
  //===--------------------------------------------------------------------===//
  Value get(Value value, Point &point);
  Value getVector(Value value, Point &point);
  /// Stores those outputs that vary as `varies` says and that `wanted`, if
  /// given, names.
  void storeOutputs(Varies varies, Point &point,
                    llvm::function_ref<bool(unsigned)> wanted = nullptr);
  bool hasOutputs(Varies varies) const;
  Varies outputClass(unsigned i) const;

  /// Coordinates of the linear index `linear` over `dims`, outermost first.
  void setCoordinates(ArrayRef<unsigned> dims, Value linear);

  /// The lanes of an input at a point, `pointer` the address of the first.
  virtual Value loadLanes(const Operand &operand, Value pointer, Point &point);

  //===--------------------------------------------------------------------===//
  // Reductions
  //===--------------------------------------------------------------------===//
  Value combine(ReduceKind kind, Value lhs, Value rhs);
  Value identity(ReduceKind kind, Type type);
  /// The reduced value at a point, with the identity in lanes not valid.
  Value reduceInput(ReduceOp reduce, Point &point, bool vector);

  /// True if `value` has the error of a format narrower than f32, for it is
  /// made of a value read from one or rounded to one: what is a function of it
  /// need not be good to the last place of f32.
  bool isRounded(Value value) const { return rounded.contains(value); }

  /// How many elements along the vector dims come before the first that is
  /// hidden by a mask, which is a comparison of its index with a constant.
  int64_t getUnmasked();

  GroupOp group;
  GroupPlan plan;
  KernelBuilder &b;
  SmallVector<Value> arguments;
  SmallVector<Value> coordinates; ///< per walked dim, of task and loop dims
  Scope global;
  bool heavy = false; ///< the body is long: unroll less

private:
  void findRounded();
  Value loadInput(unsigned i, Varies varies, Point &point);
  Value loadTable(LoadOp load, Varies varies, Point &point, Scope &scope);
  Value emitIndex(IndexOp index, Point &point);
  /// A vector of `op` in fewer instructions than one for each lane, on a
  /// device; null if there is no such way.
  Value emitCheaply(Operation *op, Point &point, Scope &scope);
  bool isLaneIndex(Value value);
  Value findLane(arith::CmpIOp compare, Point &point, Scope &scope);
  Value countBelow(arith::CmpIOp compare, Point &point, Scope &scope);
  Value pointerTo(const Operand &operand, Varies varies, Point &point);
  Value vectorOffset(const Operand &operand, Value start);
  void storeLanes(const Operand &operand, Value value, Value pointer,
                  Point &point);

  llvm::SmallDenseSet<Value> rounded;
};

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_GROUPBODY_H
