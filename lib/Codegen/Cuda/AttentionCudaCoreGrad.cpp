//===- AttentionCudaCoreGrad.cpp - its gradient in IEEE f32 ---*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "AttentionCudaCore.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blurt;

/// Scores that lie in shared memory at a time where only a warp reads them.
static constexpr int32_t kScoreColumns = 32;

/// exp(score · scale - lse), with `negated` = -lse · log2(e).
static Value getProbability(DeviceBuilder &b, Value score, double scale,
                            Value negated) {
  return b.exp2Approx(b.fma(score, b.f32(scale * M_LOG2E), negated));
}

//===----------------------------------------------------------------------===//
// By tiles of queries
//===----------------------------------------------------------------------===//

DeviceLaunch blurt::emitGradQOnCudaCores(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  const AttentionTiles &tiles = emission.tiles;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 7, {6},
                  32 * tiles.warps, tiles.minBlocks);
  CoreBlock c(b, emission, {}, kScoreColumns);
  AttentionBlock &block = c.block;

  auto blocks = int32_t(llvm::divideCeil(shape.queries, c.rowCount));
  Value first = b.mul(b.sub(blocks - 1, b.blockId(0)), c.rowCount);
  Value keyHead = b.div(block.headBlock, shape.heads / shape.keyHeads);
  Value qBase = block.base(b.operand(0), shape.q, block.headBlock);
  Value kBase = block.base(b.operand(1), shape.k, keyHead);
  Value vBase = block.base(b.operand(2), shape.v, keyHead);
  Value dOBase = block.base(b.operand(4), shape.dO, block.headBlock);

  // Shared memory: q, do, k, v, scores.
  int32_t rowBytes = c.rowLayout.bytes(), tileBytes = c.tileLayout.bytes();
  Value qTile = b.shared(), dOTile = b.advance(qTile, rowBytes),
        kTile = b.advance(dOTile, rowBytes),
        vTile = b.advance(kTile, tileBytes),
        scoreTile = b.advance(vTile, tileBytes);
  TileCopy qCopy(b, c.rowLayout, block.rows(shape.q), block.thread);
  TileCopy dOCopy(b, c.rowLayout, block.rows(shape.dO), block.thread);
  TileCopy kCopy(b, c.tileLayout, block.rows(shape.k), block.thread);
  TileCopy vCopy(b, c.tileLayout, block.rows(shape.v), block.thread);
  qCopy.start(qBase, qTile, first, b.i32(shape.queries));
  dOCopy.start(dOBase, dOTile, first, b.i32(shape.queries));

  Value lseBase = block.rowScalars(b.operand(3), block.headBlock);
  Value deltaBase = block.rowScalars(b.operand(5), block.headBlock);
  SmallVector<Value> lses, deltas;
  for (int32_t i = 0; i != tiles.rowTiles; ++i) {
    Value offset = b.wideOffset(b.min(c.row(first, i), shape.queries - 1), 4);
    Value lse = b.load(b.getF32Type(), b.advance(lseBase, offset), 4);
    lses.push_back(b.mulF(lse, b.f32(-M_LOG2E)));
    deltas.push_back(b.load(b.getF32Type(), b.advance(deltaBase, offset), 4));
  }

  SmallVector<Value> carried = walkInTurns(
      c, first,
      [&](Value index) {
        vCopy.start(vBase, vTile, b.mul(index, tiles.columns), block.keyLimit);
      },
      [&](Value index) {
        kCopy.start(kBase, kTile, b.mul(index, tiles.columns), block.keyLimit);
      },
      c.zeros(4 * c.wide).values,
      [&](Value index, const ScoreMask &mask, ValueRange values,
          llvm::function_ref<void()> turn) {
        Patch dP = c.scores(dOTile, vTile, mask);
        turn();
        Patch s = c.scores(qTile, kTile, mask);
        Value origin = b.add(b.mul(index, tiles.columns), c.x);
        for (int32_t i = 0; i != s.rows; ++i) {
          Value last;
          if (mask.kind != ScoreMask::All)
            last = b.sub(block.lastKey(c.row(first, i)), origin);
          for (int32_t j = 0; j != s.columns; ++j) {
            ScoreMask::Cell cell = c.cell(mask, i, j);
            if (cell == ScoreMask::Hidden)
              continue;
            Value p = getProbability(b, s.at(i, j), shape.scale, lses[i]);
            if (cell == ScoreMask::Partial)
              p = b.select(b.compare(arith::CmpIPredicate::sge, last,
                                     b.i32(c.laneColumns * j)),
                           p, b.f32(0));
            s.at(i, j) = b.mulF(p, b.subF(dP.at(i, j), deltas[i]));
          }
        }
        Patch sum(s.rows, 4 * c.wide, values);
        c.multiplyAcross(sum, s, scoreTile, kTile, mask);
        return sum.values;
      });
  Patch dQ(tiles.rowTiles, 4 * c.wide, carried);
  for (Value &value : dQ.values)
    value = b.mulF(value, b.f32(shape.scale));
  c.storeRows(dQ, b.operand(6), shape.dQ, block.headBlock, first,
              shape.queries);

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.heads), int32_t(shape.batch)};
  launch.block = {32 * tiles.warps, 1, 1};
  launch.sharedBytes = 2 * rowBytes + 2 * tileBytes + c.scoreLayout.bytes();
  return launch;
}

//===----------------------------------------------------------------------===//
// By tiles of keys
//===----------------------------------------------------------------------===//

namespace {
/// Blocks whose rows are keys, which walk tiles of queries.
struct KeyBlock {
  /// `operands` of the gradients' kernel are written from number 6 on.
  KeyBlock(const AttentionEmission &emission, unsigned operands,
           int32_t scoreColumns)
      : shape(emission.shape), tiles(emission.tiles),
        b(emission.module, emission.loc, emission.name, operands,
          llvm::to_vector(llvm::seq(6u, operands)), 32 * tiles.warps,
          tiles.minBlocks),
        c(b, emission, {}, scoreColumns), block(c.block),
        rowBytes(c.rowLayout.bytes()), tileBytes(c.tileLayout.bytes()),
        kTile(b.shared()), vTile(b.advance(kTile, rowBytes)),
        qTile(b.advance(vTile, rowBytes)), dOTile(b.advance(qTile, tileBytes)),
        scoreTile(b.advance(dOTile, tileBytes)),
        lseTile(b.advance(scoreTile, c.scoreLayout.bytes())),
        deltaTile(b.advance(lseTile, 4 * tiles.columns)),
        kCopy(b, c.rowLayout, block.rows(shape.k), block.thread),
        vCopy(b, c.rowLayout, block.rows(shape.v), block.thread),
        qCopy(b, c.tileLayout, block.rows(shape.q), block.thread),
        dOCopy(b, c.tileLayout, block.rows(shape.dO), block.thread),
        kBase(block.base(b.operand(1), shape.k, block.headBlock)),
        vBase(block.base(b.operand(2), shape.v, block.headBlock)),
        limit(b.i32(shape.queries)) {}

  int32_t getSharedBytes() const {
    return 2 * rowBytes + 2 * tileBytes + c.scoreLayout.bytes() +
           8 * tiles.columns;
  }
  /// Where query head `head` begins.
  struct Head {
    Value q, dO, lse, delta;
  };
  Head getHead(Value head) {
    return {block.base(b.operand(0), shape.q, head),
            block.base(b.operand(4), shape.dO, head),
            block.rowScalars(b.operand(3), head),
            block.rowScalars(b.operand(5), head)};
  }
  void startKeys(Value first) {
    kCopy.start(kBase, kTile, first, block.keyLimit);
    vCopy.start(vBase, vTile, first, block.keyLimit);
    b.commitCopies();
  }
  void startQ(const Head &head, Value query) {
    qCopy.start(head.q, qTile, query, limit);
  }
  void startDO(const Head &head, Value query) {
    dOCopy.start(head.dO, dOTile, query, limit);
    block.startScalars({head.lse, head.delta}, {lseTile, deltaTile}, query,
                       tiles.columns);
  }
  /// The value of this thread's column `j` in a tile of scalars.
  Value scalar(Value tile, int32_t j) {
    return b.load(
        b.getF32Type(),
        b.advance(b.advance(tile, b.mul(c.x, 4)), 4 * c.laneColumns * j), 4);
  }
  /// How the masked tiles of queries are masked.
  ScoreMask getMask() const {
    if (!block.masked)
      return {};
    bool fixed = c.rowCount == tiles.columns &&
                 hasFixedDiagonal(shape, c.rowCount, tiles.columns);
    return {fixed ? ScoreMask::FromColumn : ScoreMask::Computed};
  }
  /// Scores of keys from `first` on and queries from `origin` on to
  /// probabilities; zeros where there is none.
  void toProbabilities(Patch &p, Value first, Value origin,
                       const ScoreMask &mask);
  /// dp to ds = p · (dp - delta) · scale, p(i, j) being what `get` says.
  void toScoreGradients(Patch &dP, const ScoreMask &mask,
                        llvm::function_ref<Value(int32_t, int32_t)> get);
  void storeKeys(Patch &dK, Patch &dV, unsigned operand, Value first) {
    c.storeRows(dK, b.operand(operand), shape.dK, block.headBlock, first,
                shape.keys);
    c.storeRows(dV, b.operand(operand + 1), shape.dV, block.headBlock, first,
                shape.keys);
  }

  const AttentionShape &shape;
  const AttentionTiles &tiles;
  DeviceBuilder b;
  CoreBlock c;
  AttentionBlock &block;
  int32_t rowBytes, tileBytes;
  Value kTile, vTile, qTile, dOTile, scoreTile, lseTile, deltaTile;
  TileCopy kCopy, vCopy, qCopy, dOCopy;
  Value kBase, vBase, limit;
};
} // namespace

void KeyBlock::toProbabilities(Patch &p, Value first, Value origin,
                               const ScoreMask &mask) {
  // Keys that do not exist have scores of 0, which may be far above any lse.
  bool hasTail = !block.masked && shape.keys % c.rowCount != 0;
  Value key = c.row(first, 0), ahead; // of the first column
  if (mask.kind != ScoreMask::All)
    ahead = b.sub(b.sub(key, block.offset), b.add(origin, c.x));
  for (int32_t j = 0; j != p.columns; ++j) {
    Value lse = b.mulF(scalar(lseTile, j), b.f32(-M_LOG2E));
    for (int32_t i = 0; i != p.rows; ++i) {
      ScoreMask::Cell cell = c.cell(mask, i, j);
      Value &value = p.at(i, j);
      if (cell == ScoreMask::Hidden)
        continue;
      value = getProbability(b, value, shape.scale, lse);
      Value seen;
      if (hasTail)
        seen = b.lessThan(key, shape.keys - c.band() * i);
      else if (cell == ScoreMask::Partial)
        seen = b.lessThan(ahead, c.laneColumns * j - c.band() * i + 1);
      if (seen)
        value = b.select(seen, value, b.f32(0));
    }
  }
}

void KeyBlock::toScoreGradients(
    Patch &dP, const ScoreMask &mask,
    llvm::function_ref<Value(int32_t, int32_t)> get) {
  Value scale = b.f32(shape.scale);
  for (int32_t j = 0; j != dP.columns; ++j) {
    Value delta = b.mulF(scalar(deltaTile, j), b.f32(-shape.scale));
    for (int32_t i = 0; i != dP.rows; ++i)
      if (c.cell(mask, i, j) != ScoreMask::Hidden)
        dP.at(i, j) = b.mulF(get(i, j), b.fma(dP.at(i, j), scale, delta));
  }
}

DeviceLaunch blurt::emitGradKVOnCudaCores(const AttentionEmission &emission) {
  KeyBlock k(emission, 8, kScoreColumns);
  DeviceBuilder &b = k.b;
  CoreBlock &c = k.c;
  const AttentionShape &shape = k.shape;
  const AttentionTiles &tiles = k.tiles;
  auto blocks = int32_t(llvm::divideCeil(shape.keys, c.rowCount));
  Value first = b.mul(b.blockId(0), c.rowCount);
  k.startKeys(first);
  QueryTiles range = k.block.queryTiles(first, c.rowCount, tiles.columns);

  int32_t width = 4 * c.wide;
  auto addHead = [&](Value number, SmallVector<Value> carried) {
    KeyBlock::Head head = k.getHead(number);
    auto start = [&](Value index, Value) {
      Value query = b.mul(index, tiles.columns);
      k.startQ(head, query);
      k.startDO(head, query);
    };
    TilePipeline pipeline{1, start, nullptr};
    auto body = [&](Value index, Value, bool masked, ValueRange values) {
      ScoreMask mask = masked ? k.getMask() : ScoreMask();
      Patch dK(tiles.rowTiles, width, values.take_front(values.size() / 2));
      Patch dV(tiles.rowTiles, width, values.drop_front(values.size() / 2));
      Patch p = c.scores(k.kTile, k.qTile, mask);
      k.toProbabilities(p, first, b.mul(index, tiles.columns), mask);
      c.multiplyAcross(dV, p, k.scoreTile, k.dOTile, mask);
      Patch ds = c.scores(k.vTile, k.dOTile, mask);
      k.toScoreGradients(ds, mask,
                         [&](int32_t i, int32_t j) { return p.at(i, j); });
      c.multiplyAcross(dK, ds, k.scoreTile, k.qTile, mask);
      SmallVector<Value> next = dK.values;
      llvm::append_range(next, dV.values);
      return next;
    };
    return pipeline.run(b, range.begin, range.whole, range.end,
                        /*maskedFirst=*/true, std::move(carried), body);
  };
  SmallVector<Value> carried = k.block.forQueryHeads(
      SmallVector<Value>(2 * tiles.rowTiles * width, b.f32(0)), addHead);

  ValueRange all(carried);
  Patch dK(tiles.rowTiles, width, all.take_front(all.size() / 2));
  Patch dV(tiles.rowTiles, width, all.drop_front(all.size() / 2));
  k.storeKeys(dK, dV, 6, first);

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.keyHeads), int32_t(shape.batch)};
  launch.block = {32 * tiles.warps, 1, 1};
  launch.sharedBytes = k.getSharedBytes();
  return launch;
}

//===----------------------------------------------------------------------===//
// All three by one block
//===----------------------------------------------------------------------===//

namespace {
/// A thread's part of dq for a tile of queries: rows of four queries each,
/// chunks as wide as the depth.
struct GradQTile {
  GradQTile(KeyBlock &k)
      : k(k), b(k.b), c(k.c), groupRows(4 * c.band()),
        groups(k.tiles.columns / groupRows), width(4 * c.wide),
        queryInGroup(b.mul(c.ownRow, 4)), rows(k.block.rows(k.shape.dQ)),
        reads(b, c.scoreLayout, b.i32(0), c.ownRow),
        across(b, c.rowLayout, b.i32(0), c.x) {
    assert(k.tiles.columns % groupRows == 0 && "queries of no thread");
  }

  Value query(Value origin, int32_t row) {
    return b.add(b.add(origin, queryInGroup), groupRows * (row / 4) + row % 4);
  }
  void forChunks(llvm::function_ref<void(int32_t row, int32_t w)> body) {
    for (int32_t row = 0; row != 4 * groups; ++row)
      for (int32_t w = 0; w != c.wide; ++w)
        body(row, w);
  }
  Value column(int32_t w) {
    return b.add(b.shiftLeft(c.x, 2), 4 * c.laneColumns * w);
  }

  Patch load(Value base, Value origin) {
    Patch sum(4 * groups, width, b.f32(0));
    forChunks([&](int32_t row, int32_t w) {
      Value at = b.min(query(origin, row), k.shape.queries - 1);
      llvm::copy(loadColumns(b, rows, base, at, column(w)),
                 sum.values.begin() + row * width + 4 * w);
    });
    return sum;
  }
  void store(Patch &sum, Value base, Value origin) {
    for (int32_t row = 0; row != 4 * groups; ++row) {
      Value at = query(origin, row);
      b.branch(b.lessThan(at, k.shape.queries), [&] {
        for (int32_t w = 0; w != c.wide; ++w)
          storeColumns(
              b, rows, base, at, column(w),
              ArrayRef<Value>(sum.values).slice(row * width + 4 * w, 4));
      });
    }
  }
  /// sum += dsᵀ · k.
  void multiply(Patch &sum, const ScoreMask &mask) {
    // Keys that the same groups see go together.
    auto firstGroup = [&](int32_t i) {
      int32_t group = 0;
      while (group != groups &&
             mask.cell(c.band() * i, c.band(), groupRows * group, groupRows) ==
                 ScoreMask::Hidden)
        ++group;
      return group;
    };
    for (int32_t i = 0, end; i != k.tiles.rowTiles; i = end) {
      int32_t from = firstGroup(i);
      for (end = i + 1; end != k.tiles.rowTiles; ++end)
        if (firstGroup(end) != from)
          break;
      multiplySegment(sum, from, c.band() * i, c.band() * (end - i));
    }
  }
  void multiplySegment(Patch &sum, int32_t from, int32_t key, int32_t count) {
    constexpr int32_t kKeys = 8;
    assert(count % kKeys == 0 && "odd number of keys");
    int32_t skipped = 4 * from * width;
    Value ds = reads.at(b, k.scoreTile, key, 0);
    Value kRow = across.at(b, k.kTile, key, 0);
    SmallVector<Value> values =
        b.loop(b.i32(0), b.i32(count), kKeys,
               ValueRange(sum.values).drop_front(skipped),
               [&](Value index, ValueRange sums) {
                 Patch next(sum.rows - 4 * from, width, sums);
                 Value a = b.advance(ds, b.mul(index, c.scoreLayout.pitch));
                 Value row = b.advance(kRow, b.mul(index, c.rowLayout.pitch));
                 for (int32_t e = 0; e != kKeys; ++e) {
                   SmallVector<Value> queries;
                   for (int32_t group = from; group != groups; ++group)
                     llvm::append_range(
                         queries,
                         b.loadF32x4(b.advance(a, e * c.scoreLayout.pitch +
                                                      4 * groupRows * group)));
                   for (int32_t w = 0; w != c.wide; ++w) {
                     SmallVector<Value> columns = b.loadF32x4(b.advance(
                         row, e * c.rowLayout.pitch + 16 * c.laneColumns * w));
                     for (int32_t i = 0; i != next.rows; ++i)
                       for (int32_t n = 0; n != 4; ++n)
                         next.at(i, 4 * w + n) = b.fma(queries[i], columns[n],
                                                       next.at(i, 4 * w + n));
                   }
                 }
                 return next.values;
               });
    llvm::copy(values, sum.values.begin() + skipped);
  }

  KeyBlock &k;
  DeviceBuilder &b;
  CoreBlock &c;
  int32_t groupRows, groups, width;
  Value queryInGroup;
  GlobalRows rows;
  TileCursor reads, across;
};
} // namespace

/// A block owns a key-value head. It walks tiles of keys, and for each the
/// queries that see them: dk and dv lie in registers, and dq, which no other
/// block touches, in global memory, where the same thread adds to the same
/// elements for every tile of keys.
DeviceLaunch blurt::emitGradQKVOnCudaCores(const AttentionEmission &emission) {
  KeyBlock k(emission, 9, emission.tiles.columns);
  DeviceBuilder &b = k.b;
  CoreBlock &c = k.c;
  const AttentionShape &shape = k.shape;
  const AttentionTiles &tiles = k.tiles;
  GradQTile dQTile(k);
  int32_t width = 4 * c.wide;
  auto keyTiles = int32_t(llvm::divideCeil(shape.keys, c.rowCount));

  b.loop(b.i32(0), b.i32(keyTiles), 1, [&](Value keyTile) {
    Value first = b.mul(keyTile, c.rowCount);
    Value isLater = b.lessThan(b.i32(0), keyTile);
    QueryTiles range = k.block.queryTiles(first, c.rowCount, tiles.columns);
    // The first tile of keys writes all of dq.
    Value begin = b.select(isLater, range.begin, b.i32(0));
    // All are done with the tiles of the keys before.
    b.barrier();
    k.startKeys(first);

    auto addHead = [&](Value number, SmallVector<Value> carried) {
      KeyBlock::Head head = k.getHead(number);
      Value dQBase = k.block.base(b.operand(6), shape.dQ, number);
      b.branch(b.lessThan(begin, range.end), [&] {
        Value query = b.mul(begin, tiles.columns);
        k.startQ(head, query);
        k.startDO(head, query);
      });
      b.commitCopies();
      auto body = [&](Value index, const ScoreMask &mask, ValueRange values) {
        Value origin = b.mul(index, tiles.columns);
        Value next = b.add(index, 1);
        Value nextOrigin = b.mul(next, tiles.columns);
        Value hasNext = b.lessThan(next, range.end);
        Patch dK(tiles.rowTiles, width, values.take_front(values.size() / 2));
        Patch dV(tiles.rowTiles, width, values.drop_front(values.size() / 2));
        b.waitCopies(0);
        b.barrier();
        Patch p = c.scores(k.kTile, k.qTile, mask);
        k.toProbabilities(p, first, origin, mask);
        c.storeScores(p, k.scoreTile, 0);
        b.warpBarrier();
        c.multiplyAcross(dV, k.scoreTile, 0, k.dOTile, mask);
        Patch ds = c.scores(k.vTile, k.dOTile, mask);
        // Registers do not hold p and ds; each thread reads back its own.
        k.toScoreGradients(ds, mask, [&](int32_t i, int32_t j) {
          return b.load(
              b.getF32Type(),
              b.advance(c.scoreWrites.at(b, k.scoreTile, c.band() * i, 0),
                        4 * c.laneColumns * j),
              4);
        });
        b.warpBarrier();
        c.storeScores(ds, k.scoreTile, 0);
        // ds is there for all, and all are done with do.
        b.barrier();
        b.branch(hasNext, [&] { k.startDO(head, nextOrigin); });
        b.commitCopies();
        Patch zero(4 * dQTile.groups, width, b.f32(0));
        Patch dQ(zero.rows, width, b.branch(isLater, zero.values, [&] {
          return dQTile.load(dQBase, origin).values;
        }));
        c.multiplyAcross(dK, k.scoreTile, 0, k.qTile, mask);
        // All are done with q.
        b.barrier();
        b.branch(hasNext, [&] { k.startQ(head, nextOrigin); });
        b.commitCopies();
        dQTile.multiply(dQ, mask);
        dQTile.store(dQ, dQBase, origin);
        SmallVector<Value> sums = dK.values;
        llvm::append_range(sums, dV.values);
        return sums;
      };
      for (bool masked : {true, false}) {
        ScoreMask mask = masked ? k.getMask() : ScoreMask();
        carried = b.loop(masked ? begin : range.whole,
                         masked ? range.whole : range.end, 1, carried,
                         [&](Value index, ValueRange values) {
                           return body(index, mask, values);
                         });
      }
      return carried;
    };
    SmallVector<Value> carried = k.block.forQueryHeads(
        SmallVector<Value>(2 * tiles.rowTiles * width, b.f32(0)), addHead);
    ValueRange all(carried);
    Patch dK(tiles.rowTiles, width, all.take_front(all.size() / 2));
    Patch dV(tiles.rowTiles, width, all.drop_front(all.size() / 2));
    k.storeKeys(dK, dV, 7, first);
  });

  DeviceLaunch launch;
  launch.grid = {1, int32_t(shape.keyHeads), int32_t(shape.batch)};
  launch.block = {32 * tiles.warps, 1, 1};
  launch.sharedBytes = k.getSharedBytes();
  return launch;
}
