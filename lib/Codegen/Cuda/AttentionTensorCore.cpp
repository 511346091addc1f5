//===- AttentionTensorCore.cpp - attention by mma.sync --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A block owns 16·n rows a warp and walks tiles of the other side, of which
// one is computed with while the next is copied. Scores stay in the registers
// of the warp that computed them: as accumulators, and then, rounded, as the
// left operand of the next product. The kernel of dk and dv computes scores
// with keys as rows for that reason.
//
// Exponentials are powers of two: e^(scale · s - x) is 2^(factor · s - x'),
// with factor = scale · log2 e.
//
//===----------------------------------------------------------------------===//

#include "AttentionBlock.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blurt;

namespace {
/// What the three kernels share.
struct TensorBlock {
  TensorBlock(DeviceBuilder &b, const AttentionEmission &emission,
              Value position)
      : b(b), shape(emission.shape), tiles(emission.tiles),
        block(b, shape, position), mma(b, shape.compute, block.thread),
        steps(llvm::divideCeil(shape.depth, mma.getDepth())),
        depthTiles(steps * mma.getDepth() / 8), rowCount(getRows(tiles)),
        rowLayout(TileLayout::get(rowCount, steps * 32)),
        tileLayout(TileLayout::get(tiles.columns, steps * 32)),
        warpRow(b.mul(mma.warp, 16 * tiles.rowTiles)),
        rowA(mma.cursorA(rowLayout, warpRow)), tileB(mma.cursorB(tileLayout)),
        tileAcross(mma.cursorAcrossB(tileLayout)) {}

  static int32_t getRows(const AttentionTiles &tiles) {
    return 16 * tiles.warps * tiles.rowTiles;
  }
  bool rounds() const { return !mma.isBF16(); }

  Fragment zeros(int32_t nTiles) {
    return Fragment(tiles.rowTiles, nTiles, b.f32(0));
  }
  /// A product of the block's own rows with a tile.
  Fragment scores(Value rows, Value tile) {
    Fragment sum = zeros(tiles.columns / 8);
    mma.multiply(
        sum,
        [&](int32_t m, int32_t step) { return mma.loadA(rowA, rows, m, step); },
        tileB, tile, steps);
    return sum;
  }
  /// Writes a fragment of the block's own rows through `tile`, which this warp
  /// is the only one to use there.
  void storeRows(Fragment &fragment, Value tile, Value operand,
                 const RowStrides &strides, Value head, Value first,
                 Value limit) {
    b.warpBarrier();
    mma.store(fragment, mma.cursorPairs(rowLayout, warpRow), tile);
    b.warpBarrier();
    storeTileRows(b, rowLayout, tile, warpRow, 16 * tiles.rowTiles,
                  block.rows(strides), block.base(operand, strides, head),
                  b.add(first, warpRow), limit, mma.lane);
  }
  /// Row of element e of row tile m, in all rows.
  Value row(Value first, int32_t m, int32_t e) {
    return b.add(b.add(first, b.add(warpRow, mma.row)), Fragment::row(m, e));
  }

  DeviceBuilder &b;
  const AttentionShape &shape;
  const AttentionTiles &tiles;
  AttentionBlock block;
  WarpMma mma;
  int32_t steps;      ///< products along the depth
  int32_t depthTiles; ///< column tiles of a fragment that is as wide
  int32_t rowCount;
  TileLayout rowLayout, tileLayout;
  Value warpRow;
  TileCursor rowA, tileB, tileAcross;
};
} // namespace

static constexpr double kInf = std::numeric_limits<double>::infinity();

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

namespace {
struct TensorForward : TensorBlock {
  TensorForward(DeviceBuilder &b, const AttentionEmission &emission,
                Value position)
      : TensorBlock(b, emission, position),
        // The maximum of scores times a negative scale is not theirs.
        scaleFirst(!(shape.scale > 0)),
        factor((scaleFirst ? 1 : shape.scale) * M_LOG2E) {}

  /// Per row: the output so far, the maximum, and this lane's part of the sum
  /// of exponentials.
  struct State {
    Fragment out;
    SmallVector<Value> maxima, sums; ///< of row tile m and half h: 2m + h
  };
  SmallVector<Value> pack(const State &state) {
    SmallVector<Value> values = state.out.values;
    llvm::append_range(values, state.maxima);
    llvm::append_range(values, state.sums);
    return values;
  }
  State unpack(ValueRange values) {
    State state;
    size_t rows = 2 * tiles.rowTiles;
    state.out =
        Fragment(tiles.rowTiles, depthTiles, values.drop_back(2 * rows));
    state.maxima = llvm::to_vector(values.take_back(2 * rows).drop_back(rows));
    state.sums = llvm::to_vector(values.take_back(rows));
    return state;
  }

  void addTile(State &state, Fragment s, Value vTile, Value firstKey,
               bool masked);

  bool scaleFirst;
  double factor;
  SmallVector<Value> lastKeys; ///< of row tile m and half h: 2m + h
};
} // namespace

/// Online softmax (Milakov and Gimelshein 2018) of one tile of scores.
void TensorForward::addTile(State &state, Fragment s, Value vTile,
                            Value firstKey, bool masked) {
  if (scaleFirst)
    for (Value &value : s.values)
      value = b.mulF(value, b.f32(shape.scale));
  Value origin = b.add(firstKey, mma.column);
  for (int32_t m = 0; m != tiles.rowTiles; ++m)
    for (int32_t half = 0; half != 2; ++half) {
      int32_t row = 2 * m + half;
      Value last = masked ? b.sub(lastKeys[row], origin) : Value();
      SmallVector<Value *> values;
      for (int32_t n = 0; n != s.nTiles; ++n)
        for (int32_t e : {2 * half, 2 * half + 1}) {
          Value &value = s.at(m, n, e);
          if (masked)
            value = b.select(b.lessThan(last, Fragment::column(n, e)),
                             b.f32(-kInf), value);
          values.push_back(&value);
        }
      SmallVector<Value> maxima;
      for (auto [i, value] : llvm::enumerate(values)) {
        if (i < 4)
          maxima.push_back(*value);
        else
          maxima[i % 4] = b.maxF(maxima[i % 4], *value);
      }
      Value max =
          b.maxF(b.maxF(maxima[0], maxima[1]), b.maxF(maxima[2], maxima[3]));
      max = b.maxF(max, b.shuffleXor(max, 1));
      max = b.maxF(max, b.shuffleXor(max, 2));
      Value old = state.maxima[row];
      max = b.maxF(old, max);
      state.maxima[row] = max;
      // A row that has seen nothing yet keeps exponentials of 0.
      Value shift = max;
      if (masked)
        shift = b.select(b.equalF(max, b.f32(-kInf)), b.f32(0), max);
      Value correction =
          b.exp2Approx(b.mulF(b.subF(old, shift), b.f32(factor)));
      Value negated = b.mulF(shift, b.f32(-factor));
      Value sums[2];
      for (auto [i, value] : llvm::enumerate(values)) {
        *value = b.exp2Approx(b.fma(*value, b.f32(factor), negated));
        Value &sum = sums[i % 2];
        sum = sum ? b.addF(sum, *value) : *value;
      }
      state.sums[row] =
          b.fma(state.sums[row], correction, b.addF(sums[0], sums[1]));
      for (int32_t n = 0; n != depthTiles; ++n)
        for (int32_t e : {2 * half, 2 * half + 1})
          state.out.at(m, n, e) = b.mulF(state.out.at(m, n, e), correction);
    }
  mma.multiplyAcross(state.out, s, tileAcross, vTile);
}

DeviceLaunch
blurt::emitForwardOnTensorCores(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  const AttentionTiles &tiles = emission.tiles;
  unsigned count = shape.hasPosition ? 6 : 5;
  DeviceBuilder b(emission.module, emission.loc, emission.name, count,
                  {count - 2, count - 1}, 32 * tiles.warps, tiles.minBlocks);
  TensorForward t(b, emission, shape.hasPosition ? b.operand(3) : Value());
  AttentionBlock &block = t.block;

  auto blocks = int32_t(llvm::divideCeil(shape.queries, t.rowCount));
  // The last tiles see most keys under a causal mask: start with them.
  Value first = b.mul(b.sub(blocks - 1, b.blockId(0)), t.rowCount);
  Value keyHead = b.div(block.headBlock, shape.heads / shape.keyHeads);
  Value qBase = block.base(b.operand(0), shape.q, block.headBlock);
  Value kBase = block.base(b.operand(1), shape.k, keyHead);
  Value vBase = block.base(b.operand(2), shape.v, keyHead);

  // Shared memory: q, then k and v of each stage.
  int32_t qBytes = t.rowLayout.bytes(), tileBytes = t.tileLayout.bytes();
  Value qTile = b.shared();
  auto kTile = [&](Value stage) {
    return b.advance(b.advance(qTile, b.mul(stage, 2 * tileBytes)), qBytes);
  };
  auto vTile = [&](Value stage) { return b.advance(kTile(stage), tileBytes); };
  TileCopy qCopy(b, t.rowLayout, block.rows(shape.q), block.thread);
  TileCopy kCopy(b, t.tileLayout, block.rows(shape.k), block.thread);
  TileCopy vCopy(b, t.tileLayout, block.rows(shape.v), block.thread);
  auto start = [&](Value index, Value stage) {
    Value key = b.mul(index, tiles.columns);
    kCopy.start(kBase, kTile(stage), key, block.keyLimit);
    vCopy.start(vBase, vTile(stage), key, block.keyLimit);
  };
  auto arrive = [&](Value stage) {
    if (!t.rounds())
      return;
    kCopy.roundTF32(kTile(stage));
    vCopy.roundTF32(vTile(stage));
  };
  TilePipeline pipeline{tiles.stages, start, arrive};

  qCopy.start(qBase, qTile, first, b.i32(shape.queries));
  b.commitCopies();
  AttentionBlock::Tiles range =
      block.keyTiles(first, t.rowCount, tiles.columns);
  pipeline.prologue(b, b.i32(0));
  SmallVector<WarpMma::Operand> kept;
  if (t.rounds() || tiles.keepA) {
    b.waitCopies(tiles.stages - 1);
    if (t.rounds())
      qCopy.roundTF32(qTile);
  }
  if (tiles.keepA) {
    b.barrier();
    for (int32_t m = 0; m != tiles.rowTiles; ++m)
      for (int32_t step = 0; step != t.steps; ++step)
        kept.push_back(t.mma.loadA(t.rowA, qTile, m, step));
  }

  TensorForward::State state;
  state.out = t.zeros(t.depthTiles);
  state.maxima.assign(2 * tiles.rowTiles, b.f32(-kInf));
  state.sums.assign(2 * tiles.rowTiles, b.f32(0));
  for (int32_t m = 0; m != tiles.rowTiles; ++m)
    for (int32_t e : {0, 2})
      t.lastKeys.push_back(block.lastKey(t.row(first, m, e)));
  Value warpLast =
      block.lastKey(b.add(b.add(first, t.warpRow), 16 * tiles.rowTiles - 1));

  SmallVector<Value> values = pipeline.run(
      b, b.i32(0), range.full, range.end, /*maskedFirst=*/false, t.pack(state),
      [&](Value index, Value stage, bool masked, ValueRange carried) {
        Value key = b.mul(index, tiles.columns);
        auto compute = [&] {
          Fragment s = t.zeros(tiles.columns / 8);
          t.mma.multiply(
              s,
              [&](int32_t m, int32_t step) {
                return tiles.keepA ? kept[m * t.steps + step]
                                   : t.mma.loadA(t.rowA, qTile, m, step);
              },
              t.tileB, kTile(stage), t.steps);
          TensorForward::State next = t.unpack(carried);
          t.addTile(next, std::move(s), vTile(stage), key, masked);
          return t.pack(next);
        };
        if (!masked || !block.masked)
          return compute();
        // A warp passes by tiles of which it sees no key.
        Value sees = b.compare(arith::CmpIPredicate::sle, key, warpLast);
        return b.branch(sees, carried, compute);
      });
  state = t.unpack(values);
  block.finishCopies();

  Value lse = block.rowScalars(b.operand(count - 1), block.headBlock);
  for (int32_t m = 0; m != tiles.rowTiles; ++m)
    for (int32_t half = 0; half != 2; ++half) {
      Value sum = state.sums[2 * m + half];
      sum = b.addF(sum, b.shuffleXor(sum, 1));
      sum = b.addF(sum, b.shuffleXor(sum, 2));
      // Written so that a NaN sum is not taken for an empty row.
      Value inverse =
          b.select(b.equalF(sum, b.f32(0)), b.f32(0), b.divF(b.f32(1), sum));
      for (int32_t n = 0; n != t.depthTiles; ++n)
        for (int32_t e : {2 * half, 2 * half + 1})
          state.out.at(m, n, e) = b.mulF(state.out.at(m, n, e), inverse);
      Value row = t.row(first, m, 2 * half);
      Value writes =
          b.bitAnd(b.equal(t.mma.column, 0), b.lessThan(row, shape.queries));
      b.branch(writes, [&] {
        Value logarithm = b.fma(state.maxima[2 * m + half], b.f32(t.factor),
                                b.log2Approx(sum));
        b.store(b.mulF(logarithm, b.f32(M_LN2)),
                b.advance(lse, b.wideOffset(row, 4)), 4);
      });
    }
  t.storeRows(state.out, qTile, b.operand(count - 2), shape.o, block.headBlock,
              first, b.i32(shape.queries));

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.heads), int32_t(shape.batch)};
  launch.block = {32 * tiles.warps, 1, 1};
  launch.sharedBytes = qBytes + 2 * tiles.stages * tileBytes;
  return launch;
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//
//
// With P = exp(scale · s - lse), dP = dO · Vᵀ and dS = P ∘ (dP - delta):
// dQ = scale · dS · K, dK = scale · dSᵀ · Q and dV = Pᵀ · dO (FlashAttention-2,
// algorithm 2).

DeviceLaunch blurt::emitGradQOnTensorCores(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  const AttentionTiles &tiles = emission.tiles;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 7, {6},
                  32 * tiles.warps, tiles.minBlocks);
  TensorBlock t(b, emission, {});
  AttentionBlock &block = t.block;

  auto blocks = int32_t(llvm::divideCeil(shape.queries, t.rowCount));
  Value first = b.mul(b.sub(blocks - 1, b.blockId(0)), t.rowCount);
  Value keyHead = b.div(block.headBlock, shape.heads / shape.keyHeads);
  Value qBase = block.base(b.operand(0), shape.q, block.headBlock);
  Value kBase = block.base(b.operand(1), shape.k, keyHead);
  Value vBase = block.base(b.operand(2), shape.v, keyHead);
  Value dOBase = block.base(b.operand(4), shape.dO, block.headBlock);

  // Shared memory: q, do, then k and v of each stage.
  int32_t rowBytes = t.rowLayout.bytes(), tileBytes = t.tileLayout.bytes();
  Value qTile = b.shared(), dOTile = b.advance(qTile, rowBytes);
  auto kTile = [&](Value stage) {
    return b.advance(b.advance(qTile, b.mul(stage, 2 * tileBytes)),
                     2 * rowBytes);
  };
  auto vTile = [&](Value stage) { return b.advance(kTile(stage), tileBytes); };
  TileCopy qCopy(b, t.rowLayout, block.rows(shape.q), block.thread);
  TileCopy dOCopy(b, t.rowLayout, block.rows(shape.dO), block.thread);
  TileCopy kCopy(b, t.tileLayout, block.rows(shape.k), block.thread);
  TileCopy vCopy(b, t.tileLayout, block.rows(shape.v), block.thread);
  auto start = [&](Value index, Value stage) {
    Value key = b.mul(index, tiles.columns);
    kCopy.start(kBase, kTile(stage), key, block.keyLimit);
    vCopy.start(vBase, vTile(stage), key, block.keyLimit);
  };
  auto arrive = [&](Value stage) {
    if (!t.rounds())
      return;
    kCopy.roundTF32(kTile(stage));
    vCopy.roundTF32(vTile(stage));
  };
  TilePipeline pipeline{tiles.stages, start, arrive};

  Value limit = b.i32(shape.queries);
  qCopy.start(qBase, qTile, first, limit);
  dOCopy.start(dOBase, dOTile, first, limit);
  b.commitCopies();
  AttentionBlock::Tiles range =
      block.keyTiles(first, t.rowCount, tiles.columns);
  pipeline.prologue(b, b.i32(0));

  double factor = shape.scale * M_LOG2E;
  Value lseBase = block.rowScalars(b.operand(3), block.headBlock);
  Value deltaBase = block.rowScalars(b.operand(5), block.headBlock);
  SmallVector<Value> shifts, deltas, lastKeys;
  for (int32_t m = 0; m != tiles.rowTiles; ++m)
    for (int32_t e : {0, 2}) {
      Value row = t.row(first, m, e);
      lastKeys.push_back(block.lastKey(row));
      Value offset = b.wideOffset(b.min(row, shape.queries - 1), 4);
      Value lse = b.load(b.getF32Type(), b.advance(lseBase, offset), 4);
      shifts.push_back(b.mulF(lse, b.f32(-M_LOG2E)));
      deltas.push_back(b.load(b.getF32Type(), b.advance(deltaBase, offset), 4));
    }
  Value warpLast =
      block.lastKey(b.add(b.add(first, t.warpRow), 16 * tiles.rowTiles - 1));
  if (t.rounds()) {
    b.waitCopies(tiles.stages - 1);
    qCopy.roundTF32(qTile);
    dOCopy.roundTF32(dOTile);
  }

  SmallVector<Value> values = pipeline.run(
      b, b.i32(0), range.full, range.end, /*maskedFirst=*/false,
      t.zeros(t.depthTiles).values,
      [&](Value index, Value stage, bool masked, ValueRange carried) {
        Value key = b.mul(index, tiles.columns);
        auto compute = [&] {
          Fragment p = t.scores(qTile, kTile(stage));
          Value origin = b.add(key, t.mma.column);
          for (int32_t m = 0; m != tiles.rowTiles; ++m)
            for (int32_t e = 0; e != 4; ++e) {
              int32_t row = 2 * m + e / 2;
              Value last = masked ? b.sub(lastKeys[row], origin) : Value();
              for (int32_t n = 0; n != p.nTiles; ++n) {
                Value &value = p.at(m, n, e);
                value = b.exp2Approx(b.fma(value, b.f32(factor), shifts[row]));
                if (masked)
                  value = b.select(b.lessThan(last, Fragment::column(n, e)),
                                   b.f32(0), value);
              }
            }
          Fragment ds = t.scores(dOTile, vTile(stage));
          for (int32_t m = 0; m != tiles.rowTiles; ++m)
            for (int32_t n = 0; n != p.nTiles; ++n)
              for (int32_t e = 0; e != 4; ++e) {
                Value &value = ds.at(m, n, e);
                value =
                    b.mulF(p.at(m, n, e), b.subF(value, deltas[2 * m + e / 2]));
              }
          Fragment sum(tiles.rowTiles, t.depthTiles, carried);
          t.mma.multiplyAcross(sum, ds, t.tileAcross, kTile(stage));
          return sum.values;
        };
        if (!masked || !block.masked)
          return compute();
        Value sees = b.compare(arith::CmpIPredicate::sle, key, warpLast);
        return b.branch(sees, carried, compute);
      });
  block.finishCopies();
  Fragment dQ(tiles.rowTiles, t.depthTiles, values);
  for (Value &value : dQ.values)
    value = b.mulF(value, b.f32(shape.scale));
  t.storeRows(dQ, qTile, b.operand(6), shape.dQ, block.headBlock, first, limit);

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.heads), int32_t(shape.batch)};
  launch.block = {32 * tiles.warps, 1, 1};
  launch.sharedBytes = 2 * rowBytes + 2 * tiles.stages * tileBytes;
  return launch;
}

DeviceLaunch blurt::emitGradKVOnTensorCores(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  const AttentionTiles &tiles = emission.tiles;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 8, {6, 7},
                  32 * tiles.warps, tiles.minBlocks);
  TensorBlock t(b, emission, {});
  AttentionBlock &block = t.block;

  auto blocks = int32_t(llvm::divideCeil(shape.keys, t.rowCount));
  Value first = b.mul(b.blockId(0), t.rowCount);
  Value keyHead = block.headBlock;
  Value kBase = block.base(b.operand(1), shape.k, keyHead);
  Value vBase = block.base(b.operand(2), shape.v, keyHead);

  // Shared memory: k, v, then q, do, lse and delta of each stage.
  int32_t rowBytes = t.rowLayout.bytes(), tileBytes = t.tileLayout.bytes();
  int32_t scalarBytes = tiles.columns * 4;
  int32_t stageBytes = 2 * (tileBytes + scalarBytes);
  // Tiles stay aligned to their swizzle.
  stageBytes = llvm::alignTo(stageBytes, 128);
  Value kTile = b.shared(), vTile = b.advance(kTile, rowBytes);
  auto qTile = [&](Value stage) {
    return b.advance(b.advance(kTile, b.mul(stage, stageBytes)), 2 * rowBytes);
  };
  auto dOTile = [&](Value stage) { return b.advance(qTile(stage), tileBytes); };
  auto lseTile = [&](Value stage) {
    return b.advance(qTile(stage), 2 * tileBytes);
  };
  auto deltaTile = [&](Value stage) {
    return b.advance(lseTile(stage), scalarBytes);
  };
  TileCopy kCopy(b, t.rowLayout, block.rows(shape.k), block.thread);
  TileCopy vCopy(b, t.rowLayout, block.rows(shape.v), block.thread);
  TileCopy qCopy(b, t.tileLayout, block.rows(shape.q), block.thread);
  TileCopy dOCopy(b, t.tileLayout, block.rows(shape.dO), block.thread);

  kCopy.start(kBase, kTile, first, block.keyLimit);
  vCopy.start(vBase, vTile, first, block.keyLimit);
  b.commitCopies();

  Value limit = b.i32(shape.queries);
  QueryTiles range = block.queryTiles(first, t.rowCount, tiles.columns);
  if (t.rounds()) {
    b.waitCopies(0);
    kCopy.roundTF32(kTile);
    vCopy.roundTF32(vTile);
  }

  double factor = shape.scale * M_LOG2E;
  SmallVector<Value> firstQueries; // that see the key of a row
  if (block.masked)
    for (int32_t m = 0; m != tiles.rowTiles; ++m)
      for (int32_t e : {0, 2})
        firstQueries.push_back(b.sub(t.row(first, m, e), block.offset));

  auto addHead = [&](Value head, SmallVector<Value> carried) {
    Value qBase = block.base(b.operand(0), shape.q, head);
    Value dOBase = block.base(b.operand(4), shape.dO, head);
    Value lseBase = block.rowScalars(b.operand(3), head);
    Value deltaBase = block.rowScalars(b.operand(5), head);
    auto start = [&](Value index, Value stage) {
      Value query = b.mul(index, tiles.columns);
      qCopy.start(qBase, qTile(stage), query, limit);
      dOCopy.start(dOBase, dOTile(stage), query, limit);
      block.startScalars({lseBase, deltaBase},
                         {lseTile(stage), deltaTile(stage)}, query,
                         tiles.columns);
    };
    auto arrive = [&](Value stage) {
      if (!t.rounds())
        return;
      qCopy.roundTF32(qTile(stage));
      dOCopy.roundTF32(dOTile(stage));
    };
    TilePipeline pipeline{tiles.stages, start, arrive};
    pipeline.prologue(b, range.begin);
    auto body = [&](Value index, Value stage, bool masked, ValueRange values) {
      Value query = b.mul(index, tiles.columns);
      auto type = VectorType::get({2}, b.getF32Type());
      Value column = b.mul(t.mma.column, 4);
      auto scalars = [&](Value tile, int32_t n) {
        Value pair =
            b.load(type, b.advance(b.advance(tile, column), 32 * n), 8);
        return std::array<Value, 2>{b.element(pair, 0), b.element(pair, 1)};
      };
      auto compute = [&] {
        Fragment p = t.scores(kTile, qTile(stage));
        Value origin = b.add(query, t.mma.column);
        for (int32_t n = 0; n != p.nTiles; ++n) {
          auto lse = scalars(lseTile(stage), n);
          Value shifts[] = {b.mulF(lse[0], b.f32(-M_LOG2E)),
                            b.mulF(lse[1], b.f32(-M_LOG2E))};
          for (int32_t m = 0; m != tiles.rowTiles; ++m)
            for (int32_t e = 0; e != 4; ++e) {
              Value &value = p.at(m, n, e);
              value = b.exp2Approx(b.fma(value, b.f32(factor), shifts[e % 2]));
              if (masked && block.masked) {
                Value from = b.sub(firstQueries[2 * m + e / 2], origin);
                Value sees = b.compare(arith::CmpIPredicate::sle, from,
                                       b.i32(Fragment::column(n, e)));
                value = b.select(sees, value, b.f32(0));
              }
            }
        }
        size_t half = values.size() / 2;
        Fragment dK(tiles.rowTiles, t.depthTiles, values.take_front(half));
        Fragment dV(tiles.rowTiles, t.depthTiles, values.drop_front(half));
        t.mma.multiplyAcross(dV, p, t.tileAcross, dOTile(stage));
        Fragment ds = t.scores(vTile, dOTile(stage));
        for (int32_t n = 0; n != p.nTiles; ++n) {
          auto delta = scalars(deltaTile(stage), n);
          for (int32_t m = 0; m != tiles.rowTiles; ++m)
            for (int32_t e = 0; e != 4; ++e) {
              Value &value = ds.at(m, n, e);
              value = b.mulF(p.at(m, n, e), b.subF(value, delta[e % 2]));
            }
        }
        t.mma.multiplyAcross(dK, ds, t.tileAcross, qTile(stage));
        SmallVector<Value> next = dK.values;
        llvm::append_range(next, dV.values);
        return next;
      };
      if (!masked || !block.masked)
        return compute();
      // A warp passes by tiles of which no query sees its keys.
      Value firstSeen = b.sub(b.add(first, t.warpRow), block.offset);
      Value sees = b.lessThan(firstSeen, b.add(query, tiles.columns));
      return b.branch(sees, values, compute);
    };
    return pipeline.run(b, range.begin, range.whole, range.end,
                        /*maskedFirst=*/true, std::move(carried), body);
  };

  SmallVector<Value> carried = block.forQueryHeads(
      SmallVector<Value>(2 * t.zeros(t.depthTiles).values.size(), b.f32(0)),
      addHead);

  size_t half = carried.size() / 2;
  ValueRange all(carried);
  Fragment dK(tiles.rowTiles, t.depthTiles, all.take_front(half));
  Fragment dV(tiles.rowTiles, t.depthTiles, all.drop_front(half));
  for (Value &value : dK.values)
    value = b.mulF(value, b.f32(shape.scale));
  block.finishCopies();
  t.storeRows(dK, kTile, b.operand(6), shape.dK, keyHead, first,
              b.i32(shape.keys));
  t.storeRows(dV, vTile, b.operand(7), shape.dV, keyHead, first,
              b.i32(shape.keys));

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.keyHeads), int32_t(shape.batch)};
  launch.block = {32 * tiles.warps, 1, 1};
  launch.sharedBytes = 2 * rowBytes + tiles.stages * stageBytes;
  return launch;
}
