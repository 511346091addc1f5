//===- WarpgroupMma.h - what only Hopper's kernels use --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Products of a warpgroup (four warps) by `wgmma`: 64 rows, of which each warp
// has 16 as in a Fragment, by 8n columns, from tiles in shared memory, and
// copies of tiles from tensor maps, whose arrival a barrier in memory counts.
//
// Rows of a tile are kept in slabs of 128 bytes, whose 16-byte chunks are
// permuted as in a swizzled TileLayout; slabs lie one after the other (PTX ISA,
// "Asynchronous warpgroup level matrix shared memory layout").
//
// ptxas follows accumulators and operands that a product in flight works on,
// and where it cannot, waits for each product at once and says so (C7510 to
// C7514). So every product of several steps is one piece of assembly, and what
// it reads from registers is there before the one in flight is waited for.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_CUDA_WARPGROUPMMA_H
#define BLUTRAIN_LIB_CODEGEN_CUDA_WARPGROUPMMA_H

#include "TensorCore.h"

namespace mlir::blurt {

struct SlabLayout {
  int32_t rows;
  int32_t rowBytes; ///< a multiple of 128

  int32_t slabs() const { return rowBytes / 128; }
  int32_t slabBytes() const { return rows * 128; }
  int32_t bytes() const { return rows * rowBytes; }
};

class WarpgroupMma {
public:
  WarpgroupMma(DeviceBuilder &b, DeviceCompute compute)
      : b(b), compute(compute) {}

  bool isBF16() const { return compute == DeviceCompute::BF16; }
  /// Depth of one step, which is 32 bytes of a row.
  int32_t getDepth() const { return isBF16() ? 16 : 8; }

  /// What products are told of a tile at `address`, a multiple of 1024 bytes.
  /// Its rows run along the depth of the product, or, in bf16, across.
  Value describe(Value address, const SlabLayout &layout, bool across = false);
  /// The same `bytes` further, a multiple of 16 · 64.
  Value advance(Value descriptor, Value bytes);

  using Values = SmallVector<Value>;
  /// Starts A · Bᵀ for 64 rows of A and the rows of B.
  Values startProduct(Value a, const SlabLayout &aLayout, Value bTile,
                      const SlabLayout &bLayout);
  /// Operand A from the accumulators of a product, rounded. NaNs are lost if it
  /// is said to have none.
  Values packA(ArrayRef<Value> accumulators, bool hasNaNs = true);
  /// Starts sum += A · B. The rows of B run across in bf16: B is k×n; and along
  /// the depth in tf32, where B is n×k with columns 0, 2, 4, 6, 1, 3, 5, 7 of
  /// each eight in this order.
  Values startAcross(ArrayRef<Value> sum, ArrayRef<Value> a, Value bTile,
                     const SlabLayout &bLayout);
  /// One step of a product of pieces: bytes from tiles to its operands, and of
  /// which pair of tiles it is.
  struct Step {
    int32_t a, b;
    int32_t tile = 0;
  };
  /// Tiles that rows of memory run along, or across (`describe` below), and the
  /// type of the pieces, f16 or bf16.
  struct Pieces {
    int32_t columns;
    StringRef type;
    bool acrossA, acrossB;
  };
  /// What products are told of a tile of pieces at `address`, 32 deep: rows of
  /// 64 bytes along the depth, whose chunks of 16 are permuted as in tensor
  /// maps of this width; or blocks of 64 rows that run across, as SlabLayout.
  Value describePieces(Value address, bool across);
  /// Starts `steps` of 16 in this order, added to `sum` if that is not empty,
  /// of pairs of tiles (A, B).
  Values startPieces(const Pieces &pieces, ArrayRef<Step> steps,
                     ArrayRef<std::pair<Value, Value>> tiles,
                     ArrayRef<Value> sum);
  /// Waits until at most `pending` products are in flight; `values` belong to
  /// one that is not.
  Values wait(int32_t pending, ArrayRef<Value> values);

private:
  std::string step(int32_t columns, StringRef sum, StringRef a, StringRef bTile,
                   StringRef predicate, StringRef suffix);
  Values assemble(const std::string &text, const std::string &constraints,
                  ArrayRef<Value> operands, size_t results);

  DeviceBuilder &b;
  DeviceCompute compute;
};

/// A barrier in shared memory (8 bytes) is in one of two phases in turn; one
/// ends when as many threads as it was made for have arrived and all bytes that
/// were announced have been copied.
void initBarrier(DeviceBuilder &b, Value barrier, int32_t arrivals);
/// Makes barriers visible to the copies.
void publishBarriers(DeviceBuilder &b);
void arrive(DeviceBuilder &b, Value barrier);
/// Arrives and announces `bytes`.
void announce(DeviceBuilder &b, Value barrier, int32_t bytes);
/// Waits for the end of phase `parity`.
void waitBarrier(DeviceBuilder &b, Value barrier, Value parity);
/// Starts copying the box of a tensor map at `coordinates`, innermost first.
void startBox(DeviceBuilder &b, Value shared, Value map,
              ArrayRef<Value> coordinates, Value barrier);
/// What this thread stored in shared memory is seen by products that start
/// after the next barrier of the block.
void publishStores(DeviceBuilder &b);
/// Sets how many registers each thread of a warpgroup may use, all of whose
/// threads are here, from more or from fewer.
void lowerRegisters(DeviceBuilder &b, int32_t registers);
void raiseRegisters(DeviceBuilder &b, int32_t registers);
/// `value`, which the compiler takes for another: what is computed from it is
/// computed here, and not kept from where it was needed first.
Value refresh(DeviceBuilder &b, Value value);
/// Whether `condition` holds in any lane of the warp.
Value anyLane(DeviceBuilder &b, Value condition);
/// `value` of the warp's first lane, known to be the same in all.
Value uniform(DeviceBuilder &b, Value value);

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_CUDA_WARPGROUPMMA_H
