//===- GroupMapKernels.cpp - groups without reductions ----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "GroupKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::blurt;

DeviceLaunch DeviceGroupEmitter::emitMap() {
  DeviceLaunch launch;
  int64_t total = plan.taskPoints * schedule.vectors;
  if (plan.vectorDims.empty()) {
    guard(isZero(thread));
    setCoordinates(plan.taskDims, b.i64(0));
    Scope outer;
    outer.anchor = &*b.getInsertionPoint();
    Point point{{&outer, &outer, &outer, &outer}, {}, {}};
    storeOutputs(kUniform, point);
    launch.block = {32, 1, 1};
    return launch;
  }
  launch.block = {int32_t(kGroupThreads), 1, 1};
  launch.grid = {int32_t(schedule.blocks), 1, 1};
  int64_t stride = schedule.blocks * kGroupThreads;
  Value first = b.add(b.mul(blockX, kGroupThreads), thread);
  Value linear = first;
  if (total > stride) {
    // Counted in 32 bits where they suffice: divisions are cheaper then.
    bool narrow = total + stride < (int64_t(1) << 31);
    Type type = narrow ? b.getI32Type() : b.getI64Type();
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
    };
    Value from =
        narrow ? arith::TruncIOp::create(b, type, first).getResult() : first;
    auto loop = scf::ForOp::create(b, from, constant(total), constant(stride));
    global.anchor = loop;
    b.setInsertionPoint(loop.getBody()->getTerminator());
    linear = loop.getInductionVar();
    if (narrow)
      linear = arith::ExtUIOp::create(b, b.getI64Type(), linear);
  } else if (total % stride != 0) {
    guard(isLess(linear, total));
  }
  setCoordinates(plan.taskDims, b.div(linear, schedule.vectors));
  Value start = b.mul(b.rem(linear, schedule.vectors), schedule.width);
  if (plan.taskPoints == 1)
    start = b.mul(linear, schedule.width);
  Scope outer, inner;
  outer.anchor = inner.anchor = &*b.getInsertionPoint();
  Point point{{&outer, &inner, &outer, &inner}, start, {}};
  storeOutputs(kVector, point);
  return launch;
}

/// A block takes 32 points along the vector dim by 32 along the turned dim; the
/// tiles of turned inputs have a column more, so that lanes meet no bank twice.
DeviceLaunch DeviceGroupEmitter::emitTurned() {
  unsigned vectorDim = plan.vectorDims.back();
  unsigned turnedDim = schedule.turnedDim;
  int64_t extentV = plan.extents[vectorDim], extentT = plan.extents[turnedDim];
  int64_t tilesV = llvm::divideCeil(extentV, kTile);
  int64_t tilesT = llvm::divideCeil(extentT, kTile);
  SmallVector<unsigned> others;
  for (unsigned dim : plan.taskDims)
    if (dim != turnedDim)
      others.push_back(dim);
  DeviceLaunch launch;
  launch.block = {int32_t(kTile * kTileRows), 1, 1};
  launch.grid = {int32_t(plan.taskPoints / extentT * tilesV * tilesT), 1, 1};

  Value x = b.rem(thread, kTile), y = b.div(thread, kTile);
  Value tile = b.rem(blockX, tilesV * tilesT);
  Value baseV = b.mul(b.rem(tile, tilesV), kTile);
  Value baseT = b.mul(b.div(tile, tilesV), kTile);
  if (!others.empty())
    setCoordinates(others, b.div(blockX, tilesV * tilesT));

  int64_t bytes = 0;
  SmallVector<std::pair<const Operand *, int64_t>> tiles;
  for (const Operand &operand : plan.inputs)
    if (isTurned(operand, vectorDim, turnedDim)) {
      tiles.emplace_back(&operand, bytes);
      bytes += llvm::alignTo(
          kTile * (kTile + 1) * getElementBytes(operand.element), 16);
    }
  Value memory = getShared(bytes);
  Operation *end = &*b.getInsertionPoint();
  for (int64_t k = 0; k < kTile; k += kTileRows) {
    Value t = b.add(baseT, x);
    Value row = b.add(y, b.i64(k)), v = b.add(baseV, row);
    b.setInsertionPoint(end);
    if (extentT % kTile != 0)
      guard(isLess(t, extentT));
    if (extentV % kTile != 0)
      guard(isLess(v, extentV));
    for (auto [operand, offset] : tiles) {
      Value at = b.add(t, b.mul(v, operand->strides[vectorDim]));
      for (unsigned dim : others)
        if (operand->strides[dim] != 0)
          at = b.add(at, b.mul(coordinates[dim], operand->strides[dim]));
      Value value = b.loadScalar(
          operand->element,
          b.advance(operand->element, arguments[operand->argument], at));
      Value to = b.add(b.mul(row, kTile + 1), x);
      b.storeScalar(operand->element, value,
                    b.advance(operand->element,
                              b.advance(b.getI8Type(), memory, offset), to));
    }
    b.setInsertionPoint(end);
  }
  barrier();
  for (auto [operand, offset] : tiles)
    turned[operand] = b.advance(b.getI8Type(), memory, offset);
  for (int64_t k = 0; k < kTile; k += kTileRows) {
    Value row = b.add(y, b.i64(k));
    Value v = b.add(baseV, x), t = b.add(baseT, row);
    b.setInsertionPoint(end);
    if (extentV % kTile != 0)
      guard(isLess(v, extentV));
    if (extentT % kTile != 0)
      guard(isLess(t, extentT));
    coordinates[turnedDim] = t;
    turnedElement = b.add(b.mul(x, kTile + 1), row);
    Scope outer, inner;
    outer.anchor = inner.anchor = &*b.getInsertionPoint();
    Point point{{&outer, &inner, &outer, &inner}, v, {}};
    storeOutputs(kVector, point);
    b.setInsertionPoint(end);
  }
  return launch;
}
