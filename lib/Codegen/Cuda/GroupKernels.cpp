//===- GroupKernels.cpp - device kernels for one group --------*- C++ -*-===//
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

/// Threads of a block where nothing else asks for another number.
static constexpr int64_t kThreads = 256;
/// Map: blocks that fill any device; each thread then takes several vectors.
static constexpr int64_t kMapBlocks = 4096;
/// Map: points of a tile along each of its dims, and threads along one of them.
static constexpr int64_t kTile = 32;
static constexpr int64_t kTileRows = 8;
/// Row: vectors of a thread that may stay in registers, and scalars in all.
static constexpr int64_t kRegisterVectors = 8;
static constexpr int64_t kRegisterScalars = 128;
/// Row: vectors of a trip through a long row.
static constexpr int64_t kRowUnroll = 4;
/// Row: elements of a part, and elements from which a row is cut.
static constexpr int64_t kRowPart = 8192;
/// Column: rows of a part.
static constexpr int64_t kColumnPart = 256;
static constexpr int64_t kMaxSplits = 1024;
/// Row: shared memory that every architecture has for one block, less what the
/// reductions use.
static constexpr int64_t kCacheBytes = 99 * 1024 - 512;

//===----------------------------------------------------------------------===//
// Schedule
//===----------------------------------------------------------------------===//

/// True if the partial results of the group's reductions can be written by one
/// kernel and added up by another: one phase, and nothing that varies along the
/// reduced dims depends on a result.
static bool isSplittable(GroupOp group, const GroupPlan &plan) {
  if (plan.phases.size() != 1)
    return false;
  uint64_t reduced = 0;
  for (int64_t dim : group.getReduce())
    reduced |= uint64_t(1) << dim;
  for (unsigned i = 0, e = plan.outputs.size(); i < e; ++i)
    if ((group.getMentionedDims(group.getOutputMap(i)) & reduced) &&
        plan.reducedValues.contains(group.getYielded()[i]))
      return false;
  return true;
}

static int64_t largestWidth(int64_t extent, int64_t most) {
  while (most > 1 && extent % most != 0)
    most /= 2;
  return most;
}

/// True for an input of which a row lies in one piece.
static bool isCacheable(const GroupPlan &plan, const Operand &operand) {
  int64_t stride = 1;
  for (unsigned dim : llvm::reverse(plan.vectorDims)) {
    if (operand.strides[dim] != stride)
      return false;
    stride *= plan.extents[dim];
  }
  return true;
}

static int64_t getCacheBytes(const GroupPlan &plan, const Operand &operand) {
  return llvm::alignTo(plan.vectorPoints * getElementBytes(operand.element),
                       16);
}

static bool isTurned(const Operand &operand, unsigned vectorDim, unsigned dim) {
  return operand.strides[dim] == 1 && operand.strides[vectorDim] > 1;
}

/// The dim along which an input lies but no output, if both it and the vector
/// dim are long enough for tiles; -1 if there is none.
static int64_t findTurnedDim(const GroupPlan &plan) {
  unsigned vectorDim = plan.vectorDims.back();
  if (plan.extents[vectorDim] < kTile / 2)
    return -1;
  for (const Operand &operand : plan.outputs)
    if (operand.strides[vectorDim] != 1)
      return -1;
  for (unsigned dim : plan.taskDims)
    if (plan.extents[dim] >= kTile / 2)
      for (const Operand &operand : plan.inputs)
        if (isTurned(operand, vectorDim, dim))
          return dim;
  return -1;
}

DeviceSchedule DeviceSchedule::get(GroupOp group, const GroupPlan &plan,
                                   int64_t workspaceBytes) {
  DeviceSchedule s;
  int64_t kept = plan.taskPoints;
  switch (plan.schedule) {
  case Schedule::Map: {
    if (plan.vectorDims.empty()) {
      s.blocks = 1;
      return s;
    }
    s.turnedDim = findTurnedDim(plan);
    if (s.turnedDim >= 0) {
      s.vectors = plan.vectorPoints;
      return s;
    }
    // 16 bytes of the narrowest element that lies along the vector dim.
    int64_t bytes = 8;
    bool contiguous = false;
    auto look = [&](ArrayRef<Operand> operands) {
      for (const Operand &operand : operands)
        if (operand.strides[plan.vectorDims.back()] == 1) {
          bytes = std::min<int64_t>(bytes, getElementBytes(operand.element));
          contiguous = true;
        }
    };
    look(plan.inputs);
    look(plan.outputs);
    for (Value table : group.getTables())
      bytes = std::min<int64_t>(
          bytes, getElementBytes(getElementTypeOrSelf(table.getType())));
    s.width = contiguous ? largestWidth(plan.vectorPoints,
                                        std::min<int64_t>(8, 16 / bytes))
                         : 1;
    s.vectors = plan.vectorPoints / s.width;
    s.blocks = std::clamp<int64_t>(llvm::divideCeil(kept * s.vectors, kThreads),
                                   1, kMapBlocks);
    return s;
  }
  case Schedule::Row: {
    s.width = largestWidth(plan.vectorPoints, 4);
    s.vectors = plan.vectorPoints / s.width;
    bool single = plan.loopDims.empty();
    if (single && isSplittable(group, plan) &&
        plan.vectorPoints >= 2 * kRowPart && kept <= 4096) {
      s.splits = std::min<int64_t>(
          kMaxSplits, llvm::divideCeil(plan.vectorPoints, kRowPart));
      int64_t bytes = 8 * kept * int64_t(plan.phases[0].size());
      while (s.splits > 1 && s.splits * bytes > workspaceBytes)
        s.splits /= 2;
      s.threads = kThreads;
    }
    if (s.splits == 1)
      s.threads = s.vectors <= 32 * kRegisterVectors         ? 32
                  : s.vectors <= kThreads * kRegisterVectors ? kThreads
                                                             : 512;
    s.rows = s.threads == 32 ? std::min<int64_t>(kThreads / 32, kept) : 1;
    int64_t perThread = llvm::divideCeil(s.vectors, s.threads);
    int64_t live = 0;
    for (unsigned i = 0, e = plan.inputs.size(); i < e; ++i)
      live += (plan.classOf(group.getBodyBlock()->getArgument(i)) & kVector)
                  ? perThread * s.width
                  : 0;
    s.registers = single && s.splits == 1 && perThread <= kRegisterVectors &&
                  live <= kRegisterScalars;
    // A long row that is read again for each reduction and for the outputs.
    bool again = plan.phases.size() > 1;
    for (Value yielded : group.getYielded())
      again |= plan.reducedValues.contains(yielded) &&
               (plan.classOf(yielded) & kVector);
    if (single && s.splits == 1 && !s.registers && s.rows == 1 && again) {
      for (const Operand &operand : plan.inputs)
        if (isCacheable(plan, operand))
          s.cacheBytes += getCacheBytes(plan, operand);
      if (s.cacheBytes > kCacheBytes)
        s.cacheBytes = 0;
    }
    return s;
  }
  case Schedule::Column: {
    int64_t rows = plan.loopPoints;
    s.width = largestWidth(plan.vectorPoints, 4);
    s.vectors = plan.vectorPoints / s.width;
    s.lanesY = rows < 64 ? 1 : 8;
    s.lanesX = rows < 64 ? 128 : 32;
    s.columnBlocks = llvm::divideCeil(s.vectors, s.lanesX);
    s.partRows = rows;
    if (isSplittable(group, plan) && rows >= 2 * kColumnPart) {
      s.splits =
          std::min<int64_t>(kMaxSplits, llvm::divideCeil(rows, kColumnPart));
      int64_t bytes =
          8 * kept * plan.vectorPoints * int64_t(plan.phases[0].size());
      while (s.splits > 1 && s.splits * bytes > workspaceBytes)
        s.splits /= 2;
      s.partRows = llvm::divideCeil(rows, s.splits);
      s.splits = llvm::divideCeil(rows, s.partRows);
    }
    return s;
  }
  }
  llvm_unreachable("covered switch");
}

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

DeviceGroupEmitter::DeviceGroupEmitter(GroupOp group, KernelBuilder &builder,
                                       const DeviceSchedule &schedule,
                                       ArrayRef<int64_t> alignments)
    : GroupBody(group, builder), schedule(schedule) {
  auto align = [&](Operand &operand, int64_t alignment) {
    int64_t bytes = getElementBytes(operand.element);
    uint64_t result = std::min<int64_t>(alignment, 16);
    for (auto [dim, stride] : llvm::enumerate(operand.strides)) {
      if (stride == 0)
        continue;
      bool innermost =
          !plan.vectorDims.empty() && dim == plan.vectorDims.back();
      int64_t step = stride * bytes;
      if (innermost && plan.extents[dim] % b.getWidth() == 0)
        step *= b.getWidth();
      result = llvm::MinAlign(result, step);
    }
    operand.alignment = std::max<int64_t>(result, bytes);
  };
  unsigned numInputs = plan.inputs.size();
  unsigned numTables = group.getTables().size();
  for (auto [i, operand] : llvm::enumerate(plan.inputs))
    align(operand, alignments[i]);
  for (auto [i, operand] : llvm::enumerate(plan.outputs))
    align(operand, alignments[numInputs + numTables + i]);
  for (auto [i, table] : llvm::enumerate(group.getTables())) {
    auto type = cast<MemRefType>(table.getType());
    int64_t bytes = getElementBytes(type.getElementType());
    auto [strides, offset] = type.getStridesAndOffset();
    uint64_t result = std::min<int64_t>(alignments[numInputs + i], 16);
    for (int64_t stride : ArrayRef<int64_t>(strides).drop_back())
      result = llvm::MinAlign(result, stride * bytes);
    if (!plan.vectorDims.empty() &&
        plan.extents[plan.vectorDims.back()] % b.getWidth() == 0)
      result = llvm::MinAlign(result, b.getWidth() * bytes);
    else
      result = bytes;
    plan.tableAlignments.push_back(std::max<int64_t>(result, bytes));
  }
}

Value DeviceGroupEmitter::special(StringRef what) {
  Type i32 = b.getI32Type();
  Value number;
  if (what == "tid")
    number = NVVM::ThreadIdXOp::create(b, i32);
  else if (what == "x")
    number = NVVM::BlockIdXOp::create(b, i32);
  else
    number = NVVM::BlockIdYOp::create(b, i32);
  return arith::ExtUIOp::create(b, b.getI64Type(), number);
}

void DeviceGroupEmitter::begin() {
  unsigned count = group.getNumOperands();
  for (unsigned i = 0; i < count; ++i)
    arguments.push_back(b.loadArgument(i));
  if (schedule.splits > 1)
    workspace = b.loadArgument(count);
  thread = special("tid");
  blockX = special("x");
  // What is the same everywhere is read before this.
  global.anchor = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
}

Value DeviceGroupEmitter::isLess(Value lhs, int64_t rhs) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lhs, b.i64(rhs));
}

Value DeviceGroupEmitter::isZero(Value value) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value, b.i64(0));
}

scf::IfOp DeviceGroupEmitter::guard(Value condition) {
  scf::IfOp branch = b.branch(condition, false);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  return branch;
}

void DeviceGroupEmitter::barrier() { NVVM::Barrier0Op::create(b); }

Value DeviceGroupEmitter::getReduceMemory() {
  if (sharedMemory)
    return sharedMemory;
  size_t most = 1;
  for (auto &reduces : plan.phases)
    most = std::max(most, reduces.size());
  int64_t bytes = 8 * int64_t(most) *
                  (plan.schedule == Schedule::Column
                       ? schedule.lanesX * schedule.lanesY * schedule.width
                       : schedule.threads / 32);
  return sharedMemory = getShared(bytes);
}

Value DeviceGroupEmitter::getShared(int64_t bytes) {
  OpBuilder::InsertionGuard guard(b);
  LLVM::LLVMFuncOp kernel = b.getKernel();
  b.setInsertionPoint(kernel);
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), bytes);
  auto memory = LLVM::GlobalOp::create(
      b, type, /*isConstant=*/false, LLVM::Linkage::Internal,
      (kernel.getSymName() + "_shared").str(), Attribute(), /*alignment=*/16,
      /*addrSpace=*/3);
  b.setInsertionPointToStart(&kernel.getBody().front());
  return LLVM::AddressOfOp::create(b, memory);
}

Value DeviceGroupEmitter::shuffle(Value value, int32_t mask) {
  Type type = value.getType();
  auto i32 = [&](int32_t number) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(number));
  };
  auto exchange = [&](Value word) -> Value {
    return NVVM::ShflOp::create(b, word.getType(), i32(-1), word, i32(mask),
                                i32(31), NVVM::ShflKind::bfly, UnitAttr());
  };
  if (type.isF32() || type.isInteger(32))
    return exchange(value);
  // 64 bits go as two words.
  Value bits = type.isInteger(64)
                   ? value
                   : arith::BitcastOp::create(b, b.getI64Type(), value);
  Value low = arith::TruncIOp::create(b, b.getI32Type(), bits);
  Value high = arith::TruncIOp::create(
      b, b.getI32Type(), arith::ShRUIOp::create(b, bits, b.i64(32)));
  low = arith::ExtUIOp::create(b, b.getI64Type(), exchange(low));
  high = arith::ExtUIOp::create(b, b.getI64Type(), exchange(high));
  bits =
      arith::OrIOp::create(b, low, arith::ShLIOp::create(b, high, b.i64(32)));
  return type.isInteger(64) ? bits : arith::BitcastOp::create(b, type, bits);
}

SmallVector<Value> DeviceGroupEmitter::identities(ArrayRef<ReduceOp> reduces) {
  SmallVector<Value> values;
  for (ReduceOp reduce : reduces) {
    auto op = reduce;
    values.push_back(identity(op.getKind(), b.laneType(op.getType())));
  }
  return values;
}

SmallVector<Value> DeviceGroupEmitter::acrossThreads(ArrayRef<ReduceOp> reduces,
                                                     SmallVector<Value> values,
                                                     int64_t threads,
                                                     Value lane) {
  for (auto [i, value] : llvm::enumerate(values)) {
    ReduceOp reduce = reduces[i];
    for (int32_t mask = 16; mask >= 1; mask /= 2)
      value = combine(reduce.getKind(), value, shuffle(value, mask));
  }
  if (threads == 32)
    return values;
  int64_t warps = threads / 32;
  Value memory = getReduceMemory();
  Type byte = b.getI8Type();
  Operation *end = &*b.getInsertionPoint();
  guard(isZero(b.rem(lane, 32)));
  Value warp = b.div(lane, 32);
  for (auto [i, value] : llvm::enumerate(values))
    b.storeScalar(
        value.getType(), value,
        b.advance(byte, memory, b.add(b.mul(warp, 8), b.i64(i * warps * 8))));
  b.setInsertionPoint(end);
  barrier();
  for (auto [i, value] : llvm::enumerate(values)) {
    ReduceOp reduce = reduces[i];
    Value sum;
    for (int64_t w = 0; w < warps; ++w) {
      Value part = b.loadScalar(value.getType(),
                                b.advance(byte, memory, (i * warps + w) * 8));
      sum = sum ? combine(reduce.getKind(), sum, part) : part;
    }
    value = sum;
  }
  barrier();
  return values;
}

//===----------------------------------------------------------------------===//
// Map
//===----------------------------------------------------------------------===//

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
  launch.block = {int32_t(kThreads), 1, 1};
  launch.grid = {int32_t(schedule.blocks), 1, 1};
  int64_t stride = schedule.blocks * kThreads;
  Value first = b.add(b.mul(blockX, kThreads), thread);
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

//===----------------------------------------------------------------------===//
// Row
//===----------------------------------------------------------------------===//

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
    for (auto [reduce, sum] : llvm::zip_equal(reduces, sums)) {
      ReduceKind kind = reduce.getKind();
      sum = b.horizontal(
          sum, [&](Value lhs, Value rhs) { return combine(kind, lhs, rhs); });
    }
    sums = acrossThreads(reduces, sums, schedule.threads, lane);
    for (auto [reduce, sum] : llvm::zip_equal(reduces, sums))
      task.values[reduce] = sum;
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
    llvm::function_ref<SmallVector<Value>(Point &, Operation *,
                                          SmallVector<Value>)>
        body) {
  // Several vectors a trip, one after the other, so that their loads overlap;
  // then what is left, from the vector that the last value carries.
  int64_t trip = schedule.threads * kRowUnroll;
  values.push_back(b.add(first, lane));
  bool anchored = false;
  auto emit = [&](Value end, int64_t count) {
    scf::ForOp vectors =
        b.loop(values.back(), end, count * schedule.threads, values);
    if (!anchored)
      loop.anchor = vectors;
    anchored = true;
    Operation *after = &*b.getInsertionPoint();
    Operation *yield = vectors.getBody()->getTerminator();
    b.setInsertionPoint(yield);
    SmallVector<Value> next(vectors.getRegionIterArgs().drop_back());
    for (int64_t i = 0; i < count; ++i) {
      b.setInsertionPoint(yield);
      Value vector =
          b.add(vectors.getInductionVar(), b.i64(i * schedule.threads));
      Scope inner;
      inner.anchor = yield;
      Point point{
          {&task, &inner, &loop, &inner}, b.mul(vector, schedule.width), {}};
      next = body(point, yield, std::move(next));
    }
    b.setInsertionPoint(yield);
    next.push_back(
        b.add(vectors.getInductionVar(), b.i64(count * schedule.threads)));
    yield->setOperands(next);
    b.setInsertionPoint(after);
    values = llvm::to_vector_of<Value>(vectors.getResults());
  };
  if (schedule.vectors >= 2 * trip * schedule.splits)
    emit(b.sub(last, b.i64(trip - schedule.threads)), kRowUnroll);
  emit(last, 1);
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
               [&](Point &point, Operation *, SmallVector<Value> values) {
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
  Value value = GroupBody::loadLanes(operand, pointer, point);
  b.storeVector(operand.element, value, at, 1, {}, alignment);
  return value;
}

void DeviceGroupEmitter::emitRowLoops(Scope &task, Value lane, Value first,
                                      Value last) {
  Operation *end = &*b.getInsertionPoint();
  bool hasLoop = !plan.loopDims.empty();
  for (auto &reduces : plan.phases) {
    b.setInsertionPoint(end);
    SmallVector<Value> sums = identities(reduces);
    auto emitRun = [&](Scope &loop, SmallVector<Value> inits) {
      return forVectors(
          first, last, lane, std::move(inits), task, loop,
          [&](Point &point, Operation *yield, SmallVector<Value> values) {
            for (auto [reduce, sum] : llvm::zip_equal(reduces, values)) {
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
    for (auto [reduce, sum] : llvm::zip_equal(reduces, sums)) {
      ReduceKind kind = reduce.getKind();
      sum = b.horizontal(
          sum, [&](Value lhs, Value rhs) { return combine(kind, lhs, rhs); });
    }
    sums = acrossThreads(reduces, sums, schedule.threads, lane);
    for (auto [reduce, sum] : llvm::zip_equal(reduces, sums))
      task.values[reduce] = sum;
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

//===----------------------------------------------------------------------===//
// Column
//===----------------------------------------------------------------------===//

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
                                                  Value x, Value y) {
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

DeviceLaunch DeviceGroupEmitter::emitColumn() {
  DeviceLaunch launch;
  int64_t threads = schedule.lanesX * schedule.lanesY;
  launch.block = {int32_t(threads), 1, 1};
  launch.grid = {int32_t(plan.taskPoints * schedule.columnBlocks),
                 int32_t(schedule.splits), 1};
  Value x = b.rem(thread, schedule.lanesX), y = b.div(thread, schedule.lanesX);
  if (schedule.lanesY == 1)
    x = thread;
  Value number = b.div(blockX, schedule.columnBlocks);
  Value columnBlock = b.rem(blockX, schedule.columnBlocks);
  setCoordinates(plan.taskDims, number);
  Value vector = b.add(b.mul(columnBlock, schedule.lanesX), x);
  Value active;
  if (schedule.vectors % schedule.lanesX != 0) {
    active = isLess(vector, schedule.vectors);
    vector = b.min(vector, b.i64(schedule.vectors - 1));
  }
  Value start = b.mul(vector, schedule.width);
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
  auto emitRows = [&](ArrayRef<ReduceOp> reduces, SmallVector<Value> inits,
                      bool store) {
    scf::ForOp rows = b.loop(b.add(first, y), last, schedule.lanesY, inits);
    task.anchor = column.anchor = rows;
    Operation *yield = rows.getBody()->getTerminator();
    b.setInsertionPoint(yield);
    setCoordinates(plan.loopDims, rows.getInductionVar());
    Scope row, inner;
    row.anchor = inner.anchor = yield;
    Point point{{&task, &column, &row, &inner}, start, {}};
    SmallVector<Value> next;
    for (auto [i, reduce] : llvm::enumerate(reduces)) {
      ReduceOp op = reduce;
      Value value = reduceInput(op, point, true);
      b.setInsertionPoint(yield);
      next.push_back(combine(op.getKind(), rows.getRegionIterArg(i), value));
    }
    if (!inits.empty())
      yield->setOperands(next);
    if (store)
      storeAlong(row, inner, yield);
    b.setInsertionPoint(end);
    task.anchor = column.anchor = end;
    return llvm::to_vector_of<Value>(rows.getResults());
  };

  for (auto &reduces : plan.phases) {
    SmallVector<Value> sums =
        emitRows(reduces, identities(reduces), anyAlong && early);
    sums = acrossRows(reduces, sums, x, y);
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
  Value x = b.rem(thread, schedule.lanesX), y = b.div(thread, schedule.lanesX);
  Value number = b.div(blockX, schedule.columnBlocks);
  Value columnBlock = b.rem(blockX, schedule.columnBlocks);
  setCoordinates(plan.taskDims, number);
  Value vector = b.add(b.mul(columnBlock, schedule.lanesX), x);
  Value active;
  if (schedule.vectors % schedule.lanesX != 0) {
    active = isLess(vector, schedule.vectors);
    vector = b.min(vector, b.i64(schedule.vectors - 1));
  }
  Value start = b.mul(vector, schedule.width);
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
      acrossRows(reduces, llvm::to_vector_of<Value>(parts.getResults()), x, y);
  Scope task, column;
  task.anchor = column.anchor = end;
  setColumnValues(reduces, sums, task, column);
  storeKept(task, column, start, x, y, columnBlock, active);
  return launch;
}

DeviceLaunch DeviceGroupEmitter::emit() {
  begin();
  switch (plan.schedule) {
  case Schedule::Map:
    return schedule.turnedDim >= 0 ? emitTurned() : emitMap();
  case Schedule::Row:
    return emitRow();
  case Schedule::Column:
    return emitColumn();
  }
  llvm_unreachable("covered switch");
}

DeviceLaunch DeviceGroupEmitter::emitCombine() {
  begin();
  return plan.schedule == Schedule::Row ? emitRowCombine()
                                        : emitColumnCombine();
}

namespace {
/// What a group must do at least, for profiles.
struct GroupWork {
  GroupWork(GroupOp group, const GroupPlan &plan,
            const DeviceSchedule &schedule);

  int64_t flops = 0;        ///< operations, once for each point they vary over
  int64_t read = 0;         ///< inputs, and what is looked up in tables
  int64_t writtenAlong = 0; ///< outputs along the reduced dims
  int64_t writtenReduced = 0; ///< the others
  int64_t partials = 0;       ///< of reductions that are cut
};
} // namespace

GroupWork::GroupWork(GroupOp group, const GroupPlan &plan,
                     const DeviceSchedule &schedule) {
  auto pointsOf = [&](Value value) {
    int64_t points = 1;
    for (auto [dim, extent] : llvm::enumerate(group.getDomain()))
      if (plan.varying.lookup(value) >> dim & 1)
        points *= extent;
    return points;
  };
  read = getOperandBytes(group.getInputs());
  SmallVector<int64_t> lookedUp(group.getTables().size());
  unsigned firstTable = group.getInputs().size();
  for (Operation &op : group.getBodyBlock()->without_terminator()) {
    Value result = op.getResult(0);
    if (auto reduce = dyn_cast<ReduceOp>(op)) {
      flops += pointsOf(reduce->getOperand(0));
      if (schedule.splits > 1)
        partials += schedule.splits * pointsOf(result) *
                    getElementBytes(result.getType());
    } else if (auto load = dyn_cast<LoadOp>(op)) {
      unsigned table =
          cast<BlockArgument>(load.getTable()).getArgNumber() - firstTable;
      lookedUp[table] +=
          pointsOf(result) *
          getElementBytes(getElementTypeOrSelf(load.getTable().getType()));
    } else if (op.getNumOperands() > 0 && isa<FloatType>(result.getType()) &&
               !isa<arith::ExtFOp, arith::TruncFOp, arith::SelectOp>(op)) {
      flops += pointsOf(result);
    }
  }
  for (auto [table, bytes] : llvm::zip_equal(group.getTables(), lookedUp))
    read += std::min(bytes, getOperandBytes(table));
  uint64_t reduced = 0;
  for (int64_t dim : group.getReduce())
    reduced |= uint64_t(1) << dim;
  for (auto [i, out] : llvm::enumerate(group.getOuts()))
    (group.getMentionedDims(group.getOutputMap(i)) & reduced
         ? writtenAlong
         : writtenReduced) += getOperandBytes(out);
}

LogicalResult blurt::emitGroup(GroupOp op, CudaHost &host) {
  GroupPlan plan = GroupPlan::compute(op);
  DeviceSchedule schedule =
      DeviceSchedule::get(op, plan, host.getWorkspaceBytes());
  SmallVector<int64_t> alignments;
  std::string key = getStructureKey(op);
  for (Value operand : op.getOperands()) {
    alignments.push_back(std::min<int64_t>(16, host.getAlignment(operand)));
    key += " " + std::to_string(alignments.back());
  }
  bool isSplit = schedule.splits > 1;
  unsigned numArguments = op.getNumOperands() + isSplit;
  GroupWork work(op, plan, schedule);
  auto emit = [&](StringRef part, StringRef name, int64_t bytes, int64_t flops,
                  DeviceLaunch (DeviceGroupEmitter::*make)()) {
    return host.getKernel(
        key + part.str(), name, op, numArguments, [&](StringRef symbol) {
          KernelBuilder builder(host.getKernels(), op.getLoc(), symbol,
                                numArguments, schedule.width);
          DeviceGroupEmitter emitter(op, builder, schedule, alignments);
          DeviceLaunch launch = (emitter.*make)();
          launch.bytes = bytes;
          launch.flops = flops;
          return launch;
        });
  };
  OpBuilder builder(op);
  SmallVector<Value> operands(op.getOperands());
  if (isSplit)
    operands.push_back(host.getWorkspace(builder, op.getLoc()));
  host.launch(builder, op.getLoc(),
              emit("", op.getKernel(),
                   work.read + work.writtenAlong +
                       (isSplit ? work.partials : work.writtenReduced),
                   work.flops, &DeviceGroupEmitter::emit),
              operands);
  if (isSplit)
    host.launch(builder, op.getLoc(),
                emit("combine", (op.getKernel() + "_combine").str(),
                     work.partials + work.writtenReduced, 0,
                     &DeviceGroupEmitter::emitCombine),
                operands);
  return success();
}
