//===- AttentionHopper.cpp - attention by wgmma ---------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "AttentionHopper.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blurt;

static constexpr double kInf = std::numeric_limits<double>::infinity();

//===----------------------------------------------------------------------===//
// What the kernels share
//===----------------------------------------------------------------------===//

HopperBlock::HopperBlock(DeviceBuilder &b, const AttentionEmission &emission)
    : b(b), shape(emission.shape), tiles(emission.tiles), block(b, shape, {}),
      lanes(b, shape.compute, block.thread), mma(b, shape.compute),
      groups(tiles.warps / 4), factor(shape.scale * M_LOG2E) {
  lanes.warp = uniform(b, lanes.warp);
}

void HopperBlock::storeRows(const Values &fragment, Value tile, Value operand,
                            const RowStrides &strides, Value head, Value first,
                            int64_t limit) {
  TileLayout rows = TileLayout::get(kRows * groups, layout(1).rowBytes);
  Value warpRow = b.mul(lanes.warp, 16);
  Fragment all(1, shape.depth / 8, fragment);
  lanes.store(all, lanes.cursorPairs(rows, warpRow), tile);
  b.warpBarrier();
  storeTileRows(b, rows, tile, warpRow, 16, block.rows(strides),
                block.base(operand, strides, head), b.add(first, warpRow),
                b.i32(limit), lanes.lane);
}

void HopperBlock::release(Value barrier) {
  b.branch(b.equal(lanes.lane, 0), [&] { arrive(b, barrier); });
}

void HopperBlock::exponentials(
    Values &scores, llvm::function_ref<Value(int32_t column, int32_t e)> shift,
    llvm::function_ref<Value(int32_t column, int32_t e)> sees) {
  for (auto [i, value] : llvm::enumerate(scores)) {
    auto e = int32_t(i % 4), column = Fragment::column(int32_t(i / 4), e);
    value = b.exp2Approx(b.fma(value, b.f32(factor), shift(column, e)));
    if (sees)
      value = b.select(sees(column, e), value, b.f32(0));
  }
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

HopperSoftmax::HopperSoftmax(HopperBlock &t, Value first)
    : t(t), b(t.b),
      // The maximum of scores times a negative scale is not theirs.
      scaleFirst(!(t.shape.scale > 0)),
      factor(scaleFirst ? M_LOG2E : t.factor) {
  for (int32_t h : {0, 1})
    lastKeys.push_back(t.block.lastKey(t.row(first, h)));
}

HopperSoftmax::State HopperSoftmax::begin() {
  return {t.zeros().values, Values(2, b.f32(-kInf)), Values(2, b.f32(0))};
}

HopperSoftmax::Values HopperSoftmax::pack(const State &state) {
  Values values = state.out;
  llvm::append_range(values, state.maxima);
  llvm::append_range(values, state.sums);
  return values;
}

HopperSoftmax::State HopperSoftmax::unpack(ValueRange values) {
  return {llvm::to_vector(values.drop_back(4)),
          llvm::to_vector(values.take_back(4).drop_back(2)),
          llvm::to_vector(values.take_back(2))};
}

void HopperSoftmax::add(State &state, Values &scores, Value firstKey,
                        bool masked) {
  if (scaleFirst)
    for (Value &value : scores)
      value = b.mulF(value, b.f32(t.shape.scale));
  Value origin = b.add(firstKey, t.lanes.column);
  Value maxima[2], growth;
  for (int32_t h : {0, 1}) {
    Value last = masked ? b.sub(lastKeys[h], origin) : Value();
    Values most;
    for (int32_t n = 0, i = 0; n != int32_t(scores.size() / 4); ++n)
      for (int32_t e : {2 * h, 2 * h + 1}) {
        Value &value = scores[4 * n + e];
        if (masked)
          value = b.select(b.lessThan(last, Fragment::column(n, e)),
                           b.f32(-kInf), value);
        if (i < 4)
          most.push_back(value);
        else
          most[i % 4] = b.maxF(most[i % 4], value);
        ++i;
      }
    Value max = b.maxF(b.maxF(most[0], most[1]), b.maxF(most[2], most[3]));
    max = b.maxF(max, b.shuffleXor(max, 1));
    max = b.maxF(max, b.shuffleXor(max, 2));
    maxima[h] = b.maxF(state.maxima[h], max);
    Value grown = b.subF(maxima[h], state.maxima[h]);
    growth = growth ? b.maxF(growth, grown) : grown;
  }
  // A row that has seen nothing yet keeps exponentials of 0.
  auto shiftOf = [&](Value max) {
    return masked ? b.select(b.equalF(max, b.f32(-kInf)), b.f32(0), max) : max;
  };
  constexpr double kGrowth = 8;
  Value grows = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, growth,
                                      b.f32(kGrowth / factor));
  Values kept = pack(state);
  state = unpack(b.branch(anyLane(b, grows), kept, [&] {
    State scaled = state;
    for (int32_t h : {0, 1}) {
      Value correction = b.exp2Approx(
          b.mulF(b.subF(state.maxima[h], shiftOf(maxima[h])), b.f32(factor)));
      for (size_t n = 0; n != scaled.out.size() / 4; ++n)
        for (int32_t e : {2 * h, 2 * h + 1})
          scaled.out[4 * n + e] = b.mulF(scaled.out[4 * n + e], correction);
      scaled.sums[h] = b.mulF(state.sums[h], correction);
      scaled.maxima[h] = maxima[h];
    }
    return pack(scaled);
  }));
  Value negated[2], sums[2][2];
  for (int32_t h : {0, 1})
    negated[h] = b.mulF(shiftOf(state.maxima[h]), b.f32(-factor));
  for (auto [i, value] : llvm::enumerate(scores)) {
    size_t h = i % 4 / 2;
    value = b.exp2Approx(b.fma(value, b.f32(factor), negated[h]));
    Value &sum = sums[h][i % 2];
    sum = sum ? b.addF(sum, value) : value;
  }
  for (int32_t h : {0, 1})
    state.sums[h] = b.addF(state.sums[h], b.addF(sums[h][0], sums[h][1]));
}

void HopperSoftmax::finish(State &state, Value first, Value lse) {
  for (int32_t h : {0, 1}) {
    Value sum = state.sums[h];
    sum = b.addF(sum, b.shuffleXor(sum, 1));
    sum = b.addF(sum, b.shuffleXor(sum, 2));
    // Written so that a NaN sum is not taken for an empty row.
    Value inverse =
        b.select(b.equalF(sum, b.f32(0)), b.f32(0), b.divF(b.f32(1), sum));
    for (size_t n = 0; n != state.out.size() / 4; ++n)
      for (int32_t e : {2 * h, 2 * h + 1})
        state.out[4 * n + e] = b.mulF(state.out[4 * n + e], inverse);
    Value row = t.row(first, h);
    Value writes =
        b.bitAnd(b.equal(t.lanes.column, 0), b.lessThan(row, t.shape.queries));
    b.branch(writes, [&] {
      Value logarithm =
          b.fma(state.maxima[h], b.f32(factor), b.log2Approx(sum));
      b.store(b.mulF(logarithm, b.f32(M_LN2)),
              b.advance(lse, b.wideOffset(row, 4)), 4);
    });
  }
}

//===----------------------------------------------------------------------===//
// Tiles by tensor maps
//===----------------------------------------------------------------------===//
//
// One thread of the block starts copies of tiles into stages. A stage's part is
// full when its bytes are there, and empty when every warp is done with it.

namespace {
struct MappedTiles {
  MappedTiles(HopperBlock &t, int32_t parts, int32_t partBytes,
              int32_t scalarBytes, Value first)
      : t(t), b(t.b), stages(t.tiles.stages), parts(parts),
        partBytes(partBytes),
        stageBytes(llvm::alignTo(parts * partBytes + scalarBytes, 1024)),
        base(first), barriers(b.advance(first, stages * stageBytes)),
        leads(b.equal(t.block.thread, 0)) {}

  int32_t bytes() const {
    return stages * stageBytes + 8 * (1 + (parts + 1) * stages);
  }
  Value stage(Value sequence) { return b.rem(sequence, stages); }
  Value parity(Value sequence) { return b.rem(b.div(sequence, stages), 2); }
  /// Bytes from the first stage to `stage`.
  Value offset(Value stage) { return b.mul(stage, stageBytes); }
  Value part(Value stage, int32_t i) {
    return b.advance(b.advance(base, offset(stage)), i * partBytes);
  }
  Value rowsBarrier() { return barriers; }
  Value full(Value stage, int32_t part) { return barrier(stage, part); }
  Value empty(Value stage) { return barrier(stage, parts); }

  /// Makes the barriers, starts the copies of `rows` that the block keeps, and
  /// those of the first tiles of `count`.
  void begin(Value count, llvm::function_ref<void()> rows,
             llvm::function_ref<void(Value sequence, Value stage)> start) {
    b.branch(leads, [&] {
      initBarrier(b, rowsBarrier(), 1);
      for (int32_t s = 0; s != stages; ++s) {
        for (int32_t i = 0; i != parts; ++i)
          initBarrier(b, full(b.i32(s), i), 1);
        initBarrier(b, empty(b.i32(s)), t.tiles.warps);
      }
      publishBarriers(b);
    });
    b.barrier();
    b.branch(leads, [&] {
      rows();
      for (int32_t s = 0; s != stages; ++s)
        b.branch(b.lessThan(b.i32(s), count),
                 [&] { start(b.i32(s), b.i32(s)); });
    });
  }
  /// Starts the copy into the stage of the tile before `sequence`, once all
  /// warps are done with that.
  void refill(Value sequence, Value count,
              llvm::function_ref<void(Value sequence, Value stage)> start) {
    Value next = b.add(sequence, stages - 1);
    Value wanted = b.bitAnd(leads, b.lessThan(next, count));
    wanted = b.bitAnd(wanted, b.lessThan(b.i32(0), sequence));
    b.branch(wanted, [&] {
      Value before = b.add(sequence, -1);
      Value place = stage(before);
      waitBarrier(b, empty(place), parity(before));
      start(next, place);
    });
    b.warpBarrier();
  }
  /// Announces and starts the copy of the rows from `first` on.
  void startRows(Value tile, unsigned map, Value first, Value head,
                 Value barrier) {
    SlabLayout layout = t.layout(HopperBlock::kRows);
    for (int32_t s = 0; s != layout.slabs(); ++s)
      startBox(b, b.advance(tile, s * layout.slabBytes()), b.map(map),
               {b.i32(s * 128 / t.elementBytes()), head, first, t.block.entry},
               barrier);
  }

  HopperBlock &t;
  DeviceBuilder &b;
  int32_t stages, parts, partBytes, stageBytes;
  Value base, barriers, leads;

private:
  Value barrier(Value stage, int32_t group) {
    return b.advance(b.advance(barriers, b.shiftLeft(stage, 3)),
                     8 + 8 * group * stages);
  }
};
} // namespace

/// Rows of operand `operand` in boxes of 64 rows of one slab.
static DeviceMap mapRows(const AttentionShape &shape, unsigned operand,
                         const RowStrides &strides, int64_t rows,
                         int64_t heads) {
  int64_t bytes = shape.element.isBF16() ? 2 : 4;
  DeviceMap map;
  map.operand = operand;
  map.element = shape.element;
  map.extents = {shape.depth, heads, rows, shape.batch};
  map.strides = {bytes, strides[2] * bytes, strides[1] * bytes,
                 strides[0] * bytes};
  map.box = {128 / bytes, 1, HopperBlock::kRows, 1};
  return map;
}

/// All of lse or delta in boxes of a tile's values.
static DeviceMap mapScalars(DeviceBuilder &b, const AttentionShape &shape,
                            unsigned operand) {
  DeviceMap map;
  map.operand = operand;
  map.element = b.getF32Type();
  map.extents = {shape.batch * shape.heads * shape.queries};
  map.strides = {4};
  map.box = {HopperBlock::kRows};
  map.swizzle = 0;
  return map;
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

DeviceLaunch blurt::emitForwardOnHopper(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 5, {3, 4},
                  32 * emission.tiles.warps, emission.tiles.minBlocks, 3);
  HopperBlock t(b, emission);
  AttentionBlock &block = t.block;
  constexpr int32_t kRows = HopperBlock::kRows;
  SlabLayout tile = t.layout(kRows);

  int32_t rows = kRows * t.groups;
  auto blocks = int32_t(llvm::divideCeil(shape.queries, rows));
  // The last tiles see most keys under a causal mask: start with them.
  Value first = b.mul(b.sub(blocks - 1, b.blockId(0)), rows);
  Value keyHead = b.div(block.headBlock, shape.heads / shape.keyHeads);
  AttentionBlock::Tiles range = block.keyTiles(first, rows, kRows);

  // Shared memory: q, stages of k and v, barriers.
  Value qTile = b.shared();
  int32_t qBytes = t.groups * tile.bytes();
  MappedTiles stages(t, 2, tile.bytes(), 0, b.advance(qTile, qBytes));
  auto start = [&](Value sequence, Value stage) {
    for (int32_t part : {0, 1}) {
      announce(b, stages.full(stage, part), tile.bytes());
      stages.startRows(stages.part(stage, part), part + 1,
                       b.mul(sequence, kRows), keyHead,
                       stages.full(stage, part));
    }
  };
  stages.begin(
      range.end,
      [&] {
        announce(b, stages.rowsBarrier(), qBytes);
        for (int32_t g = 0; g != t.groups; ++g)
          stages.startRows(b.advance(qTile, g * tile.bytes()), 0,
                           b.add(first, g * kRows), block.headBlock,
                           stages.rowsBarrier());
      },
      start);

  HopperSoftmax softmax(t, first);
  Value group = b.div(t.lanes.warp, 4);
  Value q =
      t.mma.advance(t.mma.describe(qTile, tile), b.mul(group, tile.bytes()));
  Value zero = b.i32(0);
  Value k = t.mma.describe(stages.part(zero, 0), tile);
  Value v = t.mma.describe(stages.part(zero, 1), tile, /*across=*/true);
  Value groupLast =
      block.lastKey(b.add(b.add(first, b.mul(group, kRows)), kRows - 1));
  waitBarrier(b, stages.rowsBarrier(), zero);

  auto body = [&](Value index, bool masked, ValueRange carried) {
    Value stage = stages.stage(index), parity = stages.parity(index);
    // Of several warpgroups, some may see no key of the last tiles.
    bool passes = masked && t.groups > 1;
    auto refill = [&] { stages.refill(index, range.end, start); };
    auto compute = [&] {
      waitBarrier(b, stages.full(stage, 0), parity);
      auto s = t.mma.startProduct(q, tile,
                                  t.mma.advance(k, stages.offset(stage)), tile);
      if (!passes)
        refill();
      s = t.mma.wait(0, s);
      HopperSoftmax::State state = softmax.unpack(carried);
      softmax.add(state, s, b.mul(index, kRows), masked);
      auto p = t.mma.packA(s);
      waitBarrier(b, stages.full(stage, 1), parity);
      state.out = t.mma.startAcross(
          state.out, p, t.mma.advance(v, stages.offset(stage)), tile);
      state.out = t.mma.wait(0, state.out);
      return softmax.pack(state);
    };
    SmallVector<Value> next;
    if (passes) {
      refill();
      Value sees =
          b.compare(arith::CmpIPredicate::sle, b.mul(index, kRows), groupLast);
      next = b.branch(sees, carried, compute);
    } else {
      next = compute();
    }
    t.release(stages.empty(stage));
    return next;
  };
  SmallVector<Value> values =
      b.loop(zero, range.full, 1, softmax.pack(softmax.begin()),
             [&](Value index, ValueRange carried) {
               return body(index, false, carried);
             });
  if (block.masked || shape.keys % kRows != 0)
    values = b.loop(range.full, range.end, 1, values,
                    [&](Value index, ValueRange carried) {
                      return body(index, true, carried);
                    });

  HopperSoftmax::State state = softmax.unpack(values);
  softmax.finish(state, first, block.rowScalars(b.operand(4), block.headBlock));
  b.barrier();
  t.storeRows(state.out, qTile, b.operand(3), shape.o, block.headBlock, first,
              shape.queries);

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.heads), int32_t(shape.batch)};
  launch.block = {b.getThreads(), 1, 1};
  launch.sharedBytes = qBytes + stages.bytes();
  launch.maps = {mapRows(shape, 0, shape.q, shape.queries, shape.heads),
                 mapRows(shape, 1, shape.k, shape.keys, shape.keyHeads),
                 mapRows(shape, 2, shape.v, shape.keys, shape.keyHeads)};
  return launch;
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//
//
// With P = exp(scale · s - lse), dP = dO · Vᵀ and dS = P ∘ (dP - delta):
// dQ = scale · dS · K, dK = scale · dSᵀ · Q and dV = Pᵀ · dO (FlashAttention-2,
// Dao 2023, algorithm 2).

DeviceLaunch blurt::emitGradQOnHopper(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 7, {6},
                  32 * emission.tiles.warps, emission.tiles.minBlocks, 4);
  HopperBlock t(b, emission);
  AttentionBlock &block = t.block;
  constexpr int32_t kRows = HopperBlock::kRows;
  SlabLayout tile = t.layout(kRows);

  auto blocks = int32_t(llvm::divideCeil(shape.queries, kRows));
  Value first = b.mul(b.sub(blocks - 1, b.blockId(0)), kRows);
  Value keyHead = b.div(block.headBlock, shape.heads / shape.keyHeads);
  AttentionBlock::Tiles range = block.keyTiles(first, kRows, kRows);

  // Shared memory: q, do, stages of k and v, barriers.
  Value qTile = b.shared(), dOTile = b.advance(qTile, tile.bytes());
  MappedTiles stages(t, 2, tile.bytes(), 0, b.advance(dOTile, tile.bytes()));
  auto start = [&](Value sequence, Value stage) {
    for (int32_t part : {0, 1}) {
      announce(b, stages.full(stage, part), tile.bytes());
      stages.startRows(stages.part(stage, part), part + 2,
                       b.mul(sequence, kRows), keyHead,
                       stages.full(stage, part));
    }
  };
  stages.begin(
      range.end,
      [&] {
        announce(b, stages.rowsBarrier(), 2 * tile.bytes());
        stages.startRows(qTile, 0, first, block.headBlock,
                         stages.rowsBarrier());
        stages.startRows(dOTile, 1, first, block.headBlock,
                         stages.rowsBarrier());
      },
      start);

  Value lse = block.rowScalars(b.operand(3), block.headBlock);
  Value delta = block.rowScalars(b.operand(5), block.headBlock);
  SmallVector<Value> shifts, deltas, lastKeys;
  for (int32_t h : {0, 1}) {
    Value row = t.row(first, h);
    shifts.push_back(b.mulF(t.rowScalar(lse, row), b.f32(-M_LOG2E)));
    deltas.push_back(t.rowScalar(delta, row));
    lastKeys.push_back(block.lastKey(row));
  }
  Value zero = b.i32(0);
  Value q = t.mma.describe(qTile, tile), dO = t.mma.describe(dOTile, tile);
  Value k = t.mma.describe(stages.part(zero, 0), tile);
  Value kAcross = t.mma.describe(stages.part(zero, 0), tile, /*across=*/true);
  Value v = t.mma.describe(stages.part(zero, 1), tile);
  waitBarrier(b, stages.rowsBarrier(), zero);

  auto body = [&](Value index, bool masked, ValueRange carried) {
    Value stage = stages.stage(index), parity = stages.parity(index);
    Value offset = stages.offset(stage);
    waitBarrier(b, stages.full(stage, 0), parity);
    waitBarrier(b, stages.full(stage, 1), parity);
    auto p = t.mma.startProduct(q, tile, t.mma.advance(k, offset), tile);
    auto dS = t.mma.startProduct(dO, tile, t.mma.advance(v, offset), tile);
    stages.refill(index, range.end, start);
    p = t.mma.wait(1, p);
    Value origin = b.add(b.mul(index, kRows), t.lanes.column);
    auto sees = [&](int32_t column, int32_t e) {
      Value last = b.sub(lastKeys[e / 2], origin);
      return b.compare(arith::CmpIPredicate::sge, last, b.i32(column));
    };
    auto shift = [&](int32_t, int32_t e) { return shifts[e / 2]; };
    if (masked)
      t.exponentials(p, shift, sees);
    else
      t.exponentials(p, shift, {});
    dS = t.mma.wait(0, dS);
    for (auto [i, value] : llvm::enumerate(dS))
      value = b.mulF(p[i], b.subF(value, deltas[i % 4 / 2]));
    auto sum = t.mma.startAcross(llvm::to_vector(carried), t.mma.packA(dS),
                                 t.mma.advance(kAcross, offset), tile);
    sum = t.mma.wait(0, sum);
    t.release(stages.empty(stage));
    return sum;
  };
  SmallVector<Value> sum = b.loop(zero, range.full, 1, t.zeros().values,
                                  [&](Value index, ValueRange carried) {
                                    return body(index, false, carried);
                                  });
  if (block.masked || shape.keys % kRows != 0)
    sum = b.loop(range.full, range.end, 1, sum,
                 [&](Value index, ValueRange carried) {
                   return body(index, true, carried);
                 });
  for (Value &value : sum)
    value = b.mulF(value, b.f32(shape.scale));
  b.barrier();
  t.storeRows(sum, qTile, b.operand(6), shape.dQ, block.headBlock, first,
              shape.queries);

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.heads), int32_t(shape.batch)};
  launch.block = {b.getThreads(), 1, 1};
  launch.sharedBytes = 2 * tile.bytes() + stages.bytes();
  launch.maps = {mapRows(shape, 0, shape.q, shape.queries, shape.heads),
                 mapRows(shape, 4, shape.dO, shape.queries, shape.heads),
                 mapRows(shape, 1, shape.k, shape.keys, shape.keyHeads),
                 mapRows(shape, 2, shape.v, shape.keys, shape.keyHeads)};
  return launch;
}

DeviceLaunch blurt::emitGradKVOnHopper(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 8, {6, 7},
                  32 * emission.tiles.warps, emission.tiles.minBlocks, 6);
  HopperBlock t(b, emission);
  AttentionBlock &block = t.block;
  constexpr int32_t kRows = HopperBlock::kRows, kScalarBytes = kRows * 4;
  SlabLayout tile = t.layout(kRows);

  auto blocks = int32_t(llvm::divideCeil(shape.keys, kRows));
  Value first = b.mul(b.blockId(0), kRows);
  Value keyHead = block.headBlock;
  QueryTiles range = block.queryTiles(first, kRows, kRows);
  int64_t group = shape.heads / shape.keyHeads;
  Value perHead = b.sub(range.end, range.begin);
  Value count = b.mul(perHead, group);
  bool hasTail = shape.queries % kRows != 0;

  // Shared memory: k, v, stages of q, do, lse and delta, barriers.
  Value kTile = b.shared(), vTile = b.advance(kTile, tile.bytes());
  MappedTiles stages(t, 2, tile.bytes(), 2 * kScalarBytes,
                     b.advance(vTile, tile.bytes()));
  auto scalars = [&](Value stage, int32_t i) {
    return b.advance(stages.part(stage, 2), i * kScalarBytes);
  };
  auto start = [&](Value sequence, Value stage) {
    Value head = b.mul(keyHead, group), index = sequence;
    if (group != 1) {
      Value ahead = arith::DivUIOp::create(b, sequence, perHead);
      head = b.add(head, ahead);
      index = b.sub(sequence, b.mul(ahead, perHead));
    }
    Value query = b.mul(b.add(range.begin, index), kRows);
    Value place = b.add(
        b.mul(b.add(b.mul(block.entry, shape.heads), head), shape.queries),
        query);
    for (int32_t part : {0, 1}) {
      Value barrier = stages.full(stage, part);
      announce(b, barrier, tile.bytes() + kScalarBytes);
      stages.startRows(stages.part(stage, part), part + 2, query, head,
                       barrier);
      startBox(b, scalars(stage, part), b.map(part + 4), {place}, barrier);
    }
  };
  stages.begin(
      count,
      [&] {
        announce(b, stages.rowsBarrier(), 2 * tile.bytes());
        stages.startRows(kTile, 0, first, keyHead, stages.rowsBarrier());
        stages.startRows(vTile, 1, first, keyHead, stages.rowsBarrier());
      },
      start);

  SmallVector<Value> firstQueries; // that see the key of a row
  if (block.masked)
    for (int32_t h : {0, 1})
      firstQueries.push_back(b.sub(t.row(first, h), block.offset));
  Value zero = b.i32(0);
  Value k = t.mma.describe(kTile, tile), v = t.mma.describe(vTile, tile);
  Value q = t.mma.describe(stages.part(zero, 0), tile);
  Value qAcross = t.mma.describe(stages.part(zero, 0), tile, /*across=*/true);
  Value dO = t.mma.describe(stages.part(zero, 1), tile);
  Value dOAcross = t.mma.describe(stages.part(zero, 1), tile, /*across=*/true);
  waitBarrier(b, stages.rowsBarrier(), zero);

  auto addTile = [&](Value sequence, Value index, bool masked, bool tail,
                     ValueRange carried) {
    Value stage = stages.stage(sequence), parity = stages.parity(sequence);
    Value offset = stages.offset(stage);
    waitBarrier(b, stages.full(stage, 0), parity);
    waitBarrier(b, stages.full(stage, 1), parity);
    auto p = t.mma.startProduct(k, tile, t.mma.advance(q, offset), tile);
    auto dS = t.mma.startProduct(v, tile, t.mma.advance(dO, offset), tile);
    stages.refill(sequence, count, start);
    Value column = b.shiftLeft(t.lanes.column, 2);
    auto load = [&](int32_t i) {
      SmallVector<Value> values;
      auto type = VectorType::get({2}, b.getF32Type());
      Value from = b.advance(scalars(stage, i), column);
      for (int32_t n = 0; n != kRows / 8; ++n) {
        Value pair = b.load(type, b.advance(from, 32 * n), 8);
        values.push_back(b.element(pair, 0));
        values.push_back(b.element(pair, 1));
      }
      return values;
    };
    SmallVector<Value> shifts = load(0);
    for (Value &value : shifts)
      value = b.mulF(value, b.f32(-M_LOG2E));
    p = t.mma.wait(1, p);
    Value origin = b.add(b.mul(index, kRows), t.lanes.column);
    Value left = b.sub(shape.queries, origin);
    auto exists = [&](int32_t column) {
      return b.compare(arith::CmpIPredicate::sgt, left, b.i32(column));
    };
    auto sees = [&](int32_t column, int32_t e) {
      Value yes;
      if (masked)
        yes = b.compare(arith::CmpIPredicate::sle,
                        b.sub(firstQueries[e / 2], origin), b.i32(column));
      if (tail)
        yes = yes ? b.bitAnd(yes, exists(column)) : exists(column);
      return yes;
    };
    auto shift = [&](int32_t column, int32_t) {
      return shifts[column / 8 * 2 + column % 2];
    };
    if (masked || tail)
      t.exponentials(p, shift, sees);
    else
      t.exponentials(p, shift, {});
    SmallVector<Value> deltas = load(1);
    dS = t.mma.wait(0, dS);
    for (auto [i, value] : llvm::enumerate(dS)) {
      value = b.mulF(p[i], b.subF(value, deltas[i / 4 * 2 + i % 2]));
      // Where no query is, what was loaded is another head's.
      if (tail)
        value =
            b.select(exists(Fragment::column(int32_t(i / 4), int32_t(i % 4))),
                     value, b.f32(0));
    }
    auto pA = t.mma.packA(p), dSA = t.mma.packA(dS);
    size_t half = carried.size() / 2;
    auto dV = t.mma.startAcross(llvm::to_vector(carried.drop_front(half)), pA,
                                t.mma.advance(dOAcross, offset), tile);
    auto dK = t.mma.startAcross(llvm::to_vector(carried.take_front(half)), dSA,
                                t.mma.advance(qAcross, offset), tile);
    llvm::append_range(dK, dV);
    dK = t.mma.wait(0, dK);
    t.release(stages.empty(stage));
    return dK;
  };
  auto addHead = [&](Value before, ValueRange carried) {
    auto walk = [&](Value begin, Value end, bool masked, bool tail,
                    ValueRange carried) {
      return b.loop(begin, end, 1, carried,
                    [&](Value index, ValueRange values) {
                      Value sequence = b.add(before, b.sub(index, range.begin));
                      return addTile(sequence, index, masked, tail, values);
                    });
    };
    SmallVector<Value> values = llvm::to_vector(carried);
    if (block.masked)
      values = walk(range.begin, range.whole, true, hasTail, values);
    Value end = hasTail ? b.max(range.whole, b.add(range.end, -1)) : range.end;
    values = walk(range.whole, end, false, false, values);
    if (hasTail)
      values = walk(end, range.end, false, true, values);
    return values;
  };
  SmallVector<Value> sums(shape.depth, b.f32(0));
  if (group == 1)
    sums = addHead(zero, sums);
  else
    sums = b.loop(zero, b.i32(group), 1, sums,
                  [&](Value head, ValueRange carried) {
                    return addHead(b.mul(head, perHead), carried);
                  });

  size_t half = sums.size() / 2;
  SmallVector<Value> dK(ArrayRef(sums).take_front(half));
  for (Value &value : dK)
    value = b.mulF(value, b.f32(shape.scale));
  b.barrier();
  t.storeRows(dK, kTile, b.operand(6), shape.dK, keyHead, first, shape.keys);
  t.storeRows(SmallVector<Value>(ArrayRef(sums).drop_front(half)), vTile,
              b.operand(7), shape.dV, keyHead, first, shape.keys);

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.keyHeads), int32_t(shape.batch)};
  launch.block = {b.getThreads(), 1, 1};
  launch.sharedBytes = 2 * tile.bytes() + stages.bytes();
  launch.maps = {mapRows(shape, 1, shape.k, shape.keys, shape.keyHeads),
                 mapRows(shape, 2, shape.v, shape.keys, shape.keyHeads),
                 mapRows(shape, 0, shape.q, shape.queries, shape.heads),
                 mapRows(shape, 4, shape.dO, shape.queries, shape.heads),
                 mapScalars(b, shape, 3),
                 mapScalars(b, shape, 5)};
  return launch;
}
