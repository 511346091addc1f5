//===- GroupEmitter.h - vector loops for one group ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_GROUPEMITTER_H
#define BLUTRAIN_LIB_CODEGEN_GROUPEMITTER_H

#include "GroupBody.h"

namespace mlir::blurt {

class GroupEmitter : GroupBody {
public:
  GroupEmitter(GroupOp group, KernelBuilder &builder)
      : GroupBody(group, builder) {}

  /// Emits the kernel's body. Arguments are inputs, tables, outs.
  void emit();
  /// Tasks of the kernel and the least number worth giving to a thread.
  int64_t getNumTasks() const { return numTasks; }
  int64_t getGrain();

private:
  void emitMap();
  void emitRow();
  void emitColumn();
  /// The vectors of columns at `starts`, all rows of them.
  void emitColumnBlock(ArrayRef<Value> starts, ArrayRef<Lanes> lanes);

  /// Row: reduces `reduces` over one run of vectors, into `main`.
  SmallVector<Value> emitRun(MutableArrayRef<ReduceOp> reduces, Scope &task,
                             Scope &loop, SmallVector<Value> main);
  void emitRowOutputs(Scope &task, Scope &loop);

  int64_t numTasks = 1;
  int64_t pointsPerTask = 1;
};

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_GROUPEMITTER_H
