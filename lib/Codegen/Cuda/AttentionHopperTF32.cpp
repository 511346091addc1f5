//===- AttentionHopperTF32.cpp - attention by wgmma in tf32 ---*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Operands of tf32 products have to be rounded, and their rows have to run
// along the depth of the product. So tiles come by way of registers: a thread
// loads 4×4 elements of the next tile while products of this one are computed,
// rounds them, and stores them as rows, as columns, or as both.
//
// Both orders are free in columns. The columns (keys, or queries) of each eight
// are stored in the order 0, 2, 4, 6, 1, 3, 5, 7, which makes accumulators
// operands without a shuffle; and the rows of such a tile, along the depth d of
// heads, in the order of (d mod 4, d / 4), so that a warp's stores lie in
// different banks. Four accumulators of a thread are then one chunk of a row of
// the result.
//
//===----------------------------------------------------------------------===//

#include "AttentionHopper.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blurt;

namespace {
constexpr int32_t kRows = HopperBlock::kRows;

/// Copies tiles of 64 rows, by all threads of a block.
class RoundedCopy {
public:
  using Values = SmallVector<Value>;

  /// Of the rows, `limit` exist; the others are zero.
  RoundedCopy(HopperBlock &t, const RowStrides &strides, int64_t limit);

  static SlabLayout across(const HopperBlock &t) {
    return {int32_t(t.shape.depth), kRows * 4};
  }

  /// Starts loading the rows from `first` on.
  Values load(Value base, Value first);
  /// The same if `condition` holds.
  Values load(Value condition, Value base, Value first);
  /// Stores what was loaded as rows, as columns, or as both.
  void store(const Values &loaded, Value rows, Value columns);

private:
  DeviceBuilder &b;
  int64_t stride, limit;
  int32_t chunks; ///< of a row
  int32_t step;   ///< rows that the block copies at a time
  int32_t passes;
  Value row, chunk;
  Value rowPlaces[4], columnPlace;
};
} // namespace

RoundedCopy::RoundedCopy(HopperBlock &t, const RowStrides &strides,
                         int64_t limit)
    : b(t.b), stride(strides[1] * 4), limit(limit),
      chunks(int32_t(t.shape.depth) / 4), step(4 * b.getThreads() / chunks),
      passes(kRows / step) {
  assert(step % 32 == 0 && "passes do not keep slabs apart");
  chunk = b.rem(t.block.thread, chunks);
  // Rows row, row + 2, row + 4 and row + 6 of each eight.
  Value four = b.div(t.block.thread, chunks);
  Value odd = b.rem(four, 2), inSlab = b.rem(chunk, 8);
  row = b.add(b.shiftLeft(b.div(four, 2), 3), odd);
  Value slab = b.mul(b.div(chunk, 8), kRows * 128);
  Value rowOffset = b.add(slab, b.shiftLeft(row, 7));
  for (int32_t i = 0; i != 4; ++i)
    rowPlaces[i] = b.add(
        rowOffset, b.shiftLeft(b.bitXor(b.bitXor(inSlab, odd), 2 * i), 4));
  columnPlace = b.add(b.mul(b.div(four, 8), chunks * 4 * 128),
                      b.add(b.shiftLeft(chunk, 7),
                            b.shiftLeft(b.bitXor(b.rem(four, 8), inSlab), 4)));
}

RoundedCopy::Values RoundedCopy::load(Value base, Value first) {
  auto type = VectorType::get({4}, b.getF32Type());
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
  Value at = b.add(first, row);
  Values loaded;
  Value from = b.advance(b.advance(base, b.wideOffset(at, stride)),
                         b.shiftLeft(chunk, 4));
  for (int32_t pass = 0; pass != passes; ++pass)
    for (int32_t i = 0; i != 4; ++i) {
      int64_t offset = pass * step + 2 * i;
      if (limit % kRows == 0) {
        loaded.push_back(b.load(type, b.advance(from, offset * stride), 16));
        continue;
      }
      Value exists = b.lessThan(b.add(at, offset), limit);
      loaded.push_back(b.branch(exists, zero, [&] {
        return Values{b.load(type, b.advance(from, offset * stride), 16)};
      })[0]);
    }
  return loaded;
}

RoundedCopy::Values RoundedCopy::load(Value condition, Value base,
                                      Value first) {
  auto type = VectorType::get({4}, b.getF32Type());
  Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type));
  return b.branch(condition, Values(4 * passes, zero),
                  [&] { return load(base, first); });
}

void RoundedCopy::store(const Values &loaded, Value rows, Value columns) {
  for (int32_t pass = 0; pass != passes; ++pass) {
    Value rounded[4][4];
    for (int32_t i = 0; i != 4; ++i)
      for (int32_t j = 0; j != 4; ++j)
        rounded[i][j] = b.roundTF32Bits(b.element(loaded[4 * pass + i], j));
    for (int32_t i = 0; i != 4; ++i) {
      if (rows)
        b.store16(b.makeVector(rounded[i]),
                  b.advance(b.advance(rows, rowPlaces[i]),
                            (pass * step + 2 * i) * 128));
      if (columns)
        b.store16(
            b.makeVector(
                {rounded[0][i], rounded[1][i], rounded[2][i], rounded[3][i]}),
            b.advance(b.advance(columns, columnPlace),
                      i * chunks * 128 + pass * step / 32 * chunks * 4 * 128));
    }
  }
}

/// Writes accumulators whose columns are a column tile's rows.
static void storeSums(HopperBlock &t, ArrayRef<Value> sum, Value tile,
                      Value operand, const RowStrides &strides, Value head,
                      Value first, int64_t limit) {
  DeviceBuilder &b = t.b;
  TileLayout rows = TileLayout::get(kRows * t.groups, t.layout(1).rowBytes);
  Value warpRow = b.mul(t.lanes.warp, 16);
  TileCursor cursor(b, rows, b.add(warpRow, t.lanes.row), t.lanes.column);
  auto tiles = int32_t(t.shape.depth) / 32;
  for (int32_t n = 0; n != tiles; ++n)
    for (int32_t e = 0; e != 4; ++e) {
      SmallVector<Value> values;
      for (int32_t j = 0; j != 4; ++j)
        values.push_back(sum[4 * (n + j * tiles) + e]);
      b.storeF32x4(values, cursor.at(b, tile, 8 * (e / 2), 8 * n + e % 2));
    }
  b.warpBarrier();
  storeTileRows(b, rows, tile, warpRow, 16, t.block.rows(strides),
                t.block.base(operand, strides, head), b.add(first, warpRow),
                b.i32(limit), t.lanes.lane);
}

/// What threads stored is there for all, and all are done with the tile before.
static void exchange(DeviceBuilder &b) {
  publishStores(b);
  b.barrier();
}

/// Whether a tile exists after `index`.
static Value isFollowed(DeviceBuilder &b, Value index, Value end) {
  return b.lessThan(b.add(index, 1), end);
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

DeviceLaunch blurt::emitForwardOnHopperTF32(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 5, {3, 4},
                  32 * emission.tiles.warps, emission.tiles.minBlocks);
  HopperBlock t(b, emission);
  AttentionBlock &block = t.block;
  SlabLayout tile = t.layout(kRows), columns = RoundedCopy::across(t);

  int32_t rows = kRows * t.groups;
  auto blocks = int32_t(llvm::divideCeil(shape.queries, rows));
  Value first = b.mul(b.sub(blocks - 1, b.blockId(0)), rows);
  Value keyHead = b.div(block.headBlock, shape.heads / shape.keyHeads);
  AttentionBlock::Tiles range = block.keyTiles(first, rows, kRows);
  Value qBase = block.base(b.operand(0), shape.q, block.headBlock);
  Value kBase = block.base(b.operand(1), shape.k, keyHead);
  Value vBase = block.base(b.operand(2), shape.v, keyHead);
  RoundedCopy qCopy(t, shape.q, shape.queries), kCopy(t, shape.k, shape.keys),
      vCopy(t, shape.v, shape.keys);

  // Shared memory: q, then k and the columns of v of each stage.
  int32_t qBytes = t.groups * tile.bytes(), stageBytes = 2 * tile.bytes();
  Value qTile = b.shared();
  auto kTile = [&](Value stage) {
    return b.advance(b.advance(qTile, b.mul(stage, stageBytes)), qBytes);
  };
  auto vTile = [&](Value stage) {
    return b.advance(kTile(stage), tile.bytes());
  };
  Value zero = b.i32(0);
  for (int32_t g = 0; g != t.groups; ++g)
    qCopy.store(qCopy.load(qBase, b.add(first, g * kRows)),
                b.advance(qTile, g * tile.bytes()), {});
  b.branch(b.lessThan(zero, range.end), [&] {
    kCopy.store(kCopy.load(kBase, zero), kTile(zero), {});
    vCopy.store(vCopy.load(vBase, zero), {}, vTile(zero));
  });
  exchange(b);

  HopperSoftmax softmax(t, first);
  Value group = b.div(t.lanes.warp, 4);
  Value q =
      t.mma.advance(t.mma.describe(qTile, tile), b.mul(group, tile.bytes()));
  Value k = t.mma.describe(kTile(zero), tile);
  Value v = t.mma.describe(vTile(zero), columns);
  Value groupLast =
      block.lastKey(b.add(b.add(first, b.mul(group, kRows)), kRows - 1));

  auto body = [&](Value index, bool masked, ValueRange carried) {
    Value stage = b.rem(index, 2), other = b.sub(1, stage);
    Value offset = b.mul(stage, stageBytes);
    Value more = isFollowed(b, index, range.end);
    Value next = b.mul(b.add(index, 1), kRows);
    bool passes = masked && t.groups > 1;
    SmallVector<Value> kNext = kCopy.load(more, kBase, next), vNext;
    auto turn = [&] {
      b.branch(more, [&] { kCopy.store(kNext, kTile(other), {}); });
      vNext = vCopy.load(more, vBase, next);
    };
    auto compute = [&] {
      auto s = t.mma.startProduct(q, tile, t.mma.advance(k, offset), tile);
      s = t.mma.wait(0, s);
      HopperSoftmax::State state = softmax.unpack(carried);
      softmax.add(state, s, b.mul(index, kRows), masked);
      // A NaN is in the sum of exponentials as well.
      state.out =
          t.mma.startAcross(state.out, t.mma.packA(s, /*hasNaNs=*/false),
                            t.mma.advance(v, offset), columns);
      if (!passes)
        turn();
      state.out = t.mma.wait(0, state.out);
      return softmax.pack(state);
    };
    SmallVector<Value> values;
    if (passes) {
      // Of several warpgroups, some may see no key of the last tiles.
      Value sees =
          b.compare(arith::CmpIPredicate::sle, b.mul(index, kRows), groupLast);
      values = b.branch(sees, carried, compute);
      turn();
    } else {
      values = compute();
    }
    b.branch(more, [&] { vCopy.store(vNext, {}, vTile(other)); });
    exchange(b);
    return values;
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
  storeSums(t, state.out, qTile, b.operand(3), shape.o, block.headBlock, first,
            shape.queries);

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.heads), int32_t(shape.batch)};
  launch.block = {b.getThreads(), 1, 1};
  launch.sharedBytes = qBytes + 2 * stageBytes;
  return launch;
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

DeviceLaunch blurt::emitGradQOnHopperTF32(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  const AttentionTiles &tiles = emission.tiles;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 7, {6},
                  32 * tiles.warps, tiles.minBlocks);
  HopperBlock t(b, emission);
  AttentionBlock &block = t.block;
  SlabLayout tile = t.layout(kRows), columns = RoundedCopy::across(t);

  int32_t rows = kRows * t.groups;
  auto blocks = int32_t(llvm::divideCeil(shape.queries, rows));
  Value first = b.mul(b.sub(blocks - 1, b.blockId(0)), rows);
  Value keyHead = b.div(block.headBlock, shape.heads / shape.keyHeads);
  AttentionBlock::Tiles range = block.keyTiles(first, rows, kRows);
  Value qBase = block.base(b.operand(0), shape.q, block.headBlock);
  Value kBase = block.base(b.operand(1), shape.k, keyHead);
  Value vBase = block.base(b.operand(2), shape.v, keyHead);
  Value dOBase = block.base(b.operand(4), shape.dO, block.headBlock);
  RoundedCopy qCopy(t, shape.q, shape.queries),
      dOCopy(t, shape.dO, shape.queries), kCopy(t, shape.k, shape.keys),
      vCopy(t, shape.v, shape.keys);

  // Shared memory: q, do, then k, its columns, and v of each stage.
  int32_t rowBytes = t.groups * tile.bytes(), stageBytes = 3 * tile.bytes();
  Value qTile = b.shared(), dOTile = b.advance(qTile, rowBytes);
  auto kTile = [&](Value stage) {
    return b.advance(b.advance(qTile, b.mul(stage, stageBytes)), 2 * rowBytes);
  };
  auto kColumns = [&](Value stage) {
    return b.advance(kTile(stage), tile.bytes());
  };
  auto vTile = [&](Value stage) {
    return b.advance(kTile(stage), 2 * tile.bytes());
  };
  Value zero = b.i32(0);
  for (int32_t g = 0; g != t.groups; ++g) {
    Value from = b.add(first, g * kRows);
    qCopy.store(qCopy.load(qBase, from), b.advance(qTile, g * tile.bytes()),
                {});
    dOCopy.store(dOCopy.load(dOBase, from), b.advance(dOTile, g * tile.bytes()),
                 {});
  }
  b.branch(b.lessThan(zero, range.end), [&] {
    kCopy.store(kCopy.load(kBase, zero), kTile(zero), kColumns(zero));
    vCopy.store(vCopy.load(vBase, zero), vTile(zero), {});
  });
  exchange(b);

  Value lse = block.rowScalars(b.operand(3), block.headBlock);
  Value delta = block.rowScalars(b.operand(5), block.headBlock);
  SmallVector<Value> shifts, deltas, lastKeys;
  for (int32_t h : {0, 1}) {
    Value row = t.row(first, h);
    shifts.push_back(b.mulF(t.rowScalar(lse, row), b.f32(-M_LOG2E)));
    deltas.push_back(t.rowScalar(delta, row));
    lastKeys.push_back(block.lastKey(row));
  }
  Value group = b.div(t.lanes.warp, 4);
  Value groupOffset = b.mul(group, tile.bytes());
  Value q = t.mma.advance(t.mma.describe(qTile, tile), groupOffset);
  Value dO = t.mma.advance(t.mma.describe(dOTile, tile), groupOffset);
  Value k = t.mma.describe(kTile(zero), tile);
  Value kAcross = t.mma.describe(kColumns(zero), columns);
  Value v = t.mma.describe(vTile(zero), tile);
  Value groupLast =
      block.lastKey(b.add(b.add(first, b.mul(group, kRows)), kRows - 1));

  auto body = [&](Value index, bool masked, ValueRange carried) {
    Value stage = b.rem(index, 2), other = b.sub(1, stage);
    Value offset = b.mul(stage, stageBytes);
    Value more = isFollowed(b, index, range.end);
    Value next = b.mul(b.add(index, 1), kRows);
    bool passes = masked && t.groups > 1;
    auto kNext = kCopy.load(more, kBase, next);
    auto vNext = vCopy.load(more, vBase, next);
    auto turn = [&] {
      b.branch(more, [&] {
        kCopy.store(kNext, kTile(other), kColumns(other));
        vCopy.store(vNext, vTile(other), {});
      });
    };
    auto compute = [&] {
      auto p = t.mma.startProduct(q, tile, t.mma.advance(k, offset), tile);
      auto dS = t.mma.startProduct(dO, tile, t.mma.advance(v, offset), tile);
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
                                   t.mma.advance(kAcross, offset), columns);
      if (!passes)
        turn();
      return t.mma.wait(0, sum);
    };
    SmallVector<Value> sum;
    if (passes) {
      Value sees =
          b.compare(arith::CmpIPredicate::sle, b.mul(index, kRows), groupLast);
      sum = b.branch(sees, carried, compute);
      turn();
    } else {
      sum = compute();
    }
    exchange(b);
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
  storeSums(t, sum, qTile, b.operand(6), shape.dQ, block.headBlock, first,
            shape.queries);

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.heads), int32_t(shape.batch)};
  launch.block = {b.getThreads(), 1, 1};
  launch.sharedBytes = 2 * rowBytes + 2 * stageBytes;
  return launch;
}

DeviceLaunch blurt::emitGradKVOnHopperTF32(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  const AttentionTiles &tiles = emission.tiles;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 8, {6, 7},
                  32 * tiles.warps, tiles.minBlocks);
  HopperBlock t(b, emission);
  AttentionBlock &block = t.block;
  constexpr int32_t kScalarBytes = kRows * 4;
  SlabLayout tile = t.layout(kRows), columns = RoundedCopy::across(t);

  int32_t rows = kRows * t.groups;
  auto blocks = int32_t(llvm::divideCeil(shape.keys, rows));
  Value first = b.mul(b.blockId(0), rows);
  Value keyHead = block.headBlock;
  QueryTiles range = block.queryTiles(first, rows, kRows);
  int64_t heads = shape.heads / shape.keyHeads;
  Value kBase = block.base(b.operand(1), shape.k, keyHead);
  Value vBase = block.base(b.operand(2), shape.v, keyHead);
  RoundedCopy qCopy(t, shape.q, shape.queries),
      dOCopy(t, shape.dO, shape.queries), kCopy(t, shape.k, shape.keys),
      vCopy(t, shape.v, shape.keys);

  // Shared memory: k, v, then q, its columns, do, its columns, lse and delta of
  // each stage.
  int32_t rowBytes = t.groups * tile.bytes();
  int32_t stageBytes = llvm::alignTo(4 * tile.bytes() + 2 * kScalarBytes, 1024);
  Value kTile = b.shared(), vTile = b.advance(kTile, rowBytes);
  auto part = [&](Value stage, int32_t i) {
    return b.advance(b.advance(kTile, b.mul(stage, stageBytes)),
                     2 * rowBytes + i * tile.bytes());
  };
  Value zero = b.i32(0);
  for (int32_t g = 0; g != t.groups; ++g) {
    Value from = b.add(first, g * kRows);
    kCopy.store(kCopy.load(kBase, from), b.advance(kTile, g * tile.bytes()),
                {});
    vCopy.store(vCopy.load(vBase, from), b.advance(vTile, g * tile.bytes()),
                {});
  }

  Value group = b.div(t.lanes.warp, 4);
  SmallVector<Value> firstQueries; // that see the key of a row
  Value groupFirst;
  if (block.masked) {
    for (int32_t h : {0, 1})
      firstQueries.push_back(b.sub(t.row(first, h), block.offset));
    groupFirst = b.sub(b.add(first, b.mul(group, kRows)), block.offset);
  }
  Value groupOffset = b.mul(group, tile.bytes());
  Value k = t.mma.advance(t.mma.describe(kTile, tile), groupOffset);
  Value v = t.mma.advance(t.mma.describe(vTile, tile), groupOffset);
  Value q = t.mma.describe(part(zero, 0), tile);
  Value qAcross = t.mma.describe(part(zero, 1), columns);
  Value dO = t.mma.describe(part(zero, 2), tile);
  Value dOAcross = t.mma.describe(part(zero, 3), columns);

  auto addHead = [&](Value head, SmallVector<Value> carried) {
    Value qBase = block.base(b.operand(0), shape.q, head);
    Value dOBase = block.base(b.operand(4), shape.dO, head);
    // One thread a value: lse by the first 64, delta by the next.
    Value which = b.div(block.thread, kRows);
    Value isDelta = b.equal(which, 1), at = b.rem(block.thread, kRows);
    Value scalars = b.select(isDelta, block.rowScalars(b.operand(5), head),
                             block.rowScalars(b.operand(3), head));
    auto loadScalar = [&](Value first) {
      Value query = b.add(first, at);
      Value value = b.load(
          b.getF32Type(),
          b.advance(scalars, b.wideOffset(b.min(query, shape.queries - 1), 4)),
          4);
      return b.select(b.lessThan(query, shape.queries), value, b.f32(0));
    };
    auto storeScalar = [&](Value value, Value stage) {
      b.branch(b.lessThan(block.thread, 2 * kRows), [&] {
        b.store(value, b.advance(part(stage, 4), b.shiftLeft(block.thread, 2)),
                4);
      });
    };
    Value begin = b.mul(range.begin, kRows);
    Value even = b.rem(range.begin, 2);
    b.branch(b.lessThan(range.begin, range.end), [&] {
      qCopy.store(qCopy.load(qBase, begin), part(even, 0), part(even, 1));
      dOCopy.store(dOCopy.load(dOBase, begin), part(even, 2), part(even, 3));
      storeScalar(loadScalar(begin), even);
    });
    exchange(b);

    auto body = [&](Value index, bool masked, ValueRange carried) {
      Value stage = b.rem(index, 2), other = b.sub(1, stage);
      Value offset = b.mul(stage, stageBytes);
      Value more = isFollowed(b, index, range.end);
      Value next = b.mul(b.add(index, 1), kRows);
      bool passes = masked && t.groups > 1;
      auto qNext = qCopy.load(more, qBase, next);
      auto dONext = dOCopy.load(more, dOBase, next);
      Value scalarNext = b.branch(more, b.f32(0), [&] {
        return SmallVector<Value>{loadScalar(next)};
      })[0];
      auto turn = [&] {
        b.branch(more, [&] {
          qCopy.store(qNext, part(other, 0), part(other, 1));
          dOCopy.store(dONext, part(other, 2), part(other, 3));
          storeScalar(scalarNext, other);
        });
      };
      auto load = [&](int32_t i) {
        SmallVector<Value> values;
        auto type = VectorType::get({2}, b.getF32Type());
        Value from = b.advance(b.advance(part(stage, 4), i * kScalarBytes),
                               b.shiftLeft(t.lanes.column, 2));
        for (int32_t n = 0; n != kRows / 8; ++n) {
          Value pair = b.load(type, b.advance(from, 32 * n), 8);
          values.push_back(b.element(pair, 0));
          values.push_back(b.element(pair, 1));
        }
        return values;
      };
      auto compute = [&] {
        auto p = t.mma.startProduct(k, tile, t.mma.advance(q, offset), tile);
        auto dS = t.mma.startProduct(v, tile, t.mma.advance(dO, offset), tile);
        SmallVector<Value> shifts = load(0);
        for (Value &value : shifts)
          value = b.mulF(value, b.f32(-M_LOG2E));
        p = t.mma.wait(1, p);
        Value origin = b.add(b.mul(index, kRows), t.lanes.column);
        auto sees = [&](int32_t column, int32_t e) {
          return b.compare(arith::CmpIPredicate::sle,
                           b.sub(firstQueries[e / 2], origin), b.i32(column));
        };
        auto shift = [&](int32_t column, int32_t) {
          return shifts[column / 8 * 2 + column % 2];
        };
        if (masked)
          t.exponentials(p, shift, sees);
        else
          t.exponentials(p, shift, {});
        SmallVector<Value> deltas = load(1);
        dS = t.mma.wait(0, dS);
        for (auto [i, value] : llvm::enumerate(dS))
          value = b.mulF(p[i], b.subF(value, deltas[i / 4 * 2 + i % 2]));
        auto pA = t.mma.packA(p), dSA = t.mma.packA(dS);
        size_t half = carried.size() / 2;
        auto dV =
            t.mma.startAcross(llvm::to_vector(carried.drop_front(half)), pA,
                              t.mma.advance(dOAcross, offset), columns);
        auto dK =
            t.mma.startAcross(llvm::to_vector(carried.take_front(half)), dSA,
                              t.mma.advance(qAcross, offset), columns);
        if (!passes)
          turn();
        llvm::append_range(dK, dV);
        return t.mma.wait(0, dK);
      };
      SmallVector<Value> sums;
      if (passes) {
        Value sees = b.lessThan(groupFirst, b.mul(b.add(index, 1), kRows));
        sums = b.branch(sees, carried, compute);
        turn();
      } else {
        sums = compute();
      }
      exchange(b);
      return sums;
    };
    if (block.masked)
      carried = b.loop(range.begin, range.whole, 1, carried,
                       [&](Value index, ValueRange values) {
                         return body(index, true, values);
                       });
    return b.loop(range.whole, range.end, 1, carried,
                  [&](Value index, ValueRange values) {
                    return body(index, false, values);
                  });
  };
  SmallVector<Value> sums(shape.depth, b.f32(0));
  if (heads == 1)
    sums = addHead(keyHead, std::move(sums));
  else
    sums = b.loop(zero, b.i32(heads), 1, sums,
                  [&](Value index, ValueRange carried) {
                    return addHead(b.add(b.mul(keyHead, heads), index),
                                   llvm::to_vector(carried));
                  });

  size_t half = sums.size() / 2;
  SmallVector<Value> dK(ArrayRef(sums).take_front(half));
  for (Value &value : dK)
    value = b.mulF(value, b.f32(shape.scale));
  storeSums(t, dK, kTile, b.operand(6), shape.dK, keyHead, first, shape.keys);
  storeSums(t, ArrayRef(sums).drop_front(half), vTile, b.operand(7), shape.dV,
            keyHead, first, shape.keys);

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.keyHeads), int32_t(shape.batch)};
  launch.block = {b.getThreads(), 1, 1};
  launch.sharedBytes = 2 * rowBytes + 2 * stageBytes;
  return launch;
}
