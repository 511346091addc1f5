//===- GroupRowKernels.cpp - groups that reduce rows ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "GroupKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::blurt;

/// Row: vectors of a trip through a long row.
static constexpr int64_t kRowUnroll = 4;

void DeviceGroupEmitter::setRowValues(MutableArrayRef<ReduceOp> reduces,
                                      SmallVector<Value> sums, Scope &task,
                                      Value lane) {
  for (auto [reduce, sum] : llvm::zip_equal(reduces, sums)) {
    ReduceKind kind = reduce.getKind();
    sum = b.horizontal(
        sum, [&](Value lhs, Value rhs) { return combine(kind, lhs, rhs); });
  }
  sums = acrossThreads(reduces, std::move(sums), schedule.threads, lane);
  for (auto [reduce, sum] : llvm::zip_equal(reduces, sums))
    task.values[reduce] = sum;
}

void DeviceGroupEmitter::emitRowRegisters(Scope &task, Value lane) {
  Operation *end = &*b.getInsertionPoint();
  int64_t count = llvm::divideCeil(schedule.vectors, schedule.threads);
  SmallVector<Scope> scopes(count);
  SmallVector<Value> starts, valid;
  for (int64_t i = 0; i < count; ++i) {
    Value vector = b.add(lane, b.i64(i * schedule.threads));
    Value isValid;
    if ((i + 1) * schedule.threads > schedule.vectors) {
      isValid = isLess(vector, schedule.vectors);
      vector = b.min(vector, b.i64(schedule.vectors - 1));
    }
    valid.push_back(isValid);
    starts.push_back(b.mul(vector, schedule.width));
    scopes[i].anchor = end;
  }
  auto pointOf = [&](int64_t i) {
    return Point{{&task, &scopes[i], &task, &scopes[i]}, starts[i], {}};
  };
  // What each row reads anew is read before anything is written, so that loads
  // overlap.
  for (int64_t i = 0; i < count; ++i)
    for (auto [operand, argument] :
         llvm::zip(plan.inputs, group.getBodyBlock()->getArguments()))
      if (plan.classOf(argument) == kVector && isOfTask(plan, operand)) {
        Point point = pointOf(i);
        get(argument, point);
      }
  for (auto &reduces : plan.phases) {
    SmallVector<Value> sums = identities(reduces);
    for (int64_t i = 0; i < count; ++i) {
      Point point = pointOf(i);
      for (auto [reduce, sum] : llvm::zip_equal(reduces, sums)) {
        Value value = reduceInput(reduce, point, true);
        b.setInsertionPoint(end);
        if (valid[i])
          value = arith::SelectOp::create(
              b, valid[i], value, identity(reduce.getKind(), value.getType()));
        sum = combine(reduce.getKind(), sum, value);
      }
    }
    setRowValues(reduces, std::move(sums), task, lane);
    b.setInsertionPoint(end);
  }
  if (hasOutputs(kVector))
    for (int64_t i = 0; i < count; ++i) {
      Point point = pointOf(i);
      b.setInsertionPoint(end);
      if (valid[i]) {
        scf::IfOp branch = guard(valid[i]);
        task.anchor = branch;
        scopes[i].anchor = branch.thenBlock()->getTerminator();
      }
      storeOutputs(kVector, point);
      task.anchor = end;
    }
  b.setInsertionPoint(end);
}

SmallVector<Value> DeviceGroupEmitter::forVectors(
    Value first, Value last, Value lane, SmallVector<Value> values, Scope &task,
    Scope &loop,
    llvm::function_ref<SmallVector<Value>(MutableArrayRef<Point>, Operation *,
                                          SmallVector<Value>)>
        body) {
  // Several vectors a trip, so that their loads overlap; then what is left,
  // from the vector that the last value carries.
  int64_t trip = schedule.threads * kRowUnroll;
  values.push_back(b.add(first, lane));
  bool anchored = false;
  auto emit = [&](Value end, int64_t count, int64_t below) {
    scf::ForOp vectors =
        b.loop(values.back(), end, count * schedule.threads, values);
    if (!anchored)
      loop.anchor = vectors;
    anchored = true;
    Operation *after = &*b.getInsertionPoint();
    Operation *yield = vectors.getBody()->getTerminator();
    b.setInsertionPoint(yield);
    SmallVector<Value> next(vectors.getRegionIterArgs().drop_back());
    SmallVector<Scope> inner(count);
    SmallVector<Point> points;
    for (int64_t i = 0; i < count; ++i) {
      Value vector =
          b.add(vectors.getInductionVar(), b.i64(i * schedule.threads));
      inner[i].anchor = yield;
      points.push_back({{&task, &inner[i], &loop, &inner[i]},
                        b.mul(vector, schedule.width),
                        {},
                        below});
    }
    next = body(points, yield, std::move(next));
    b.setInsertionPoint(yield);
    next.push_back(
        b.add(vectors.getInductionVar(), b.i64(count * schedule.threads)));
    yield->setOperands(next);
    b.setInsertionPoint(after);
    values = llvm::to_vector_of<Value>(vectors.getResults());
  };
  if (schedule.vectors >= 2 * trip * schedule.splits) {
    // Where no more is masked than a trip at the end, the trips before it need
    // no masks.
    int64_t whole = getUnmasked() / schedule.width;
    bool hasTail = whole < schedule.vectors && whole + trip >= schedule.vectors;
    Value end = hasTail ? b.min(last, b.i64(whole)) : last;
    emit(b.sub(end, b.i64(trip - schedule.threads)), kRowUnroll,
         hasTail ? whole * schedule.width : 0);
  }
  emit(last, 1, 0);
  values.pop_back();
  return values;
}

void DeviceGroupEmitter::storeRowOutputs(Scope &task, Value lane, Value first,
                                         Value last) {
  Operation *end = &*b.getInsertionPoint();
  bool hasLoop = !plan.loopDims.empty();
  auto emitVectors = [&](Scope &loop, Varies varies) {
    if (!hasOutputs(varies))
      return;
    forVectors(first, last, lane, {}, task, loop,
               [&](MutableArrayRef<Point> points, Operation *,
                   SmallVector<Value> values) {
                 for (Point &point : points)
                   for (auto [i, yielded] : llvm::enumerate(group.getYielded()))
                     if (outputClass(i) == varies)
                       get(yielded, point);
                 for (Point &point : points)
                   storeOutputs(varies, point);
                 return values;
               });
  };
  if (!hasLoop) {
    emitVectors(task, kVector);
  } else {
    if (hasOutputs(kVector)) {
      emitVectors(task, kVector);
      task.anchor = end;
      b.setInsertionPoint(end);
    }
    if (hasOutputs(kLoop) || hasOutputs(kBoth)) {
      scf::ForOp outer = b.loop(b.i64(0), b.i64(plan.loopPoints), 1);
      task.anchor = outer;
      Operation *yield = outer.getBody()->getTerminator();
      b.setInsertionPoint(yield);
      setCoordinates(plan.loopDims, outer.getInductionVar());
      Scope loop;
      emitVectors(loop, kBoth);
      if (hasOutputs(kLoop)) {
        b.setInsertionPoint(yield);
        scf::IfOp branch = guard(isZero(lane));
        loop.anchor = branch.thenBlock()->getTerminator();
        Point point{{&task, nullptr, &loop, nullptr}, {}, {}};
        storeOutputs(kLoop, point);
      }
    }
  }
  task.anchor = end;
  b.setInsertionPoint(end);
}

/// What the first reduction reads stays in shared memory; a thread reads back
/// only what it wrote, so nothing waits.
Value DeviceGroupEmitter::loadLanes(const Operand &operand, Value pointer,
                                    Point &point) {
  if (Value tile = turned.lookup(&operand))
    return b.splat(b.loadScalar(
        operand.element, b.advance(operand.element, tile, turnedElement)));
  auto found = cache.find(&operand);
  if (found == cache.end())
    return GroupBody::loadLanes(operand, pointer, point);
  int64_t bytes = getElementBytes(operand.element);
  Value at = b.advance(operand.element,
                       b.advance(b.getI8Type(), cacheMemory, found->second),
                       point.vectorStart);
  int64_t alignment = std::min<int64_t>(16, bytes * schedule.width);
  if (isCached)
    return b.loadVector(operand.element, at, 1, {}, alignment);
  Value raw =
      LLVM::LoadOp::create(b, b.laneType(getStorageType(operand.element)),
                           pointer, operand.alignment);
  LLVM::StoreOp::create(b, raw, at, alignment);
  return b.extend(operand.element, raw);
}

/// e^(v - m) for a maximum m: the v. Null if `reduce` is no sum of that.
static Value getBelowMaximum(ReduceOp reduce, ReduceOp maximum) {
  auto exp = reduce.getValue().getDefiningOp<math::ExpOp>();
  auto below = exp ? exp.getOperand().getDefiningOp<arith::SubFOp>() : nullptr;
  return reduce.getKind() == ReduceKind::Sum && below &&
                 below.getRhs() == maximum.getResult()
             ? below.getLhs()
             : Value();
}

bool DeviceGroupEmitter::emitRowOnline(Scope &task, Value lane) {
  if (plan.phases.size() < 2 || plan.phases[0].size() != 1 ||
      !plan.loopDims.empty() || schedule.splits > 1)
    return false;
  ReduceOp maximum = plan.phases[0][0];
  if (maximum.getKind() != ReduceKind::Max || !maximum.getType().isF32())
    return false;
  MutableArrayRef<ReduceOp> reduces = plan.phases[1];
  for (ReduceOp reduce : reduces) {
    Value value = getBelowMaximum(reduce, maximum);
    if (!value || !(plan.classOf(value) & kVector) ||
        plan.reducedValues.contains(value))
      return false;
  }
  Operation *end = &*b.getInsertionPoint();
  Value lowest = identity(ReduceKind::Max, maximum.getType());
  auto fastmath = isRounded(maximum.getValue()) ? arith::FastMathFlags::afn
                                                : arith::FastMathFlags::none;
  auto expBelow = [&](Value value, Value top) -> Value {
    return math::ExpOp::create(b, arith::SubFOp::create(b, value, top),
                               fastmath);
  };
  auto greater = [&](Value lhs, Value rhs) {
    return combine(ReduceKind::Max, lhs, rhs);
  };
  SmallVector<Value> inits{lowest};
  llvm::append_range(inits, identities(reduces));
  SmallVector<Value> values = forVectors(
      b.i64(0), b.i64(schedule.vectors), lane, std::move(inits), task, task,
      [&](MutableArrayRef<Point> points, Operation *yield,
          SmallVector<Value> values) {
        Value top;
        for (Point &point : points) {
          Value value = reduceInput(maximum, point, true);
          b.setInsertionPoint(yield);
          top = top ? greater(top, value) : value;
        }
        top = greater(values[0], b.horizontal(top, greater));
        // Nothing is above -inf, and -inf - -inf is no number.
        Value isLowest =
            arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, top, lowest);
        Value from = arith::SelectOp::create(b, isLowest,
                                             b.constant(top.getType(), 0), top);
        Value scale = b.splat(expBelow(values[0], from));
        SmallVector<Value> next{top};
        for (auto [reduce, sum] :
             llvm::zip_equal(reduces, ArrayRef(values).drop_front())) {
          Value result = arith::MulFOp::create(b, sum, scale);
          for (Point &point : points) {
            Value value = getVector(getBelowMaximum(reduce, maximum), point);
            b.setInsertionPoint(yield);
            result = combine(ReduceKind::Sum, result,
                             expBelow(value, b.splat(from)));
          }
          next.push_back(result);
        }
        return next;
      });
  b.setInsertionPoint(end);
  task.anchor = end;
  Value own = values[0];
  Value top = acrossThreads(maximum, {own}, schedule.threads, lane).front();
  task.values[maximum.getResult()] = top;
  Value scale = b.splat(expBelow(own, top));
  SmallVector<Value> sums;
  for (Value sum : ArrayRef(values).drop_front())
    sums.push_back(arith::MulFOp::create(b, sum, scale));
  setRowValues(reduces, std::move(sums), task, lane);
  isCached = true;
  return true;
}

void DeviceGroupEmitter::emitRowLoops(Scope &task, Value lane, Value first,
                                      Value last) {
  Operation *end = &*b.getInsertionPoint();
  bool hasLoop = !plan.loopDims.empty();
  unsigned done = emitRowOnline(task, lane) ? 2 : 0;
  for (auto &reduces : MutableArrayRef(plan.phases).drop_front(done)) {
    b.setInsertionPoint(end);
    SmallVector<Value> sums = identities(reduces);
    auto emitRun = [&](Scope &loop, SmallVector<Value> inits) {
      return forVectors(first, last, lane, std::move(inits), task, loop,
                        [&](MutableArrayRef<Point> points, Operation *yield,
                            SmallVector<Value> values) {
                          for (Point &point : points)
                            for (auto [reduce, sum] :
                                 llvm::zip_equal(reduces, values)) {
                              Value value = reduceInput(reduce, point, true);
                              b.setInsertionPoint(yield);
                              sum = combine(reduce.getKind(), sum, value);
                            }
                          return values;
                        });
    };
    if (hasLoop) {
      scf::ForOp outer = b.loop(b.i64(0), b.i64(plan.loopPoints), 1, sums);
      task.anchor = outer;
      Operation *yield = outer.getBody()->getTerminator();
      b.setInsertionPoint(yield);
      setCoordinates(plan.loopDims, outer.getInductionVar());
      Scope loop;
      yield->setOperands(
          emitRun(loop, llvm::to_vector_of<Value>(outer.getRegionIterArgs())));
      sums = llvm::to_vector_of<Value>(outer.getResults());
    } else {
      sums = emitRun(task, sums);
    }
    b.setInsertionPoint(end);
    task.anchor = end;
    setRowValues(reduces, std::move(sums), task, lane);
    isCached = true;
  }
  b.setInsertionPoint(end);
}

/// The block arguments that `value` is computed from.
static void addInputs(Value value, llvm::SmallDenseSet<Value> &inputs) {
  if (!inputs.insert(value).second)
    return;
  if (Operation *op = value.getDefiningOp())
    for (Value operand : op->getOperands())
      addInputs(operand, inputs);
}

DeviceLaunch DeviceGroupEmitter::emitRow() {
  DeviceLaunch launch;
  int64_t tasks = plan.taskPoints * schedule.splits;
  launch.block = {int32_t(schedule.threads * schedule.rows), 1, 1};
  launch.grid = {int32_t(llvm::divideCeil(tasks, schedule.rows)), 1, 1};
  Value lane = thread, number = blockX;
  if (schedule.rows > 1) {
    lane = b.rem(thread, schedule.threads);
    number =
        b.add(b.mul(blockX, schedule.rows), b.div(thread, schedule.threads));
    if (tasks % schedule.rows != 0)
      guard(isLess(number, tasks));
  }
  Operation *end = &*b.getInsertionPoint();
  setCoordinates(plan.taskDims, b.div(number, schedule.splits));
  Scope task;
  task.anchor = end;
  if (schedule.registers) {
    emitRowRegisters(task, lane);
  } else {
    Value first = b.i64(0), last = b.i64(schedule.vectors);
    if (schedule.cacheBytes > 0) {
      launch.sharedBytes = schedule.cacheBytes;
      // Two blocks on a multiprocessor, if shared memory has room for them.
      if (2 * schedule.cacheBytes <= kHopperCacheBytes &&
          schedule.threads <= kRowThreads)
        b.getKernel()->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                               b.getI32IntegerAttr(2));
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(&b.getKernel().getBody().front());
      cacheMemory = LLVM::AddressOfOp::create(
          b,
          getDynamicShared(b.getKernel()->getParentOfType<gpu::GPUModuleOp>()));
      // Only what the first reduction reads is sure to be written by it.
      int64_t offset = 0;
      llvm::SmallDenseSet<Value> read;
      for (ReduceOp reduce : plan.phases[0])
        addInputs(reduce.getValue(), read);
      for (auto [i, operand] : llvm::enumerate(plan.inputs))
        if (read.contains(group.getBodyBlock()->getArgument(i)) &&
            isCacheable(plan, operand)) {
          cache[&operand] = offset;
          offset += getCacheBytes(plan, operand);
        }
    }
    Value part;
    if (schedule.splits > 1) {
      int64_t share = llvm::divideCeil(schedule.vectors, schedule.splits);
      part = b.rem(number, schedule.splits);
      first = b.mul(part, share);
      last = b.min(b.add(first, b.i64(share)), last);
    }
    emitRowLoops(task, lane, first, last);
    storeRowOutputs(task, lane, first, last);
    if (schedule.splits > 1) {
      guard(isZero(lane));
      for (auto [i, reduce] : llvm::enumerate(plan.phases[0])) {
        Value at =
            b.add(b.i64(partialOffset(i)), b.mul(number, partialBytes(reduce)));
        b.storeScalar(reduce.getType(), task.values[reduce],
                      b.advance(b.getI8Type(), workspace, at));
      }
      return launch;
    }
  }
  scf::IfOp branch = guard(isZero(lane));
  task.anchor = branch.thenBlock()->getTerminator();
  Point point{{&task, nullptr, nullptr, nullptr}, {}, {}};
  storeOutputs(kUniform, point);
  return launch;
}

DeviceLaunch DeviceGroupEmitter::emitRowCombine() {
  DeviceLaunch launch;
  launch.block = {32, 1, 1};
  launch.grid = {int32_t(plan.taskPoints), 1, 1};
  setCoordinates(plan.taskDims, blockX);
  Operation *end = &*b.getInsertionPoint();
  ArrayRef<ReduceOp> reduces = plan.phases[0];
  SmallVector<Value> inits;
  for (ReduceOp reduce : plan.phases[0])
    inits.push_back(identity(reduce.getKind(), reduce.getType()));
  scf::ForOp parts = b.loop(thread, b.i64(schedule.splits), 32, inits);
  Operation *yield = parts.getBody()->getTerminator();
  b.setInsertionPoint(yield);
  Value number = b.add(b.mul(blockX, schedule.splits), parts.getInductionVar());
  SmallVector<Value> next;
  for (auto [i, reduce] : llvm::enumerate(plan.phases[0])) {
    Value at =
        b.add(b.i64(partialOffset(i)), b.mul(number, partialBytes(reduce)));
    Value part =
        b.loadScalar(reduce.getType(), b.advance(b.getI8Type(), workspace, at));
    next.push_back(combine(reduce.getKind(), parts.getRegionIterArg(i), part));
  }
  yield->setOperands(next);
  b.setInsertionPoint(end);
  SmallVector<Value> sums = acrossThreads(
      reduces, llvm::to_vector_of<Value>(parts.getResults()), 32, thread);
  Scope task;
  for (auto [reduce, sum] : llvm::zip_equal(plan.phases[0], sums))
    task.values[reduce] = sum;
  scf::IfOp branch = guard(isZero(thread));
  task.anchor = branch.thenBlock()->getTerminator();
  Point point{{&task, nullptr, nullptr, nullptr}, {}, {}};
  storeOutputs(kUniform, point);
  return launch;
}
