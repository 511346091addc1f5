//===- TensorCore.cpp - matrix products of a warp -------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "TensorCore.h"

using namespace mlir;
using namespace mlir::blurt;

WarpMma::WarpMma(DeviceBuilder &b, DeviceCompute compute, Value thread)
    : b(b), compute(compute) {
  assert(compute != DeviceCompute::F32 && "tensor cores do not compute in f32");
  lane = b.rem(thread, 32);
  warp = b.div(thread, 32);
  row = b.div(lane, 4);
  column = b.shiftLeft(b.rem(lane, 4), 1);
}

TileCursor WarpMma::cursorA(const TileLayout &layout, Value firstRow) {
  return TileCursor(b, layout, b.add(firstRow, b.rem(lane, 16)),
                    b.div(lane, 16));
}

TileCursor WarpMma::cursorB(const TileLayout &layout) {
  Value inTile = b.add(b.shiftLeft(b.div(lane, 16), 3), b.rem(lane, 8));
  return TileCursor(b, layout, inTile, b.rem(b.div(lane, 8), 2));
}

TileCursor WarpMma::cursorAcrossB(const TileLayout &layout) {
  if (isBF16())
    return TileCursor(b, layout, b.rem(lane, 16), b.div(lane, 16));
  // Slots t and t + 4 of the depth hold columns 2t and 2t + 1 of an
  // accumulator, so that it becomes an operand without a shuffle; B's rows
  // are taken in the same order.
  return TileCursor(b, layout, column, b.div(row, 4),
                    b.shiftLeft(b.rem(row, 4), 2));
}

TileCursor WarpMma::cursorPairs(const TileLayout &layout, Value firstRow) {
  Value inTile = b.add(firstRow, row);
  if (isBF16())
    return TileCursor(b, layout, inTile, b.i32(0), b.shiftLeft(column, 1));
  return TileCursor(b, layout, inTile, b.div(column, 4),
                    b.shiftLeft(b.rem(column, 4), 2));
}

WarpMma::Operand WarpMma::loadMatrices(Value address, bool transposed) {
  Type i32 = b.getI32Type();
  auto type =
      LLVM::LLVMStructType::getLiteral(b.getContext(), {i32, i32, i32, i32});
  auto shape = NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8);
  Value loaded = NVVM::LdMatrixOp::create(b, type, address, 4u,
                                          transposed ? NVVM::MMALayout::col
                                                     : NVVM::MMALayout::row,
                                          shape, NVVM::LdStMatrixEltType::B16);
  Operand values;
  for (int64_t i = 0; i != 4; ++i)
    values.push_back(LLVM::ExtractValueOp::create(b, loaded, i));
  return values;
}

WarpMma::Operand WarpMma::loadA(const TileCursor &cursor, Value tile, int32_t m,
                                int32_t step) {
  return loadMatrices(cursor.at(b, tile, 16 * m, 2 * step), false);
}

void WarpMma::accumulate(Fragment &sum, int32_t m, int32_t n, ValueRange a,
                         ValueRange bOperand) {
  Type f32 = b.getF32Type();
  auto type =
      LLVM::LLVMStructType::getLiteral(b.getContext(), {f32, f32, f32, f32});
  NVVM::MMATypes operandType =
      isBF16() ? NVVM::MMATypes::bf16 : NVVM::MMATypes::tf32;
  SmallVector<Value> c;
  for (int32_t e = 0; e != 4; ++e)
    c.push_back(sum.at(m, n, e));
  Value result = NVVM::MmaOp::create(
      b, type, a, bOperand, c, ArrayRef<int64_t>{16, 8, getDepth()},
      std::nullopt, std::nullopt,
      std::array<NVVM::MMATypes, 2>{operandType, operandType},
      std::array<NVVM::MMALayout, 2>{NVVM::MMALayout::row,
                                     NVVM::MMALayout::col});
  for (int64_t e = 0; e != 4; ++e)
    sum.at(m, n, e) = LLVM::ExtractValueOp::create(b, result, e);
}

void WarpMma::multiply(Fragment &sum,
                       llvm::function_ref<Operand(int32_t, int32_t)> getA,
                       const TileCursor &cursor, Value tile, int32_t steps) {
  for (int32_t step = 0; step != steps; ++step) {
    SmallVector<Operand> a;
    for (int32_t m = 0; m != sum.mTiles; ++m)
      a.push_back(getA(m, step));
    for (int32_t n = 0; n != sum.nTiles; n += 2) {
      Operand two = loadMatrices(cursor.at(b, tile, 8 * n, 2 * step), false);
      for (int32_t half = 0; half != 2; ++half)
        for (int32_t m = 0; m != sum.mTiles; ++m)
          accumulate(sum, m, n + half, a[m],
                     ArrayRef<Value>(two).slice(2 * half, 2));
    }
  }
}

void WarpMma::multiplyAcross(Fragment &sum, Fragment &a,
                             const TileCursor &cursor, Value tile) {
  int32_t perStep = getDepth() / 8;
  for (int32_t step = 0; step != a.nTiles / perStep; ++step) {
    SmallVector<Operand> operands(sum.mTiles);
    for (int32_t m = 0; m != sum.mTiles; ++m) {
      Operand &operand = operands[m];
      if (isBF16()) {
        for (int32_t n : {2 * step, 2 * step + 1})
          for (int32_t e : {0, 2})
            operand.push_back(b.packBF16(a.at(m, n, e), a.at(m, n, e + 1)));
      } else {
        for (int32_t e : {0, 2, 1, 3})
          operand.push_back(b.roundTF32(a.at(m, step, e)));
      }
    }
    int32_t rows = step * getDepth();
    for (int32_t n = 0; n != sum.nTiles; n += perStep) {
      Operand loaded;
      if (isBF16())
        loaded = loadMatrices(cursor.at(b, tile, rows, n), true);
      else
        for (int32_t slot : {0, 1})
          loaded.push_back(b.load(b.getI32Type(),
                                  cursor.at(b, tile, rows + slot, 2 * n), 4));
      for (int32_t half = 0; half != perStep; ++half)
        for (int32_t m = 0; m != sum.mTiles; ++m)
          accumulate(sum, m, n + half, operands[m],
                     ArrayRef<Value>(loaded).slice(2 * half, 2));
    }
  }
}

void WarpMma::store(Fragment &fragment, const TileCursor &cursor, Value tile) {
  for (int32_t m = 0; m != fragment.mTiles; ++m)
    for (int32_t n = 0; n != fragment.nTiles; ++n)
      for (int32_t e : {0, 2}) {
        Value low = fragment.at(m, n, e), high = fragment.at(m, n, e + 1);
        int32_t row = Fragment::row(m, e);
        if (isBF16())
          b.store(b.packBF16(low, high), cursor.at(b, tile, row, n), 4);
        else
          b.store(b.makeVector({low, high}), cursor.at(b, tile, row, 2 * n), 8);
      }
}
