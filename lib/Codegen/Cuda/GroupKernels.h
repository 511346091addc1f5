//===- GroupKernels.h - device kernels for one group ----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A group becomes one kernel, or two if its reduction is cut into parts so
// that it fills the device: the first writes partial results to the workspace,
// the second adds them up in the order of the parts.
//
//   Map     a thread takes one vector after another, strided by the grid. Where
//           inputs lie along another dim than outputs, a block takes a tile of
//           both dims, and such inputs go through shared memory.
//   Row     the threads of a row (a warp, or a block) take its vectors in turn,
//           combine over the lanes of a vector, over a warp, over the warps.
//           Short rows stay in registers between one reduction and the next.
//   Column  a thread takes one vector of columns and every n-th row; what its
//           block's threads have is combined in their order.
//
// Which element joins which partial sum, in which order, is a function of the
// extents that are reduced and kept, of whether anything along a row is longer
// than 2 bytes, and of whether the reduction may be cut:
// it may not if the group has several, one after the other, or if something
// along the reduced dims depends on the result. So a long reduction can have
// other last bits where it was fused with what divides by it. So has a sum of
// exponentials below the maximum of a long row, which is scaled as that grows.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_CUDA_GROUPKERNELS_H
#define BLUTRAIN_LIB_CODEGEN_CUDA_GROUPKERNELS_H

#include "CudaHost.h"
#include "GroupBody.h"

namespace mlir::blurt {

/// Threads of a block where nothing else asks for another number.
inline constexpr int64_t kGroupThreads = 256;
/// Row: threads of a long row.
inline constexpr int64_t kRowThreads = 512;
/// Row: shared memory of one block on Hopper, less what the reductions use.
inline constexpr int64_t kHopperCacheBytes = 227 * 1024 - 512;
/// Map: points of a tile along each of its dims, and threads along one of them.
inline constexpr int64_t kTile = 32;
inline constexpr int64_t kTileRows = 8;

struct DeviceSchedule {
  int64_t width = 1;   ///< lanes of a vector
  int64_t vectors = 1; ///< vectors of the vector dims
  /// Parts of the reduction; more than one makes two kernels.
  int64_t splits = 1;
  /// Map: the dim along which inputs lie that go through shared memory, tile by
  /// tile, because outputs lie along another; -1 for none.
  int64_t turnedDim = -1;
  /// Map: blocks. Row: threads of a row and rows of a block.
  int64_t blocks = 1, threads = 1, rows = 1;
  bool registers = false; ///< Row: vectors stay in registers
  /// Row: bytes of shared memory in which a row's inputs stay, 0 if they do
  /// not.
  int64_t cacheBytes = 0;
  /// Column: threads along columns and along rows, blocks along columns, rows
  /// of a part.
  int64_t lanesX = 1, lanesY = 1, columnBlocks = 1, partRows = 1;

  /// With `hopper`, for sm_90a: the same but for what stays in shared memory,
  /// so that the bits are the same.
  static DeviceSchedule get(GroupOp group, const GroupPlan &plan,
                            int64_t workspaceBytes, bool hopper = false);
};

/// True for an operand that is not the same in all tasks.
bool isOfTask(const GroupPlan &plan, const Operand &operand);
/// True for an input of which a row lies in one piece, and the bytes that it
/// takes in shared memory.
bool isCacheable(const GroupPlan &plan, const Operand &operand);
int64_t getCacheBytes(const GroupPlan &plan, const Operand &operand);
/// True for an operand that lies along `dim` and not along the vector dim.
bool isTurned(const Operand &operand, unsigned vectorDim, unsigned dim);

class DeviceGroupEmitter : GroupBody {
public:
  /// `alignments` has one entry for each operand of the group, in bytes.
  DeviceGroupEmitter(GroupOp group, KernelBuilder &builder,
                     const DeviceSchedule &schedule,
                     ArrayRef<int64_t> alignments);

  /// The only kernel, or the first of two. Arguments are inputs, tables, outs,
  /// and the workspace if there are two.
  DeviceLaunch emit();
  /// The second kernel, of the same arguments.
  DeviceLaunch emitCombine();

private:
  Value loadLanes(const Operand &operand, Value pointer, Point &point) override;
  DeviceLaunch emitMap();
  bool readsLittle();
  DeviceLaunch emitTurned();
  DeviceLaunch emitRow();
  DeviceLaunch emitRowCombine();
  /// Column: where a thread stands in its block, the task and the block of
  /// columns that are its own, whether its vector is one (null: always), and
  /// the vector's first column.
  struct Columns {
    Value x, y, number, columnBlock, active, start;
  };
  Columns findColumns();
  DeviceLaunch emitColumn();
  DeviceLaunch emitColumnCombine();
  /// Row: combines the vectors of all threads and gives each the results.
  void setRowValues(MutableArrayRef<ReduceOp> reduces, SmallVector<Value> sums,
                    Scope &task, Value lane);
  void emitRowRegisters(Scope &task, Value lane);
  void emitRowLoops(Scope &task, Value lane, Value first, Value last);
  /// Row: the first two phases in one pass, if they are a maximum and sums of
  /// exponentials of what is below it: a thread's sums are scaled whenever its
  /// maximum grows. Returns whether they are.
  bool emitRowOnline(Scope &task, Value lane);
  /// Row: `body` over the vectors `first` + lane, … below `last` of the current
  /// row, each thread some of its own at a time; it gets the values so far and
  /// returns the next. Values of the whole row go before the loops.
  SmallVector<Value> forVectors(
      Value first, Value last, Value lane, SmallVector<Value> values,
      Scope &task, Scope &loop,
      llvm::function_ref<SmallVector<Value>(MutableArrayRef<Point>, Operation *,
                                            SmallVector<Value>)>
          body);
  void storeRowOutputs(Scope &task, Value lane, Value first, Value last);
  /// Reads the operands and the kernel's position; what is global goes before
  /// the code that follows.
  void begin();
  /// An `if` at the end of the current block; the builder moves into it.
  scf::IfOp guard(Value condition);
  Value isLess(Value lhs, int64_t rhs);
  Value isZero(Value value);
  Value special(StringRef what);

  /// Where partial results of `reduce` begin, in bytes of the workspace.
  int64_t partialOffset(unsigned reduce) const;
  int64_t partialBytes(ReduceOp reduce) const;
  /// `values`, one of each reduction, over `threads` threads; all get them.
  SmallVector<Value> acrossThreads(ArrayRef<ReduceOp> reduces,
                                   SmallVector<Value> values, int64_t threads,
                                   Value thread);
  /// Vectors of columns over the threads `thread`, `thread + lanesX`, …. With
  /// `onlyFirst`, only the first of them gets the results: the builder moves to
  /// code of its own.
  SmallVector<Value> acrossRows(ArrayRef<ReduceOp> reduces,
                                SmallVector<Value> values, Value x, Value y,
                                bool onlyFirst);
  Value shuffle(Value value, int32_t mask);
  /// `bytes` of static shared memory.
  Value getShared(int64_t bytes);
  /// The shared memory of reductions, enough for the largest phase.
  Value getReduceMemory();
  void barrier();
  void setColumnValues(ArrayRef<ReduceOp> reduces, ArrayRef<Value> values,
                       Scope &task, Scope &column);
  void storeKept(Scope &task, Scope &column, Value start, Value x, Value y,
                 Value columnBlock, Value active);
  SmallVector<Value> identities(ArrayRef<ReduceOp> reduces);

  DeviceSchedule schedule;
  Value workspace;
  Value thread, blockX, blockY;
  Value sharedMemory;
  /// Map: where tiles of turned inputs lie in shared memory, and the element of
  /// the current point in each.
  DenseMap<const Operand *, Value> turned;
  Value turnedElement;
  /// Row: where inputs lie in shared memory, and whether they do already.
  DenseMap<const Operand *, int64_t> cache;
  Value cacheMemory;
  bool isCached = false;
};

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_CUDA_GROUPKERNELS_H
