//===- GroupPlan.h - how a group's domain is walked -----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A group is walked in one of three ways:
//
//   Map     nothing is reduced. One dim is the vector dim, tasks are blocks of
//           it at each point of the other dims.
//   Row     the innermost dim is reduced. The trailing run of reduced dims is
//           one row, walked by vectors; reduced dims further out are a loop
//           around it; a task is a point of the kept dims.
//   Column  the innermost dim is kept and is the vector dim; a task is a block
//           of columns, all reduced dims are a loop within it.
//
// Every dim therefore is of one of three classes: task, loop or vector. The
// order in which a reduction adds is a function of the extents of the loop and
// of the vector class alone.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_GROUPPLAN_H
#define BLUTRAIN_LIB_CODEGEN_GROUPPLAN_H

#include "Blurt/BlurtDialect.h"

namespace mlir::blurt {

enum class Schedule { Map, Row, Column };

/// How values vary within a task: along the vector dims, along the loop dims.
enum Varies : unsigned { kUniform = 0, kVector = 1, kLoop = 2, kBoth = 3 };

/// One input or output of a group, as strides over the walked dims.
struct Operand {
  Type element;
  unsigned argument;            ///< index into the kernel's arguments
  SmallVector<int64_t> strides; ///< per walked dim, 0 where broadcast
  /// Bytes that divide the address of every vector; 0 if only the element's
  /// own size is known to.
  int64_t alignment = 0;
};

struct GroupPlan {
  Schedule schedule;
  /// Extents of the walked dims: those of the group's domain without extents
  /// of 1 and with neighbours merged where every operand allows it.
  SmallVector<int64_t> extents;
  SmallVector<unsigned> taskDims, loopDims, vectorDims;
  int64_t taskPoints = 1, loopPoints = 1, vectorPoints = 1;
  SmallVector<Operand> inputs, outputs;
  /// Bytes that divide the address of a vector of each table that begins where
  /// a vector of the domain does; empty if not known.
  SmallVector<int64_t> tableAlignments;
  /// For each dim of the group's domain its walked dim, or -1 for extent 1.
  /// Dims that an index op names are never merged.
  SmallVector<int> walked;
  /// For each walked dim the dims of the domain it stands for.
  SmallVector<uint64_t> members;

  /// Reductions by depth: those of phase k use results of phases before k.
  SmallVector<SmallVector<ReduceOp>> phases;
  DenseMap<Value, uint64_t> varying; ///< dims of the group's domain
  uint64_t vectorMask = 0, loopMask = 0;
  DenseSet<Value> reducedValues; ///< values that depend on a reduction

  static GroupPlan compute(GroupOp group);

  Varies classOf(uint64_t dims) const {
    return Varies((dims & vectorMask ? kVector : 0) |
                  (dims & loopMask ? kLoop : 0));
  }
  Varies classOf(Value value) const { return classOf(varying.lookup(value)); }
  /// True for values that are the same in all tasks.
  bool isGlobal(Value value) const {
    return varying.lookup(value) == 0 && !reducedValues.contains(value);
  }
};

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_GROUPPLAN_H
