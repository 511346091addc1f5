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

/// Vectors of a thread from which it takes two at a time.
static constexpr int64_t kMapTrips = 4;

/// True if a vector is so few bytes of input that more of them have to be on
/// their way to keep memory busy.
bool DeviceGroupEmitter::readsLittle() {
  int64_t bytes = 0;
  for (auto [operand, argument] :
       llvm::zip(plan.inputs, group.getBodyBlock()->getArguments()))
    if (plan.classOf(argument) & kVector)
      bytes += schedule.width * getElementBytes(operand.element);
  return bytes > 0 && bytes <= 16;
}

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
  // The vectors with the numbers `numbers`: all are read before any is written,
  // so that their loads overlap.
  auto emitVectors = [&](ArrayRef<Value> numbers) {
    Operation *end = &*b.getInsertionPoint();
    size_t count = numbers.size();
    SmallVector<Scope> outer(count), inner(count);
    SmallVector<Point> points;
    SmallVector<SmallVector<Value>> places;
    for (auto [i, linear] : llvm::enumerate(numbers)) {
      b.setInsertionPoint(end);
      outer[i].anchor = inner[i].anchor = end;
      setCoordinates(plan.taskDims, b.div(linear, schedule.vectors));
      Value start =
          b.mul(plan.taskPoints == 1 ? linear : b.rem(linear, schedule.vectors),
                schedule.width);
      points.push_back(
          {{&outer[i], &inner[i], &outer[i], &inner[i]}, start, {}});
      places.push_back(coordinates);
      if (count > 1)
        for (auto [operand, argument] :
             llvm::zip(plan.inputs, group.getBodyBlock()->getArguments()))
          if (plan.classOf(argument) == kVector)
            get(argument, points[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      coordinates = places[i];
      storeOutputs(kVector, points[i]);
    }
  };
  if (total <= stride) {
    if (total % stride != 0)
      guard(isLess(first, total));
    emitVectors(first);
    return launch;
  }
  // Counted in 32 bits where they suffice: divisions are cheaper then.
  bool narrow = total + 2 * stride < (int64_t(1) << 31);
  Type type = narrow ? b.getI32Type() : b.getI64Type();
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(b, b.getIntegerAttr(type, value));
  };
  auto widen = [&](Value number) -> Value {
    return narrow ? arith::ExtUIOp::create(b, b.getI64Type(), number) : number;
  };
  Value from =
      narrow ? arith::TruncIOp::create(b, type, first).getResult() : first;
  Operation *end = &*b.getInsertionPoint();
  int64_t count = readsLittle() && total >= kMapTrips * stride ? 2 : 1;
  scf::ForOp pairs;
  if (count > 1) {
    pairs = scf::ForOp::create(b, from, constant(total - stride),
                               constant(count * stride), from);
    global.anchor = pairs;
    b.setInsertionPointToEnd(pairs.getBody());
    Value next =
        arith::AddIOp::create(b, pairs.getInductionVar(), constant(stride));
    Value last = arith::AddIOp::create(b, next, constant(stride));
    scf::YieldOp yield = scf::YieldOp::create(b, last);
    b.setInsertionPoint(yield);
    emitVectors({widen(pairs.getInductionVar()), widen(next)});
    b.setInsertionPoint(end);
    from = pairs.getResult(0);
  }
  auto loop = scf::ForOp::create(b, from, constant(total), constant(stride));
  if (count == 1)
    global.anchor = loop;
  b.setInsertionPoint(loop.getBody()->getTerminator());
  emitVectors(widen(loop.getInductionVar()));
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
