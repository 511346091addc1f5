//===- SplitProductKernel.cpp - products of pieces by wgmma ---*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Blocks walk tiles of 128 × 192. One thread of the first warpgroup copies
// slices of the planes, 32 deep, to a ring of stages; each of the two others
// multiplies 64 rows of A. Tensor cores round their sums towards zero, so
// sums of 64 deep (32 in the format of six products) are added to others in
// registers; within them small products come first. Partial products stay
// scaled, so that none overflows.
//
// A warp that finds a sum which is no finite number computes its rows anew from
// the operands, in f32, and takes what that gives in the place of such sums.
//
//===----------------------------------------------------------------------===//

#include "SplitKernels.h"
#include "WarpgroupMma.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blurt;
using blutrain::SplitOperand;
using blutrain::SplitProduct;

namespace {
constexpr int32_t kThreads = 384, kConsumers = 2;
constexpr auto kRows = int32_t(SplitProduct::kTileRows);
constexpr auto kColumns = int32_t(SplitProduct::kTileColumns);
constexpr int32_t kSlice = 32;             ///< depth of a stage
constexpr int32_t kLineBytes = 2 * kSlice; ///< of a row of a stage's tile
constexpr int32_t kRowsPerGroup = 64;
/// Registers of a thread, together no more than the block begins with: 168 for
/// each. Two sets of 96 sums take most of a consumer's.
constexpr int32_t kProducerRegisters = 40, kConsumerRegisters = 232;
/// Columns of eight that are finished at a time.
constexpr int32_t kGroupTiles = 4;
/// Rows of tiles that are walked before the next columns, for the cache.
constexpr int64_t kSupertile = 8;

class ProductEmitter {
public:
  ProductEmitter(const SplitEmission &emission, SplitFormat format)
      : shape(emission.shape), p(shape.product), format(format),
        planes(getNumPlanes(format)), bytesA(planes * kRows * kLineBytes),
        bytesB(planes * kColumns * kLineBytes), stageBytes(bytesA + bytesB),
        stages(format == SplitFormat::Half ? 5 : 3),
        b(emission.module, emission.loc, emission.name, hasBias() ? 10 : 9,
          {7, 8}, kThreads, 1, 2),
        mma(b, DeviceCompute::BF16) {}

  DeviceLaunch emit();

private:
  /// Operands of the kernel.
  enum Operand : unsigned {
    PlanesA,
    PlanesB,
    A,
    B,
    ScalesA,
    ScalesB,
    Flag,
    Counters,
    Out,
    Bias
  };
  bool hasBias() const { return shape.hasBias && shape.product.parts == 1; }
  bool accumulates() const {
    return shape.accumulates && shape.product.parts == 1;
  }

  /// Which tile of which part of the depth.
  struct Tile {
    Value entry, row, column, firstSlice, slices, part;
  };
  Tile getTile(Value index);
  /// Where in the ring a thread is.
  struct Place {
    Value stage, parity;
  };
  Place next(const Place &place);
  Value full(Value stage) { return barrier(stage, 0); }
  Value empty(Value stage) { return barrier(stage, 1); }
  Value barrier(Value stage, int32_t kind) {
    Value at = b.advance(b.shared(), b.shiftLeft(stage, 3));
    return b.advance(at, stages * stageBytes + kind * 8 * stages);
  }
  DeviceMap map(unsigned operand, const SplitOperand &o, int64_t rows);
  void startCopy(unsigned index, const SplitOperand &o, Value shared,
                 const Tile &tile, Value row, Value slice, Value barrier);

  using Values = SmallVector<Value>;
  void produce(Value index, Value count);
  void consume(Value index, Value count);
  using Steps = std::vector<WarpgroupMma::Step>;
  /// Of a slice: those of high pieces, or all others, smallest first.
  Steps getSteps(bool high);
  /// Sums up the products of a tile.
  Values multiply(const Tile &tile, Place &place);
  /// What belongs to a tile in this lane: two rows, and pairs of columns.
  struct Lane {
    Value rows[2], column;
  };
  Lane getLane(const Tile &tile);
  /// Checks, scales and stores the sums of a tile. What follows is of the
  /// columns of eight from number `first` on.
  void finish(const Values &sums, Tile tile);
  /// Puts what FMAs give in the place of values that are not finite.
  Values recompute(const Values &sums, const Tile &tile, const Lane &lane,
                   int32_t first);
  /// Undoes the scales, and adds the bias.
  void scale(Values &sums, const Tile &tile, const Lane &lane, int32_t first);
  void store(const Values &sums, const Tile &tile, const Lane &lane,
             int32_t firstTile);

  const SplitShape &shape;
  const SplitProduct &p;
  SplitFormat format;
  int32_t planes, bytesA, bytesB, stageBytes, stages;
  DeviceBuilder b;
  WarpgroupMma mma;
  Value group, warp, lane; ///< warpgroup of consumers, warp in it
};
} // namespace

ProductEmitter::Tile ProductEmitter::getTile(Value index) {
  int64_t rows = llvm::divideCeil(p.m, kRows);
  int64_t columns = llvm::divideCeil(p.n, kColumns);
  Tile tile;
  // Tiles of a part of the depth of an entry, parts, entries.
  Value outer = b.div(index, rows * columns);
  Value inner = b.sub(index, b.mul(outer, rows * columns));
  tile.entry = b.div(outer, p.parts);
  tile.part = b.sub(outer, b.mul(tile.entry, p.parts));
  Value band = b.div(inner, kSupertile * columns);
  Value first = b.mul(band, kSupertile);
  Value within = b.sub(inner, b.mul(band, kSupertile * columns));
  // The last band may be lower. Division by what is known takes few registers.
  int64_t last = rows % kSupertile;
  Value column = b.div(within, kSupertile), height = b.i32(kSupertile);
  if (last != 0) {
    Value isLast = b.equal(band, rows / kSupertile);
    column = b.select(isLast, b.div(within, last), column);
    height = b.select(isLast, b.i32(last), height);
  }
  Value row = b.add(first, b.sub(within, b.mul(column, height)));
  tile.row = b.mul(row, kRows);
  tile.column = b.mul(column, kColumns);
  int64_t slices = llvm::divideCeil(p.k, kSlice);
  tile.firstSlice = b.mul(tile.part, p.partDepth / kSlice);
  tile.slices = b.min(b.sub(slices, tile.firstSlice), p.partDepth / kSlice);
  // Slices go in pairs; what is beyond the depth is zeros.
  tile.slices = b.mul(b.div(b.add(tile.slices, 1), 2), 2);
  return tile;
}

ProductEmitter::Place ProductEmitter::next(const Place &place) {
  Value stage = b.add(place.stage, 1);
  Value wraps = b.equal(stage, stages);
  return {b.select(wraps, b.i32(0), stage),
          b.select(wraps, b.bitXor(place.parity, 1), place.parity)};
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

DeviceMap ProductEmitter::map(unsigned operand, const SplitOperand &o,
                              int64_t rows) {
  DeviceMap map;
  map.operand = operand;
  map.element = b.getBF16Type(); // any of 16 bits
  if (o.along) {
    map.extents = {o.depth, o.rows, planes * o.batch};
    map.strides = {2, 2 * o.pitch(), o.planeBytes()};
    map.box = {kSlice, rows, planes};
    map.swizzle = kLineBytes;
  } else {
    map.extents = {64, o.depth, o.pitch() / 64, planes * o.batch};
    map.strides = {2, 2 * o.pitch(), 128, o.planeBytes()};
    map.box = {64, kSlice, rows / 64, planes};
  }
  return map;
}

void ProductEmitter::startCopy(unsigned index, const SplitOperand &o,
                               Value shared, const Tile &tile, Value row,
                               Value slice, Value barrier) {
  Value depth = b.mul(slice, kSlice);
  Value plane = o.batch == 1 ? b.i32(0) : b.mul(tile.entry, planes);
  if (o.along)
    startBox(b, shared, b.map(index), {depth, row, plane}, barrier);
  else
    startBox(b, shared, b.map(index), {b.i32(0), depth, b.div(row, 64), plane},
             barrier);
}

void ProductEmitter::produce(Value index, Value count) {
  int32_t grid = int32_t(std::min(p.tiles() * p.parts, p.kProcessors));
  b.loop(index, count, grid, {b.i32(0), b.i32(0)},
         [&](Value index, ValueRange carried) {
           Tile tile = getTile(index);
           return b.loop(
               b.i32(0), tile.slices, 1, carried,
               [&](Value slice, ValueRange carried) {
                 Place place{carried[0], carried[1]};
                 waitBarrier(b, empty(place.stage), b.bitXor(place.parity, 1));
                 Value barrier = full(place.stage);
                 announce(b, barrier, stageBytes);
                 Value to =
                     b.advance(b.shared(), b.mul(place.stage, stageBytes));
                 Value at = b.add(tile.firstSlice, slice);
                 startCopy(0, p.a, to, tile, tile.row, at, barrier);
                 startCopy(1, p.b, b.advance(to, bytesA), tile, tile.column, at,
                           barrier);
                 place = next(place);
                 return Values{place.stage, place.parity};
               });
         });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

ProductEmitter::Steps ProductEmitter::getSteps(bool high) {
  Steps steps;
  auto deep = [&](const SplitOperand &o, int32_t i) {
    return o.along ? i * 32 : i * 16 * 128;
  };
  auto add = [&](int32_t planeA, int32_t planeB) {
    for (int32_t i : {0, 1})
      steps.push_back({planeA * kRows * kLineBytes + deep(p.a, i),
                       planeB * kColumns * kLineBytes + deep(p.b, i)});
  };
  if (high)
    add(0, 0);
  for (int32_t sum = planes - 1; sum > 0 && !high; --sum)
    for (int32_t planeA = sum; planeA >= 0; --planeA)
      add(planeA, sum - planeA);
  return steps;
}

ProductEmitter::Values ProductEmitter::multiply(const Tile &tile,
                                                Place &place) {
  WarpgroupMma::Pieces pieces{kColumns,
                              format == SplitFormat::Half ? "f16" : "bf16",
                              !p.a.along, !p.b.along};
  // Both a row of 64 bytes and a block of 64 rows make 4096 bytes of 64 rows.
  Value tileA = b.advance(b.shared(), b.mul(group, kRowsPerGroup * kLineBytes));
  Value descriptorA = mma.describePieces(tileA, pieces.acrossA);
  Value descriptorB =
      mma.describePieces(b.advance(b.shared(), bytesA), pieces.acrossB);
  int32_t perSum = format == SplitFormat::Half ? 2 : 1;
  Values carried(kColumns / 2, b.f32(0));
  carried.push_back(place.stage);
  carried.push_back(place.parity);
  carried = b.loop(
      b.i32(0), tile.slices, perSum, carried, [&](Value, ValueRange values) {
        Place at{values[values.size() - 2], values.back()};
        Values sum;
        SmallVector<Value> used;
        // As soon as a slice is there its small products start, and behind
        // those of the last one the large ones of all.
        std::vector<std::pair<Value, Value>> tiles;
        for (int32_t i = 0; i != perSum; ++i) {
          waitBarrier(b, full(at.stage), at.parity);
          Value offset = b.mul(at.stage, stageBytes);
          tiles.emplace_back(mma.advance(descriptorA, offset),
                             mma.advance(descriptorB, offset));
          Steps steps = getSteps(/*high=*/false);
          for (WarpgroupMma::Step &step : steps)
            step.tile = i;
          if (i + 1 == perSum)
            for (int32_t t = 0; t != perSum; ++t)
              for (WarpgroupMma::Step step : getSteps(/*high=*/true)) {
                step.tile = t;
                steps.push_back(step);
              }
          sum = mma.startPieces(pieces, steps, tiles, sum);
          used.push_back(at.stage);
          at = next(at);
        }
        sum = mma.wait(0, sum);
        for (Value stage : used)
          b.branch(b.equal(lane, 0), [&] { arrive(b, empty(stage)); });
        for (auto [i, value] : llvm::enumerate(sum))
          value = b.addF(values[i], value);
        sum.push_back(at.stage);
        sum.push_back(at.parity);
        return sum;
      });
  place = {carried[carried.size() - 2], carried.back()};
  carried.pop_back_n(2);
  return carried;
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

ProductEmitter::Lane ProductEmitter::getLane(const Tile &tile) {
  Value id = refresh(b, lane);
  Value row = b.add(b.mul(group, kRowsPerGroup), b.mul(warp, 16));
  row = b.add(tile.row, b.add(row, b.div(id, 4)));
  return {{row, b.add(row, 8)}, b.add(tile.column, b.mul(b.rem(id, 4), 2))};
}

void ProductEmitter::scale(Values &sums, const Tile &tile, const Lane &lane,
                           int32_t first) {
  auto base = [&](unsigned operand, const SplitOperand &o) {
    Value at = b.advance(b.operand(operand), 8 * o.batch * o.scalePitch());
    return o.batch == 1
               ? at
               : b.advance(at, b.wideOffset(tile.entry, 8 * o.scalePitch()));
  };
  auto pair = VectorType::get({2}, b.getF32Type());
  Value scalesA = base(ScalesA, p.a), scalesB = base(ScalesB, p.b);
  Value rows[2];
  for (int32_t h : {0, 1}) {
    Value row = b.min(lane.rows[h], p.m - 1);
    rows[h] = b.load(pair, b.advance(scalesA, b.wideOffset(row, 8)), 8);
  }
  for (int32_t n = 0; n != kGroupTiles; ++n) {
    Value column = b.add(lane.column, (first + n) * 8);
    column = b.min(column, llvm::alignTo(p.n, 2) - 2);
    Values columns = b.loadF32x4(b.advance(scalesB, b.wideOffset(column, 8)));
    for (int32_t e = 0; e != 4; ++e)
      sums[4 * n + e] = unscale(b, sums[4 * n + e], rows[e / 2],
                                ArrayRef(columns).slice(2 * (e % 2), 2));
  }
  if (!hasBias())
    return;
  for (int32_t n = 0; n != kGroupTiles; ++n)
    for (int32_t e : {0, 1}) {
      Value column = b.add(lane.column, Fragment::column(first + n, e));
      Value from =
          b.advance(b.operand(Bias), b.wideOffset(b.min(column, p.n - 1), 4));
      Value term = b.load(b.getF32Type(), from, 4);
      for (int32_t h : {0, 1}) {
        Value &value = sums[4 * n + 2 * h + e];
        value = b.addF(value, term);
      }
    }
}

static Value isFinite(DeviceBuilder &b, Value value) {
  return arith::CmpFOp::create(b, arith::CmpFPredicate::OLT,
                               LLVM::FAbsOp::create(b, value), b.f32(HUGE_VAL));
}

ProductEmitter::Values ProductEmitter::recompute(const Values &sums,
                                                 const Tile &tile,
                                                 const Lane &lane,
                                                 int32_t first) {
  auto at = [&](unsigned operand, const SplitSource &source) {
    Value base = b.operand(operand);
    return source.operand.batch == 1
               ? base
               : b.advance(base, b.wideOffset(tile.entry, 4 * source.stride));
  };
  // Bytes from one row, and from one element of the depth, to the next.
  auto perRow = [](const SplitSource &s) {
    return s.operand.along ? 4 * s.ld : 4;
  };
  auto perDepth = [](const SplitSource &s) {
    return s.operand.along ? 4 : 4 * s.ld;
  };
  Value baseA = at(A, shape.a), baseB = at(B, shape.b);
  Value rows[2];
  for (int32_t h : {0, 1})
    rows[h] = b.wideOffset(b.min(lane.rows[h], p.m - 1), perRow(shape.a));
  Value begin = b.mul(tile.part, p.partDepth);
  Value end = b.min(b.add(begin, p.partDepth), p.k);
  Values zeros(sums.size(), b.f32(0));
  Values anew =
      b.loop(begin, end, 1, zeros, [&](Value depth, ValueRange carried) {
        Values next(carried);
        Value fromA = b.advance(baseA, b.wideOffset(depth, perDepth(shape.a)));
        Value fromB = b.advance(baseB, b.wideOffset(depth, perDepth(shape.b)));
        Value left[2];
        for (int32_t h : {0, 1})
          left[h] = b.load(b.getF32Type(), b.advance(fromA, rows[h]), 4);
        for (int32_t n = 0; n != kGroupTiles; ++n)
          for (int32_t e : {0, 1}) {
            Value column = b.add(lane.column, Fragment::column(first + n, e));
            Value offset =
                b.wideOffset(b.min(column, p.n - 1), perRow(shape.b));
            Value right = b.load(b.getF32Type(), b.advance(fromB, offset), 4);
            for (int32_t h : {0, 1}) {
              Value &value = next[4 * n + 2 * h + e];
              value = b.fma(left[h], right, value);
            }
          }
        return next;
      });
  for (auto [value, sum] : llvm::zip_equal(anew, sums))
    value = b.select(isFinite(b, sum), sum, value);
  return anew;
}

void ProductEmitter::store(const Values &sums, const Tile &tile,
                           const Lane &lane, int32_t firstTile) {
  bool isPart = p.parts > 1;
  int64_t ld = isPart ? p.n : shape.ldc;
  Value out = b.operand(Out);
  if (isPart)
    out = b.advance(out, b.wideOffset(tile.part, 4 * p.m * p.n));
  else if (p.batch > 1)
    out = b.advance(out, b.wideOffset(tile.entry, 4 * shape.strideC));
  bool inPairs =
      p.n % 2 == 0 && ld % 2 == 0 && (isPart || shape.alignmentC >= 8);
  Type f32 = b.getF32Type();
  auto pair = VectorType::get({2}, f32);
  for (int32_t n = 0; n != kGroupTiles; ++n) {
    Value column = b.add(lane.column, (firstTile + n) * 8);
    for (int32_t h : {0, 1}) {
      Value to = b.advance(out, b.wideOffset(lane.rows[h], 4 * ld));
      to = b.advance(to, b.wideOffset(column, 4));
      Value inside = b.lessThan(lane.rows[h], p.m);
      Value first = sums[4 * n + 2 * h], second = sums[4 * n + 2 * h + 1];
      if (inPairs) {
        b.branch(b.bitAnd(inside, b.lessThan(column, p.n)), [&] {
          if (accumulates()) {
            Value old = b.load(pair, to, 8);
            first = b.addF(first, b.element(old, 0));
            second = b.addF(second, b.element(old, 1));
          }
          b.store(b.makeVector({first, second}), to, 8);
        });
        continue;
      }
      for (int32_t e : {0, 1})
        b.branch(b.bitAnd(inside, b.lessThan(b.add(column, e), p.n)), [&] {
          Value value = e == 0 ? first : second;
          Value place = b.advance(to, 4 * e);
          if (accumulates())
            value = b.addF(value, b.load(f32, place, 4));
          b.store(value, place, 4);
        });
    }
  }
}

void ProductEmitter::finish(const Values &sums, Tile tile) {
  // Operands that are finite have finite sums, scaled as they are.
  Value good;
  for (Value value : sums)
    good = good ? b.bitAnd(good, isFinite(b, value)) : isFinite(b, value);
  Value anew = anyLane(b, b.bitXor(good, 1));
  b.branch(b.bitAnd(anew, b.equal(lane, 0)), [&] {
    LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add,
                              b.advance(b.operand(Counters), 8), b.i64(16),
                              LLVM::AtomicOrdering::monotonic);
  });
  // A few columns at a time, and nothing kept from one time to the next: what
  // all addresses take would not fit in registers.
  for (Value *value : {&tile.row, &tile.column})
    *value = refresh(b, *value);
  for (int32_t first = 0; first != kColumns / 8; first += kGroupTiles) {
    Lane at = getLane(tile);
    Values some(ArrayRef(sums).slice(4 * first, 4 * kGroupTiles));
    some =
        b.branch(anew, some, [&] { return recompute(some, tile, at, first); });
    if (p.parts == 1)
      scale(some, tile, at, first);
    store(some, tile, at, first);
  }
}

void ProductEmitter::consume(Value index, Value count) {
  int32_t grid = int32_t(std::min(p.tiles() * p.parts, p.kProcessors));
  b.loop(index, count, grid, {b.i32(0), b.i32(0)},
         [&](Value index, ValueRange carried) {
           Place place{carried[0], carried[1]};
           Tile tile = getTile(index);
           finish(multiply(tile, place), tile);
           return Values{place.stage, place.parity};
         });
}

DeviceLaunch ProductEmitter::emit() {
  int64_t count = p.tiles() * p.parts;
  Value flag = b.load(b.getI32Type(), b.operand(Flag), 4);
  bool isHalf = format == SplitFormat::Half;
  auto all = [&] {
    Value thread = b.threadId(), block = b.blockId(0);
    Value isFirst = b.equal(thread, 0);
    b.branch(isFirst, [&] {
      for (int32_t s = 0; s != stages; ++s) {
        initBarrier(b, full(b.i32(s)), 1);
        initBarrier(b, empty(b.i32(s)), 4 * kConsumers);
      }
      publishBarriers(b);
    });
    if (!isHalf && !p.alwaysBfloat())
      b.branch(b.equal(b.add(thread, block), 0), [&] {
        LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add,
                                  b.operand(Counters), b.i64(1),
                                  LLVM::AtomicOrdering::monotonic);
      });
    b.barrier();
    Value warpgroup = uniform(b, b.div(thread, 128));
    auto op = scf::IfOp::create(b, b.equal(warpgroup, 0),
                                /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(op.thenBlock());
    lowerRegisters(b, kProducerRegisters);
    b.branch(isFirst, [&] { produce(block, b.i32(count)); });
    b.setInsertionPointToStart(op.elseBlock());
    raiseRegisters(b, kConsumerRegisters);
    group = b.add(warpgroup, -1);
    warp = uniform(b, b.rem(b.div(thread, 32), 4));
    lane = b.rem(thread, 32);
    consume(block, b.i32(count));
  };
  if (p.alwaysBfloat())
    all();
  else
    b.branch(b.equal(flag, isHalf ? 0 : 1), all);
  DeviceLaunch launch;
  launch.grid[0] = int32_t(std::min(count, p.kProcessors));
  launch.block = {kThreads, 1, 1};
  launch.sharedBytes = stages * stageBytes + 16 * stages;
  launch.maps = {map(PlanesA, p.a, kRows), map(PlanesB, p.b, kColumns)};
  if (isHalf || p.alwaysBfloat()) {
    launch.flops = 2 * p.batch * p.m * p.n * p.k;
    launch.bytes = 2 * planes *
                       (p.a.batch * p.a.rows * p.a.depth +
                        p.b.batch * p.b.rows * p.b.depth) +
                   4 * p.parts * p.batch * p.m * p.n;
  }
  return launch;
}

DeviceLaunch blurt::emitSplitProduct(const SplitEmission &emission,
                                     SplitFormat format) {
  return ProductEmitter(emission, format).emit();
}
