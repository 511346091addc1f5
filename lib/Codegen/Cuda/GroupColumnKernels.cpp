//===- GroupColumnKernels.cpp - groups that reduce columns ------*- C++ -*-===//
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

/// Column: rows of a trip, and of a long body.
static constexpr int64_t kColumnUnroll = 4;
static constexpr int64_t kHeavyColumnUnroll = 2;
/// Column: blocks on a multiprocessor, which bound the registers, if parts of
/// the columns make that many.
static constexpr int32_t kColumnBlocks = 2;

int64_t DeviceGroupEmitter::partialBytes(ReduceOp reduce) const {
  return getElementBytes(reduce.getType());
}

int64_t DeviceGroupEmitter::partialOffset(unsigned reduce) const {
  int64_t points = schedule.splits * plan.taskPoints;
  if (plan.schedule == Schedule::Column)
    points *= plan.vectorPoints;
  return int64_t(reduce) * llvm::alignTo(points * 8, 16);
}

SmallVector<Value> DeviceGroupEmitter::acrossRows(ArrayRef<ReduceOp> reduces,
                                                  SmallVector<Value> values,
                                                  Value x, Value y,
                                                  bool onlyFirst) {
  if (schedule.lanesY == 1)
    return values;
  Value memory = getReduceMemory();
  Type byte = b.getI8Type();
  int64_t slot = 8 * schedule.width;
  int64_t row = slot * schedule.lanesX, all = row * schedule.lanesY;
  Value mine = b.mul(x, slot);
  for (auto [i, value] : llvm::enumerate(values)) {
    ReduceOp reduce = reduces[i];
    Value at = b.add(b.add(mine, b.mul(y, row)), b.i64(i * all));
    b.storeVector(reduce.getType(), value, b.advance(byte, memory, at), 1, {},
                  partialBytes(reduce) * schedule.width);
  }
  barrier();
  // Loads outside would stay there, with all they load, when LLVM moves the
  // additions to where the sums are used.
  if (onlyFirst)
    guard(isZero(y));
  for (auto [i, value] : llvm::enumerate(values)) {
    ReduceOp reduce = reduces[i];
    Value sum;
    for (int64_t r = 0; r < schedule.lanesY; ++r) {
      Value at = b.add(mine, b.i64(i * all + r * row));
      Value part = b.loadVector(reduce.getType(), b.advance(byte, memory, at),
                                1, {}, partialBytes(reduce) * schedule.width);
      sum = sum ? combine(reduce.getKind(), sum, part) : part;
    }
    value = sum;
  }
  if (!onlyFirst)
    barrier();
  return values;
}

void DeviceGroupEmitter::setColumnValues(ArrayRef<ReduceOp> reduces,
                                         ArrayRef<Value> values, Scope &task,
                                         Scope &column) {
  for (auto [reduce, value] : llvm::zip_equal(reduces, values)) {
    auto op = reduce;
    if (plan.classOf(op.getResult()) & kVector)
      column.values[op.getResult()] = value;
    else
      task.values[op.getResult()] = vector::ExtractOp::create(b, value, 0);
  }
}

void DeviceGroupEmitter::storeKept(Scope &task, Scope &column, Value start,
                                   Value x, Value y, Value columnBlock,
                                   Value active) {
  Operation *end = &*b.getInsertionPoint();
  scf::IfOp first = guard(isZero(y));
  task.anchor = first;
  Operation *inner = first.thenBlock()->getTerminator();
  if (hasOutputs(kVector)) {
    if (active) {
      scf::IfOp branch = guard(active);
      inner = branch.thenBlock()->getTerminator();
      // What the uniform outputs use as well is read before both.
    }
    column.anchor = inner;
    Point point{{&task, &column, &task, &column}, start, {}};
    storeOutputs(kVector, point);
  }
  b.setInsertionPoint(first.thenBlock()->getTerminator());
  if (hasOutputs(kUniform)) {
    Value isFirst = isZero(b.add(x, columnBlock));
    scf::IfOp branch = guard(isFirst);
    task.anchor = branch.thenBlock()->getTerminator();
    Point point{{&task, nullptr, nullptr, nullptr}, {}, {}};
    storeOutputs(kUniform, point);
  }
  b.setInsertionPoint(end);
}

DeviceGroupEmitter::Columns DeviceGroupEmitter::findColumns() {
  Columns c;
  c.x = schedule.lanesY == 1 ? thread : b.rem(thread, schedule.lanesX);
  c.y = b.div(thread, schedule.lanesX);
  c.number = b.div(blockX, schedule.columnBlocks);
  c.columnBlock = b.rem(blockX, schedule.columnBlocks);
  setCoordinates(plan.taskDims, c.number);
  Value vector = b.add(b.mul(c.columnBlock, schedule.lanesX), c.x);
  if (schedule.vectors % schedule.lanesX != 0) {
    c.active = isLess(vector, schedule.vectors);
    vector = b.min(vector, b.i64(schedule.vectors - 1));
  }
  c.start = b.mul(vector, schedule.width);
  return c;
}

DeviceLaunch DeviceGroupEmitter::emitColumn() {
  DeviceLaunch launch;
  int64_t threads = schedule.lanesX * schedule.lanesY;
  launch.block = {int32_t(threads), 1, 1};
  launch.grid = {int32_t(plan.taskPoints * schedule.columnBlocks),
                 int32_t(schedule.splits), 1};
  if (schedule.splits > 1 && schedule.lanesY > 1)
    b.getKernel()->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                           b.getI32IntegerAttr(kColumnBlocks));
  auto [x, y, number, columnBlock, active, start] = findColumns();
  Value first = b.i64(0), last = b.i64(plan.loopPoints);
  if (schedule.splits > 1) {
    blockY = special("y");
    first = b.mul(blockY, schedule.partRows);
    last = b.min(b.add(first, b.i64(schedule.partRows)), last);
  }
  Operation *end = &*b.getInsertionPoint();
  Scope task, column;

  // Outputs along the rows go out in the only pass over them, or at last.
  uint64_t reduced = plan.loopMask;
  auto isAlongRows = [&](unsigned i) {
    return group.getMentionedDims(group.getOutputMap(i)) & reduced;
  };
  bool anyAlong = false, early = plan.phases.size() == 1;
  for (unsigned i = 0, e = plan.outputs.size(); i < e; ++i)
    if (isAlongRows(i)) {
      anyAlong = true;
      early &= !plan.reducedValues.contains(group.getYielded()[i]);
    }
  auto storeAlong = [&](Scope &row, Scope &inner, Operation *yield) {
    if (hasOutputs(kBoth)) {
      b.setInsertionPoint(yield);
      if (active) {
        scf::IfOp branch = guard(active);
        row.anchor = branch;
        inner.anchor = branch.thenBlock()->getTerminator();
      }
      Point point{{&task, &column, &row, &inner}, start, {}};
      storeOutputs(kBoth, point);
    }
    if (hasOutputs(kLoop)) {
      b.setInsertionPoint(yield);
      scf::IfOp branch = guard(isZero(b.add(x, columnBlock)));
      row.anchor = branch.thenBlock()->getTerminator();
      Point point{{&task, nullptr, &row, nullptr}, {}, {}};
      storeOutputs(kLoop, point);
    }
  };
  // Several rows a trip, all read before any is written, so that loads overlap;
  // then what is left, from the row that the last value carries.
  auto emitRows = [&](ArrayRef<ReduceOp> reduces, SmallVector<Value> inits,
                      bool store) {
    SmallVector<Value> values = std::move(inits);
    values.push_back(b.add(first, y));
    bool isAnchored = false;
    auto emit = [&](Value stop, int64_t count) {
      scf::ForOp rows =
          b.loop(values.back(), stop, count * schedule.lanesY, values);
      if (!isAnchored)
        task.anchor = column.anchor = rows;
      isAnchored = true;
      Operation *after = &*b.getInsertionPoint();
      Operation *yield = rows.getBody()->getTerminator();
      b.setInsertionPoint(yield);
      SmallVector<Scope> row(count), inner(count);
      SmallVector<Point> points;
      SmallVector<Value> next(rows.getRegionIterArgs().drop_back());
      auto goTo = [&](int64_t i) {
        b.setInsertionPoint(yield);
        setCoordinates(plan.loopDims, b.add(rows.getInductionVar(),
                                            b.i64(i * schedule.lanesY)));
      };
      for (int64_t i = 0; i < count; ++i) {
        goTo(i);
        row[i].anchor = inner[i].anchor = yield;
        points.push_back({{&task, &column, &row[i], &inner[i]}, start, {}});
        SmallVector<Value> inputs;
        for (ReduceOp reduce : reduces)
          inputs.push_back(reduceInput(reduce, points[i], true));
        for (auto [k, yielded] : llvm::enumerate(group.getYielded()))
          if (store && !active && outputClass(k) == kBoth)
            get(yielded, points[i]);
        b.setInsertionPoint(yield);
        for (auto [sum, reduce, input] :
             llvm::zip_equal(next, reduces, inputs)) {
          ReduceOp op = reduce;
          sum = combine(op.getKind(), sum, input);
        }
      }
      for (int64_t i = 0; store && i < count; ++i) {
        goTo(i);
        storeAlong(row[i], inner[i], yield);
      }
      b.setInsertionPoint(yield);
      next.push_back(
          b.add(rows.getInductionVar(), b.i64(count * schedule.lanesY)));
      yield->setOperands(next);
      b.setInsertionPoint(after);
      values = llvm::to_vector_of<Value>(rows.getResults());
    };
    int64_t unroll = heavy ? kHeavyColumnUnroll : kColumnUnroll;
    int64_t trip = schedule.lanesY * unroll;
    if (schedule.partRows >= 2 * trip)
      emit(b.sub(last, b.i64(trip - schedule.lanesY)), unroll);
    emit(last, 1);
    values.pop_back();
    b.setInsertionPoint(end);
    task.anchor = column.anchor = end;
    return values;
  };

  for (auto &reduces : plan.phases) {
    SmallVector<Value> sums =
        emitRows(reduces, identities(reduces), anyAlong && early);
    sums = acrossRows(reduces, sums, x, y, schedule.splits > 1);
    if (schedule.splits > 1) {
      Value isFirst = isZero(y);
      if (active)
        isFirst = arith::AndIOp::create(b, isFirst, active);
      guard(isFirst);
      Value point = b.add(b.mul(b.add(b.mul(blockY, plan.taskPoints), number),
                                plan.vectorPoints),
                          start);
      for (auto [i, reduce] : llvm::enumerate(reduces)) {
        int64_t bytes = partialBytes(reduce);
        Value at = b.add(b.i64(partialOffset(i)), b.mul(point, bytes));
        b.storeVector(reduce.getType(), sums[i],
                      b.advance(b.getI8Type(), workspace, at), 1, {},
                      std::min<int64_t>(16, bytes * schedule.width));
      }
      return launch;
    }
    setColumnValues(reduces, sums, task, column);
  }
  if (anyAlong && !early)
    emitRows({}, {}, true);
  storeKept(task, column, start, x, y, columnBlock, active);
  return launch;
}

DeviceLaunch DeviceGroupEmitter::emitColumnCombine() {
  DeviceLaunch launch;
  int64_t threads = schedule.lanesX * schedule.lanesY;
  launch.block = {int32_t(threads), 1, 1};
  launch.grid = {int32_t(plan.taskPoints * schedule.columnBlocks), 1, 1};
  if (schedule.lanesY > 1)
    b.getKernel()->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                           b.getI32IntegerAttr(kColumnBlocks));
  auto [x, y, number, columnBlock, active, start] = findColumns();
  Operation *end = &*b.getInsertionPoint();
  auto &reduces = plan.phases[0];
  scf::ForOp parts =
      b.loop(y, b.i64(schedule.splits), schedule.lanesY, identities(reduces));
  Operation *yield = parts.getBody()->getTerminator();
  b.setInsertionPoint(yield);
  Value point = b.add(
      b.mul(b.add(b.mul(parts.getInductionVar(), plan.taskPoints), number),
            plan.vectorPoints),
      start);
  SmallVector<Value> next;
  for (auto [i, reduce] : llvm::enumerate(reduces)) {
    int64_t bytes = partialBytes(reduce);
    Value at = b.add(b.i64(partialOffset(i)), b.mul(point, bytes));
    Value part =
        b.loadVector(reduce.getType(), b.advance(b.getI8Type(), workspace, at),
                     1, {}, std::min<int64_t>(16, bytes * schedule.width));
    next.push_back(combine(reduce.getKind(), parts.getRegionIterArg(i), part));
  }
  yield->setOperands(next);
  b.setInsertionPoint(end);
  SmallVector<Value> sums =
      acrossRows(reduces, llvm::to_vector_of<Value>(parts.getResults()), x, y,
                 /*onlyFirst=*/true);
  Scope task, column;
  task.anchor = column.anchor = &*b.getInsertionPoint();
  setColumnValues(reduces, sums, task, column);
  storeKept(task, column, start, x, y, columnBlock, active);
  return launch;
}
