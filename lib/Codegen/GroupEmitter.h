//===- GroupEmitter.h - vector loops for one group ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_GROUPEMITTER_H
#define BLUTRAIN_LIB_CODEGEN_GROUPEMITTER_H

#include "GroupPlan.h"
#include "KernelBuilder.h"

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
};

class GroupEmitter {
public:
  GroupEmitter(GroupOp group, KernelBuilder &builder);

  /// Emits the kernel's body. Arguments are inputs, tables, outs.
  void emit();
  /// Tasks of the kernel and the least number worth giving to a thread.
  int64_t getNumTasks() const { return numTasks; }
  int64_t getGrain();

private:
  //===--------------------------------------------------------------------===//
  // Schedules
  //===--------------------------------------------------------------------===//
  void emitMap();
  void emitRow();
  void emitColumn();
  /// The vectors of columns at `starts`, all rows of them.
  void emitColumnBlock(ArrayRef<Value> starts, ArrayRef<Lanes> lanes);

  /// Row: reduces `reduces` over one run of vectors, into `main`.
  SmallVector<Value> emitRun(MutableArrayRef<ReduceOp> reduces, Scope &task,
                             Scope &loop, SmallVector<Value> main);
  void emitRowOutputs(Scope &task, Scope &loop);

  //===--------------------------------------------------------------------===//
  // The body at a point
  //===--------------------------------------------------------------------===//
  Value get(Value value, Point &point);
  Value getVector(Value value, Point &point);
  Value loadInput(unsigned i, Varies varies, Point &point);
  Value loadTable(LoadOp load, Varies varies, Point &point, Scope &scope);
  Value emitIndex(IndexOp index, Point &point);
  /// Stores those outputs that vary as `varies` says.
  void storeOutputs(Varies varies, Point &point);
  bool hasOutputs(Varies varies) const;
  Varies outputClass(unsigned i) const;

  Value pointerTo(const Operand &operand, Varies varies, Point &point);
  Value vectorOffset(const Operand &operand, Value start);
  Value loadLanes(const Operand &operand, Value pointer, Point &point);
  void storeLanes(const Operand &operand, Value value, Value pointer,
                  Point &point);

  /// Coordinates of the linear index `linear` over `dims`, outermost first.
  void setCoordinates(ArrayRef<unsigned> dims, Value linear);

  //===--------------------------------------------------------------------===//
  // Reductions
  //===--------------------------------------------------------------------===//
  Value combine(ReduceKind kind, Value lhs, Value rhs);
  Value identity(ReduceKind kind, Type type);
  /// The reduced value at a point, with the identity in lanes not valid.
  Value reduceInput(ReduceOp reduce, Point &point, bool vector);

  GroupOp group;
  GroupPlan plan;
  KernelBuilder &b;
  SmallVector<Value> arguments;
  SmallVector<Value> coordinates; ///< per walked dim, of task and loop dims
  Scope global;
  int64_t numTasks = 1;
  int64_t pointsPerTask = 1;
  bool heavy = false; ///< the body is long: unroll less
};

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_GROUPEMITTER_H
