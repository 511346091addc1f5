//===- GroupSchedules.cpp - map, row and column loops ---------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "GroupEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::blurt;

/// Elements of a map's vector dim that make a task.
static constexpr int64_t kMapBlock = 4096;
/// Row: vectors with accumulators of their own, so that additions overlap.
static constexpr int64_t kRowWays = 4;
/// Row: quads of vectors summed before the sum joins the main accumulator.
static constexpr int64_t kRowBlock = 8;
/// Column: rows summed before the sum joins the main accumulator.
static constexpr int64_t kColumnBlock = 32;

/// Scalar operations that are worth waking a thread for.
static constexpr int64_t kGrainOperations = 1 << 16;

int64_t GroupEmitter::getGrain() {
  int64_t cost =
      group.getBodyBlock()->getOperations().size() + group.getNumOperands();
  for (Operation &op : *group.getBodyBlock())
    cost += isa<math::MathDialect>(op.getDialect()) ? 16 : 0;
  int64_t task = std::max<int64_t>(1, pointsPerTask * cost);
  return std::max<int64_t>(1, kGrainOperations / task);
}

void GroupEmitter::emit() {
  for (unsigned i = 0, e = group.getNumOperands(); i < e; ++i)
    arguments.push_back(b.loadArgument(i));
  switch (plan.schedule) {
  case Schedule::Map:
    return emitMap();
  case Schedule::Row:
    return emitRow();
  case Schedule::Column:
    return emitColumn();
  }
}

//===----------------------------------------------------------------------===//
// Map
//===----------------------------------------------------------------------===//

void GroupEmitter::emitMap() {
  int64_t extent = plan.vectorPoints;
  int64_t blocks = llvm::divideCeil(extent, kMapBlock);
  // Blocks of even size, in whole vectors.
  int64_t block = llvm::alignTo(llvm::divideCeil(extent, blocks), kLanes);
  blocks = llvm::divideCeil(extent, block);
  numTasks = plan.taskPoints * blocks;
  pointsPerTask = std::min(block, extent);

  scf::ForOp tasks = b.loop(b.getBegin(), b.getEnd(), 1);
  global.anchor = tasks;
  b.setInsertionPoint(tasks.getBody()->getTerminator());
  Operation *end = tasks.getBody()->getTerminator();
  Value task = tasks.getInductionVar();
  setCoordinates(plan.taskDims, b.div(task, blocks));

  Scope outer;
  outer.anchor = end;
  if (plan.vectorDims.empty()) {
    Point point{{&outer, &outer, &outer, &outer}, {}, {}};
    storeOutputs(kUniform, point);
    return;
  }

  Value start = b.mul(b.rem(task, blocks), block);
  Value stop = b.i64(extent);
  if (blocks > 1)
    stop = b.min(b.add(start, b.i64(block)), stop);
  int64_t tail = extent % kLanes;
  Value wholeStop = stop;
  if (tail != 0)
    wholeStop = b.min(stop, b.i64(extent - tail));

  auto emitPoint = [&](Value at, Lanes lanes, Operation *anchor) {
    Scope inner;
    inner.anchor = anchor;
    Point point{{&outer, &inner, &outer, &inner}, at, lanes};
    storeOutputs(kVector, point);
  };
  if (extent >= kLanes) {
    scf::ForOp loop = b.loop(start, wholeStop, kLanes);
    outer.anchor = loop;
    emitPoint(loop.getInductionVar(), {}, loop.getBody()->getTerminator());
  }
  if (tail == 0)
    return;
  b.setInsertionPoint(end);
  Operation *anchor = end;
  if (blocks > 1) {
    Value isLast =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, stop, b.i64(extent));
    anchor = b.branch(isLast, false).thenBlock()->getTerminator();
    b.setInsertionPoint(anchor);
  }
  emitPoint(b.i64(extent - tail), b.lanes(b.i64(tail)), anchor);
}

//===----------------------------------------------------------------------===//
// Row
//===----------------------------------------------------------------------===//

SmallVector<Value> GroupEmitter::emitRun(MutableArrayRef<ReduceOp> reduces,
                                         Scope &task, Scope &loop,
                                         SmallVector<Value> main) {
  Operation *end = b.getInsertionBlock()->getTerminator();
  int64_t extent = plan.vectorPoints;
  int64_t quad = kRowWays * kLanes;
  int64_t quads = extent / quad, rest = extent % quad;
  unsigned count = reduces.size();
  loop.anchor = end;
  bool anchored = false;
  auto anchor = [&](Operation *op) {
    if (!anchored)
      loop.anchor = op;
    anchored = true;
  };

  auto identities = [&] {
    SmallVector<Value> values;
    for (ReduceOp reduce : reduces)
      values.push_back(
          identity(reduce.getKind(), getLaneType(reduce.getType())));
    return values;
  };
  // Adds the vector at `at` to the accumulators, one of each reduction.
  auto addPoint = [&](Value at, Lanes lanes, Operation *anchor,
                      MutableArrayRef<Value> accumulators) {
    Scope inner;
    inner.anchor = anchor;
    Point point{{&task, &inner, &loop, &inner}, at, lanes};
    for (auto [reduce, accumulator] : llvm::zip_equal(reduces, accumulators)) {
      Value value = reduceInput(reduce, point, true);
      b.setInsertionPoint(anchor);
      accumulator = combine(reduce.getKind(), accumulator, value);
    }
  };
  auto join = [&](SmallVector<Value> &into, ArrayRef<Value> values) {
    for (unsigned i = 0; i < count; ++i)
      into[i] = combine(reduces[i].getKind(), into[i], values[i]);
  };

  // Quads [from, to): four partial accumulators, then their tree.
  auto emitBlock = [&](Value from, Value to, SmallVector<Value> into) {
    Block *block = b.getInsertionBlock();
    SmallVector<Value> inits;
    for (int64_t way = 0; way < kRowWays; ++way)
      llvm::append_range(inits, identities());
    scf::ForOp inner;
    SmallVector<Value> next;
    if (heavy) {
      // One vector a trip; the accumulators take turns.
      inner = b.loop(b.mul(from, kRowWays), b.mul(to, kRowWays), 1, inits);
      anchor(inner);
      Operation *yield = inner.getBody()->getTerminator();
      b.setInsertionPoint(yield);
      SmallVector<Value> first(inner.getRegionIterArgs().take_front(count));
      addPoint(b.mul(inner.getInductionVar(), kLanes), {}, yield, first);
      llvm::append_range(next, inner.getRegionIterArgs().drop_front(count));
      llvm::append_range(next, first);
    } else {
      inner = b.loop(from, to, 1, inits);
      anchor(inner);
      Operation *yield = inner.getBody()->getTerminator();
      for (int64_t way = 0; way < kRowWays; ++way) {
        b.setInsertionPoint(yield);
        SmallVector<Value> mine(
            inner.getRegionIterArgs().slice(way * count, count));
        Value at =
            b.add(b.mul(inner.getInductionVar(), quad), b.i64(way * kLanes));
        addPoint(at, {}, yield, mine);
        llvm::append_range(next, mine);
      }
    }
    inner.getBody()->getTerminator()->setOperands(next);
    b.setInsertionPoint(block->getTerminator());
    for (unsigned i = 0; i < count; ++i) {
      ReduceKind kind = reduces[i].getKind();
      auto part = [&](int64_t way) { return inner.getResult(way * count + i); };
      Value low = combine(kind, part(0), part(1));
      Value high = combine(kind, part(2), part(3));
      into[i] = combine(kind, into[i], combine(kind, low, high));
    }
    return into;
  };

  int64_t blocks = llvm::divideCeil(quads, kRowBlock);
  if (blocks == 1) {
    main = emitBlock(b.i64(0), b.i64(quads), main);
  } else if (blocks > 1) {
    scf::ForOp outer = b.loop(b.i64(0), b.i64(blocks), 1, main);
    anchor(outer);
    Operation *yield = outer.getBody()->getTerminator();
    b.setInsertionPoint(yield);
    Value from = b.mul(outer.getInductionVar(), kRowBlock);
    Value to = b.add(from, b.i64(kRowBlock));
    if (quads % kRowBlock != 0)
      to = b.min(to, b.i64(quads));
    yield->setOperands(emitBlock(
        from, to, llvm::to_vector_of<Value>(outer.getRegionIterArgs())));
    main = llvm::to_vector_of<Value>(outer.getResults());
  }
  b.setInsertionPoint(end);

  int64_t restVectors = llvm::divideCeil(rest, kLanes);
  SmallVector<Value> tail;
  if (restVectors == 1) {
    tail = identities();
    addPoint(b.i64(extent - rest), b.lanes(b.i64(rest)), end, tail);
  } else if (restVectors > 1) {
    scf::ForOp inner = b.loop(b.i64(0), b.i64(restVectors), 1, identities());
    anchor(inner);
    Operation *yield = inner.getBody()->getTerminator();
    b.setInsertionPoint(yield);
    Value done = b.mul(inner.getInductionVar(), kLanes);
    Lanes lanes;
    if (rest % kLanes != 0)
      lanes = b.lanes(b.sub(b.i64(rest), done));
    SmallVector<Value> mine(inner.getRegionIterArgs());
    addPoint(b.add(done, b.i64(extent - rest)), lanes, yield, mine);
    yield->setOperands(mine);
    tail = llvm::to_vector_of<Value>(inner.getResults());
  }
  b.setInsertionPoint(end);
  if (!tail.empty())
    join(main, tail);
  return main;
}

void GroupEmitter::emitRowOutputs(Scope &task, Scope &loop) {
  // Builder stands at the end of the block that `loop` belongs to.
  Operation *end = b.getInsertionBlock()->getTerminator();
  bool inLoop = &task != &loop;
  int64_t extent = plan.vectorPoints, tail = extent % kLanes;
  Varies vectorClass = inLoop ? kBoth : kVector;
  loop.anchor = end;
  auto emitPoint = [&](Value at, Lanes lanes, Operation *anchor) {
    Scope inner;
    inner.anchor = anchor;
    Point point{{&task, &inner, &loop, &inner}, at, lanes};
    storeOutputs(vectorClass, point);
  };
  if (hasOutputs(vectorClass)) {
    if (extent >= kLanes) {
      scf::ForOp vectors = b.loop(b.i64(0), b.i64(extent - tail), kLanes);
      loop.anchor = vectors;
      emitPoint(vectors.getInductionVar(), {},
                vectors.getBody()->getTerminator());
    }
    if (tail != 0) {
      b.setInsertionPoint(end);
      emitPoint(b.i64(extent - tail), b.lanes(b.i64(tail)), end);
    }
  }
  if (inLoop && hasOutputs(kLoop)) {
    loop.anchor = end;
    Point point{{&task, nullptr, &loop, nullptr}, {}, {}};
    storeOutputs(kLoop, point);
  }
}

void GroupEmitter::emitRow() {
  numTasks = plan.taskPoints;
  pointsPerTask =
      plan.loopPoints * plan.vectorPoints * (plan.phases.size() + 1);
  scf::ForOp tasks = b.loop(b.getBegin(), b.getEnd(), 1);
  global.anchor = tasks;
  Operation *end = tasks.getBody()->getTerminator();
  b.setInsertionPoint(end);
  setCoordinates(plan.taskDims, tasks.getInductionVar());
  bool hasLoop = !plan.loopDims.empty();

  Scope task;
  for (MutableArrayRef<ReduceOp> reduces : plan.phases) {
    b.setInsertionPoint(end);
    SmallVector<Value> main;
    for (ReduceOp reduce : reduces)
      main.push_back(identity(reduce.getKind(), getLaneType(reduce.getType())));
    if (hasLoop) {
      scf::ForOp outer = b.loop(b.i64(0), b.i64(plan.loopPoints), 1, main);
      task.anchor = outer;
      Operation *yield = outer.getBody()->getTerminator();
      b.setInsertionPoint(yield);
      setCoordinates(plan.loopDims, outer.getInductionVar());
      Scope loop;
      yield->setOperands(
          emitRun(reduces, task, loop,
                  llvm::to_vector_of<Value>(outer.getRegionIterArgs())));
      main = llvm::to_vector_of<Value>(outer.getResults());
    } else {
      main = emitRun(reduces, task, task, main);
    }
    b.setInsertionPoint(end);
    for (auto [reduce, lanes] : llvm::zip_equal(reduces, main)) {
      ReduceKind kind = reduce.getKind();
      task.values[reduce] = b.horizontal(
          lanes, [&](Value lhs, Value rhs) { return combine(kind, lhs, rhs); });
    }
  }

  b.setInsertionPoint(end);
  emitRowOutputs(task, task);
  if (hasLoop && (hasOutputs(kLoop) || hasOutputs(kBoth))) {
    b.setInsertionPoint(end);
    scf::ForOp outer = b.loop(b.i64(0), b.i64(plan.loopPoints), 1);
    task.anchor = outer;
    b.setInsertionPoint(outer.getBody()->getTerminator());
    setCoordinates(plan.loopDims, outer.getInductionVar());
    Scope loop;
    emitRowOutputs(task, loop);
  }
  task.anchor = end;
  Point point{{&task, nullptr, nullptr, nullptr}, {}, {}};
  storeOutputs(kUniform, point);
}

//===----------------------------------------------------------------------===//
// Column
//===----------------------------------------------------------------------===//

void GroupEmitter::emitColumnBlock(ArrayRef<Value> starts,
                                   ArrayRef<Lanes> lanes) {
  Operation *end = b.getInsertionBlock()->getTerminator();
  int64_t rows = plan.loopPoints;
  unsigned ways = starts.size();
  Scope task;
  SmallVector<Scope> columns(ways);
  auto setAnchors = [&](Operation *op) {
    task.anchor = op;
    for (Scope &column : columns)
      column.anchor = op;
  };
  auto pointsOf = [&](Scope &loop, MutableArrayRef<Scope> inner,
                      Operation *anchor) {
    loop.anchor = anchor;
    SmallVector<Point> points;
    for (unsigned way = 0; way < ways; ++way) {
      inner[way].anchor = anchor;
      points.push_back({{&task, &columns[way], &loop, &inner[way]},
                        starts[way],
                        lanes[way]});
    }
    return points;
  };

  for (MutableArrayRef<ReduceOp> reduces : plan.phases) {
    // One accumulator a way for what varies by column, one for what does not.
    SmallVector<std::pair<ReduceOp, unsigned>> slots;
    SmallVector<Value> identities;
    b.setInsertionPoint(end);
    for (ReduceOp reduce : reduces) {
      bool vector = plan.classOf(reduce.getResult()) & kVector;
      for (unsigned way = 0; way < (vector ? ways : 1); ++way) {
        slots.emplace_back(reduce, way);
        identities.push_back(identity(
            reduce.getKind(),
            vector ? Type(getLaneType(reduce.getType())) : reduce.getType()));
      }
    }
    auto emitRows = [&](Value from, Value to, SmallVector<Value> into,
                        bool outermost) {
      Block *block = b.getInsertionBlock();
      scf::ForOp loop = b.loop(from, to, 1, identities);
      if (outermost)
        setAnchors(loop);
      Operation *yield = loop.getBody()->getTerminator();
      b.setInsertionPoint(yield);
      setCoordinates(plan.loopDims, loop.getInductionVar());
      Scope row;
      SmallVector<Scope> inner(ways);
      SmallVector<Point> points = pointsOf(row, inner, yield);
      SmallVector<Value> next;
      for (auto [i, slot] : llvm::enumerate(slots)) {
        auto [reduce, way] = slot;
        Value accumulator = loop.getRegionIterArg(i);
        Value value = reduceInput(reduce, points[way],
                                  isa<VectorType>(accumulator.getType()));
        b.setInsertionPoint(yield);
        next.push_back(combine(reduce.getKind(), accumulator, value));
      }
      yield->setOperands(next);
      b.setInsertionPoint(block->getTerminator());
      for (auto [i, slot] : llvm::enumerate(slots))
        into[i] = combine(slot.first.getKind(), into[i], loop.getResult(i));
      return into;
    };
    SmallVector<Value> main = identities;
    int64_t blocks = llvm::divideCeil(rows, kColumnBlock);
    if (blocks == 1) {
      main = emitRows(b.i64(0), b.i64(rows), main, true);
    } else {
      scf::ForOp outer = b.loop(b.i64(0), b.i64(blocks), 1, main);
      setAnchors(outer);
      Operation *yield = outer.getBody()->getTerminator();
      b.setInsertionPoint(yield);
      Value from = b.mul(outer.getInductionVar(), kColumnBlock);
      Value to = b.add(from, b.i64(kColumnBlock));
      if (rows % kColumnBlock != 0)
        to = b.min(to, b.i64(rows));
      yield->setOperands(emitRows(
          from, to, llvm::to_vector_of<Value>(outer.getRegionIterArgs()),
          false));
      main = llvm::to_vector_of<Value>(outer.getResults());
    }
    for (auto [i, slot] : llvm::enumerate(slots)) {
      auto [reduce, way] = slot;
      bool vector = isa<VectorType>(main[i].getType());
      (vector ? columns[way] : task).values[reduce] = main[i];
    }
  }

  if (hasOutputs(kBoth) || hasOutputs(kLoop)) {
    b.setInsertionPoint(end);
    scf::ForOp loop = b.loop(b.i64(0), b.i64(rows), 1);
    setAnchors(loop);
    Operation *terminator = loop.getBody()->getTerminator();
    b.setInsertionPoint(terminator);
    setCoordinates(plan.loopDims, loop.getInductionVar());
    Scope row;
    SmallVector<Scope> inner(ways);
    for (Point &point : pointsOf(row, inner, terminator))
      storeOutputs(kBoth, point);
  }
  setAnchors(end);
  Scope row;
  SmallVector<Scope> inner(ways);
  for (Point &point : pointsOf(row, inner, end))
    storeOutputs(kVector, point);
}

void GroupEmitter::emitColumn() {
  int64_t extent = plan.vectorPoints;
  int64_t ways = heavy || extent < 16 * 4 * kLanes ? 2 : 4;
  int64_t width = ways * kLanes;
  int64_t blocks = llvm::divideCeil(extent, width);
  numTasks = plan.taskPoints * blocks;
  pointsPerTask = plan.loopPoints * std::min(width, extent) *
                  std::max<int64_t>(1, plan.phases.size());

  scf::ForOp tasks = b.loop(b.getBegin(), b.getEnd(), 1);
  global.anchor = tasks;
  Operation *end = tasks.getBody()->getTerminator();
  b.setInsertionPoint(end);
  Value task = tasks.getInductionVar();
  setCoordinates(plan.taskDims, b.div(task, blocks));
  Value start = b.mul(b.rem(task, blocks), width);

  auto emitFull = [&] {
    SmallVector<Value> starts;
    for (int64_t way = 0; way < ways; ++way)
      starts.push_back(b.add(start, b.i64(way * kLanes)));
    emitColumnBlock(starts, SmallVector<Lanes>(ways));
  };
  auto emitPartial = [&] {
    scf::ForOp loop = b.loop(start, b.i64(extent), kLanes);
    b.setInsertionPoint(loop.getBody()->getTerminator());
    Value at = loop.getInductionVar();
    Lanes lanes;
    if (extent % kLanes != 0)
      lanes = b.lanes(b.sub(b.i64(extent), at));
    emitColumnBlock({at}, {lanes});
  };
  if (extent % width == 0)
    return emitFull();
  if (extent < width)
    return emitPartial();
  Value isFull = arith::CmpIOp::create(
      b, arith::CmpIPredicate::sle, b.add(start, b.i64(width)), b.i64(extent));
  scf::IfOp branch = b.branch(isFull, true);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  emitFull();
  b.setInsertionPoint(branch.elseBlock()->getTerminator());
  emitPartial();
}
