//===- AttentionCudaCore.cpp - attention in IEEE f32 ----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Products by fused multiply-adds, for policies that want f32 throughout. The
// lanes of a warp are four by eight: lane (y, x) owns rows y + 4i of the
// warp's, and columns x + 8j of a tile of scores or chunks x + 8j of a row of
// depth elements. Rows of tiles are padded, so that what eight lanes read at a
// time lies in different banks. Scores reach the lanes that need them for the
// second product through shared memory, a part of the tile at a time; only the
// warp that owns the rows takes part in that.
//
//===----------------------------------------------------------------------===//

#include "AttentionBlock.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blurt;

/// Keys or queries whose scores lie in shared memory at a time.
static constexpr int32_t kScoreColumns = 32;
static constexpr double kInf = std::numeric_limits<double>::infinity();

namespace {
/// A thread's part of a product: rows × columns values.
struct Patch {
  Patch() = default;
  Patch(int32_t rows, int32_t columns, Value fill)
      : rows(rows), columns(columns), values(rows * columns, fill) {}
  Patch(int32_t rows, int32_t columns, ValueRange values)
      : rows(rows), columns(columns), values(values.begin(), values.end()) {}
  Value &at(int32_t i, int32_t j) { return values[i * columns + j]; }

  int32_t rows = 0, columns = 0;
  SmallVector<Value> values;
};

struct CoreBlock {
  CoreBlock(DeviceBuilder &b, const AttentionEmission &emission, Value position)
      : b(b), shape(emission.shape), tiles(emission.tiles),
        block(b, shape, position), warp(b.div(block.thread, 32)),
        y(b.div(b.rem(block.thread, 32), 8)), x(b.rem(block.thread, 8)),
        rowCount(4 * tiles.rowTiles * tiles.warps),
        perThread(tiles.columns / 8), wide(llvm::divideCeil(shape.depth, 32)),
        depthChunks(llvm::alignTo(llvm::divideCeil(shape.depth, 4), 2)),
        rowLayout(TileLayout::get(rowCount, wide * 128, /*padded=*/true)),
        tileLayout(TileLayout::get(tiles.columns, wide * 128, true)),
        scoreLayout(TileLayout::get(rowCount, kScoreColumns * 4, true)),
        warpRow(b.mul(warp, 4 * tiles.rowTiles)), ownRow(b.add(warpRow, y)),
        ownRows(b, rowLayout, ownRow, b.i32(0)),
        tileRows(b, tileLayout, x, b.i32(0)),
        tileAcross(b, tileLayout, b.i32(0), x),
        scoreWrites(b, scoreLayout, ownRow, b.i32(0), b.mul(x, 4)),
        scoreReads(b, scoreLayout, ownRow, b.i32(0)) {}

  Patch zeros(int32_t columns) {
    return Patch(tiles.rowTiles, columns, b.f32(0));
  }
  /// The sum of `value` over the eight lanes of a row.
  Value sumLanes(Value value) {
    for (int32_t mask : {1, 2, 4})
      value = b.addF(value, b.shuffleXor(value, mask));
    return value;
  }
  Value row(Value first, int32_t i) {
    return b.add(b.add(first, ownRow), 4 * i);
  }

  /// Runs `body` for every second of `count` chunks, with what lies at it.
  SmallVector<Value> forChunkPairs(
      int32_t count, ValueRange inits,
      llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body) {
    return b.loop(b.i32(0), b.i32(count), 2, inits, body);
  }
  /// rows · tileᵀ: each of the block's own rows with each of a tile.
  Patch scores(Value rows, Value tile);
  /// sum += p · tile.
  void multiplyAcross(Patch &sum, Patch &p, Value scoreTile, Value tile);
  /// Stores a patch as wide as the depth.
  void storeRows(Patch &patch, Value operand, const RowStrides &strides,
                 Value head, Value first, int64_t limit);

  DeviceBuilder &b;
  const AttentionShape &shape;
  const AttentionTiles &tiles;
  AttentionBlock block;
  Value warp, y, x;
  int32_t rowCount;
  int32_t perThread;   ///< columns of a thread
  int32_t wide;        ///< chunks of depth of a thread
  int32_t depthChunks; ///< chunks that products along the depth take
  TileLayout rowLayout, tileLayout, scoreLayout;
  Value warpRow, ownRow;
  TileCursor ownRows, tileRows, tileAcross, scoreWrites, scoreReads;
};
} // namespace

Patch CoreBlock::scores(Value rows, Value tile) {
  Value a = ownRows.at(b, rows, 0, 0), c = tileRows.at(b, tile, 0, 0);
  int32_t aPitch = 4 * rowLayout.pitch, cPitch = 8 * tileLayout.pitch;
  Patch zero = zeros(perThread);
  return Patch(
      zero.rows, zero.columns,
      forChunkPairs(
          depthChunks, zero.values, [&](Value index, ValueRange sums) {
            Patch sum(zero.rows, zero.columns, sums);
            Value offset = b.shiftLeft(index, 4);
            for (int32_t chunk : {0, 1}) {
              SmallVector<SmallVector<Value>> columns;
              for (int32_t j = 0; j != sum.columns; ++j)
                columns.push_back(b.loadF32x4(
                    b.advance(b.advance(c, offset), j * cPitch + 16 * chunk)));
              for (int32_t i = 0; i != sum.rows; ++i) {
                SmallVector<Value> row = b.loadF32x4(
                    b.advance(b.advance(a, offset), i * aPitch + 16 * chunk));
                for (int32_t e = 0; e != 4; ++e)
                  for (int32_t j = 0; j != sum.columns; ++j)
                    sum.at(i, j) = b.fma(row[e], columns[j][e], sum.at(i, j));
              }
            }
            return sum.values;
          }));
}

void CoreBlock::multiplyAcross(Patch &sum, Patch &p, Value scoreTile,
                               Value tile) {
  int32_t parts = tiles.columns / kScoreColumns;
  int32_t perPart = kScoreColumns / 8;
  Value a = scoreReads.at(b, scoreTile, 0, 0);
  int32_t aPitch = 4 * scoreLayout.pitch;
  for (int32_t part = 0; part != parts; ++part) {
    b.warpBarrier();
    for (int32_t i = 0; i != p.rows; ++i)
      for (int32_t j = 0; j != perPart; ++j)
        b.store(p.at(i, part * perPart + j),
                b.advance(scoreWrites.at(b, scoreTile, 4 * i, 0), 32 * j), 4);
    b.warpBarrier();
    Value c = tileAcross.at(b, tile, part * kScoreColumns, 0);
    sum.values = forChunkPairs(
        kScoreColumns / 4, sum.values, [&](Value index, ValueRange sums) {
          Patch next(sum.rows, sum.columns, sums);
          Value aOffset = b.shiftLeft(index, 4);
          Value cOffset = b.mul(index, 4 * tileLayout.pitch);
          for (int32_t chunk : {0, 1}) {
            SmallVector<SmallVector<Value>> rows;
            for (int32_t i = 0; i != next.rows; ++i)
              rows.push_back(b.loadF32x4(
                  b.advance(b.advance(a, aOffset), i * aPitch + 16 * chunk)));
            for (int32_t e = 0; e != 4; ++e)
              for (int32_t w = 0; w != wide; ++w) {
                SmallVector<Value> columns = b.loadF32x4(
                    b.advance(b.advance(c, cOffset),
                              (4 * chunk + e) * tileLayout.pitch + 128 * w));
                for (int32_t i = 0; i != next.rows; ++i)
                  for (int32_t k = 0; k != 4; ++k)
                    next.at(i, 4 * w + k) =
                        b.fma(rows[i][e], columns[k], next.at(i, 4 * w + k));
              }
          }
          return next.values;
        });
  }
}

void CoreBlock::storeRows(Patch &patch, Value operand,
                          const RowStrides &strides, Value head, Value first,
                          int64_t limit) {
  GlobalRows rows = block.rows(strides);
  Value base = block.base(operand, strides, head);
  for (int32_t i = 0; i != patch.rows; ++i) {
    Value at = row(first, i);
    b.branch(b.lessThan(at, limit), [&] {
      for (int32_t w = 0; w != wide; ++w) {
        Value column = b.add(b.shiftLeft(x, 2), 32 * w);
        storeColumns(
            b, rows, base, at, column,
            ArrayRef<Value>(patch.values).slice(i * patch.columns + 4 * w, 4));
      }
    });
  }
}

/// Walks key tiles whose two operands, `early` and `late`, have one buffer
/// each: while a tile of one is computed with, one of the other is copied.
/// `body` calls its argument between what needs the early operand alone and
/// what needs the late one.
static SmallVector<Value>
walkInTurns(DeviceBuilder &b, const AttentionBlock::Tiles &range,
            llvm::function_ref<void(Value)> early,
            llvm::function_ref<void(Value)> late, SmallVector<Value> carried,
            llvm::function_ref<SmallVector<Value>(Value, bool, ValueRange,
                                                  llvm::function_ref<void()>)>
                body) {
  early(b.i32(0));
  b.commitCopies();
  for (bool masked : {false, true})
    carried =
        b.loop(masked ? range.full : b.i32(0), masked ? range.end : range.full,
               1, carried, [&](Value index, ValueRange values) {
                 b.waitCopies(0);
                 b.barrier();
                 late(index);
                 b.commitCopies();
                 return body(index, masked, values, [&] {
                   b.waitCopies(0);
                   b.barrier();
                   early(b.add(index, 1));
                   b.commitCopies();
                 });
               });
  return carried;
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

DeviceLaunch blurt::emitForwardOnCudaCores(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  const AttentionTiles &tiles = emission.tiles;
  unsigned count = shape.hasPosition ? 6 : 5;
  DeviceBuilder b(emission.module, emission.loc, emission.name, count,
                  {count - 2, count - 1}, 32 * tiles.warps, tiles.minBlocks);
  CoreBlock c(b, emission, shape.hasPosition ? b.operand(3) : Value());
  AttentionBlock &block = c.block;
  bool scaleFirst = !(shape.scale > 0);
  double scale = scaleFirst ? 1 : shape.scale;

  auto blocks = int32_t(llvm::divideCeil(shape.queries, c.rowCount));
  Value first = b.mul(b.sub(blocks - 1, b.blockId(0)), c.rowCount);
  Value keyHead = b.div(block.headBlock, shape.heads / shape.keyHeads);
  Value qBase = block.base(b.operand(0), shape.q, block.headBlock);
  Value kBase = block.base(b.operand(1), shape.k, keyHead);
  Value vBase = block.base(b.operand(2), shape.v, keyHead);

  // Shared memory: q, k, v, scores.
  int32_t rowBytes = c.rowLayout.bytes(), tileBytes = c.tileLayout.bytes();
  Value qTile = b.shared(), kTile = b.advance(qTile, rowBytes),
        vTile = b.advance(kTile, tileBytes),
        scoreTile = b.advance(vTile, tileBytes);
  TileCopy qCopy(b, c.rowLayout, block.rows(shape.q), block.thread);
  TileCopy kCopy(b, c.tileLayout, block.rows(shape.k), block.thread);
  TileCopy vCopy(b, c.tileLayout, block.rows(shape.v), block.thread);
  qCopy.start(qBase, qTile, first, b.i32(shape.queries));

  SmallVector<Value> lastKeys;
  for (int32_t i = 0; i != tiles.rowTiles; ++i)
    lastKeys.push_back(block.lastKey(c.row(first, i)));

  int32_t rows = tiles.rowTiles, width = 4 * c.wide;
  SmallVector<Value> carried(rows * width, b.f32(0));
  carried.append(rows, b.f32(-kInf));
  carried.append(rows, b.f32(0));
  carried = walkInTurns(
      b, block.keyTiles(first, c.rowCount, tiles.columns),
      [&](Value index) {
        kCopy.start(kBase, kTile, b.mul(index, tiles.columns), block.keyLimit);
      },
      [&](Value index) {
        vCopy.start(vBase, vTile, b.mul(index, tiles.columns), block.keyLimit);
      },
      carried,
      [&](Value index, bool masked, ValueRange values,
          llvm::function_ref<void()> turn) {
        Patch out(rows, width, values.take_front(rows * width));
        SmallVector<Value> maxima =
            llvm::to_vector(values.slice(rows * width, rows));
        SmallVector<Value> sums = llvm::to_vector(values.take_back(rows));
        Patch s = c.scores(qTile, kTile);
        Value origin = b.add(b.mul(index, tiles.columns), c.x);
        for (int32_t i = 0; i != rows; ++i) {
          Value last = masked ? b.sub(lastKeys[i], origin) : Value();
          Value max;
          SmallVector<Value> seen;
          for (int32_t j = 0; j != s.columns; ++j) {
            Value &value = s.at(i, j);
            if (scaleFirst)
              value = b.mulF(value, b.f32(shape.scale));
            if (masked) {
              seen.push_back(
                  b.compare(arith::CmpIPredicate::sge, last, b.i32(8 * j)));
              value = b.select(seen.back(), value, b.f32(-kInf));
            }
            max = max ? b.maxF(max, value) : value;
          }
          for (int32_t mask : {1, 2, 4})
            max = b.maxF(max, b.shuffleXor(max, mask));
          Value old = maxima[i];
          max = maxima[i] = b.maxF(old, max);
          // A row that has seen nothing yet keeps exponentials of 0.
          Value nothing = b.equalF(old, b.f32(-kInf));
          Value shift = max;
          if (masked)
            shift = b.select(b.equalF(max, b.f32(-kInf)), b.f32(0), max);
          Value correction = b.exp2Scaled(b.subF(old, shift), scale * M_LOG2E);
          correction = b.select(nothing, b.f32(0), correction);
          Value sum;
          for (int32_t j = 0; j != s.columns; ++j) {
            Value p = b.exp2Scaled(b.subF(s.at(i, j), shift), scale * M_LOG2E);
            if (masked)
              p = b.select(seen[j], p, b.f32(0));
            s.at(i, j) = p;
            sum = sum ? b.addF(sum, p) : p;
          }
          sums[i] = b.fma(sums[i], correction, sum);
          for (int32_t j = 0; j != width; ++j)
            out.at(i, j) = b.mulF(out.at(i, j), correction);
        }
        turn();
        c.multiplyAcross(out, s, scoreTile, vTile);
        SmallVector<Value> next = out.values;
        llvm::append_range(next, maxima);
        llvm::append_range(next, sums);
        return next;
      });

  ValueRange all(carried);
  Patch out(rows, width, all.take_front(rows * width));
  Value lse = block.rowScalars(b.operand(count - 1), block.headBlock);
  for (int32_t i = 0; i != rows; ++i) {
    Value sum = c.sumLanes(carried[rows * (width + 1) + i]);
    Value max = carried[rows * width + i];
    // Written so that a NaN sum is not taken for an empty row.
    Value inverse =
        b.select(b.equalF(sum, b.f32(0)), b.f32(0), b.divF(b.f32(1), sum));
    for (int32_t j = 0; j != width; ++j)
      out.at(i, j) = b.mulF(out.at(i, j), inverse);
    Value at = c.row(first, i);
    Value writes = b.bitAnd(b.equal(c.x, 0), b.lessThan(at, shape.queries));
    b.branch(writes, [&] {
      b.store(b.fma(max, b.f32(scale), b.log(sum)),
              b.advance(lse, b.wideOffset(at, 4)), 4);
    });
  }
  c.storeRows(out, b.operand(count - 2), shape.o, block.headBlock, first,
              shape.queries);

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.heads), int32_t(shape.batch)};
  launch.block = {32 * tiles.warps, 1, 1};
  launch.sharedBytes = rowBytes + 2 * tileBytes + c.scoreLayout.bytes();
  return launch;
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

DeviceLaunch blurt::emitGradQOnCudaCores(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  const AttentionTiles &tiles = emission.tiles;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 7, {6},
                  32 * tiles.warps, tiles.minBlocks);
  CoreBlock c(b, emission, {});
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
  SmallVector<Value> lses, deltas, lastKeys;
  for (int32_t i = 0; i != tiles.rowTiles; ++i) {
    Value row = c.row(first, i);
    lastKeys.push_back(block.lastKey(row));
    Value offset = b.wideOffset(b.min(row, shape.queries - 1), 4);
    lses.push_back(b.load(b.getF32Type(), b.advance(lseBase, offset), 4));
    deltas.push_back(b.load(b.getF32Type(), b.advance(deltaBase, offset), 4));
  }

  SmallVector<Value> carried = walkInTurns(
      b, block.keyTiles(first, c.rowCount, tiles.columns),
      [&](Value index) {
        vCopy.start(vBase, vTile, b.mul(index, tiles.columns), block.keyLimit);
      },
      [&](Value index) {
        kCopy.start(kBase, kTile, b.mul(index, tiles.columns), block.keyLimit);
      },
      c.zeros(4 * c.wide).values,
      [&](Value index, bool masked, ValueRange values,
          llvm::function_ref<void()> turn) {
        Patch dP = c.scores(dOTile, vTile);
        turn();
        Patch s = c.scores(qTile, kTile);
        Value origin = b.add(b.mul(index, tiles.columns), c.x);
        for (int32_t i = 0; i != s.rows; ++i) {
          Value last = masked ? b.sub(lastKeys[i], origin) : Value();
          for (int32_t j = 0; j != s.columns; ++j) {
            Value x = b.fma(s.at(i, j), b.f32(shape.scale),
                            arith::NegFOp::create(b, lses[i]));
            Value p = b.exp2Scaled(x, M_LOG2E);
            if (masked)
              p = b.select(
                  b.compare(arith::CmpIPredicate::sge, last, b.i32(8 * j)), p,
                  b.f32(0));
            s.at(i, j) = b.mulF(p, b.subF(dP.at(i, j), deltas[i]));
          }
        }
        Patch sum(s.rows, 4 * c.wide, values);
        c.multiplyAcross(sum, s, scoreTile, kTile);
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

DeviceLaunch blurt::emitGradKVOnCudaCores(const AttentionEmission &emission) {
  const AttentionShape &shape = emission.shape;
  const AttentionTiles &tiles = emission.tiles;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 8, {6, 7},
                  32 * tiles.warps, tiles.minBlocks);
  CoreBlock c(b, emission, {});
  AttentionBlock &block = c.block;

  auto blocks = int32_t(llvm::divideCeil(shape.keys, c.rowCount));
  Value first = b.mul(b.blockId(0), c.rowCount);
  Value keyHead = block.headBlock;
  Value kBase = block.base(b.operand(1), shape.k, keyHead);
  Value vBase = block.base(b.operand(2), shape.v, keyHead);

  // Shared memory: k, v, q, do, scores, lse, delta.
  int32_t rowBytes = c.rowLayout.bytes(), tileBytes = c.tileLayout.bytes();
  Value kTile = b.shared(), vTile = b.advance(kTile, rowBytes),
        qTile = b.advance(vTile, rowBytes),
        dOTile = b.advance(qTile, tileBytes),
        scoreTile = b.advance(dOTile, tileBytes),
        lseTile = b.advance(scoreTile, c.scoreLayout.bytes()),
        deltaTile = b.advance(lseTile, 4 * tiles.columns);
  TileCopy kCopy(b, c.rowLayout, block.rows(shape.k), block.thread);
  TileCopy vCopy(b, c.rowLayout, block.rows(shape.v), block.thread);
  TileCopy qCopy(b, c.tileLayout, block.rows(shape.q), block.thread);
  TileCopy dOCopy(b, c.tileLayout, block.rows(shape.dO), block.thread);
  kCopy.start(kBase, kTile, first, block.keyLimit);
  vCopy.start(vBase, vTile, first, block.keyLimit);
  b.commitCopies();

  Value limit = b.i32(shape.queries);
  QueryTiles range = block.queryTiles(first, c.rowCount, tiles.columns);
  SmallVector<Value> firstQueries; // that see the key of a row
  if (block.masked)
    for (int32_t i = 0; i != tiles.rowTiles; ++i)
      firstQueries.push_back(b.sub(c.row(first, i), block.offset));

  int32_t width = 4 * c.wide;
  auto addHead = [&](Value head, SmallVector<Value> carried) {
    Value qBase = block.base(b.operand(0), shape.q, head);
    Value dOBase = block.base(b.operand(4), shape.dO, head);
    Value lseBase = block.rowScalars(b.operand(3), head);
    Value deltaBase = block.rowScalars(b.operand(5), head);
    auto start = [&](Value index, Value) {
      Value query = b.mul(index, tiles.columns);
      qCopy.start(qBase, qTile, query, limit);
      dOCopy.start(dOBase, dOTile, query, limit);
      block.startScalars({lseBase, deltaBase}, {lseTile, deltaTile}, query,
                         tiles.columns);
    };
    TilePipeline pipeline{1, start, nullptr};
    auto body = [&](Value index, Value, bool masked, ValueRange values) {
      Value origin = b.add(b.mul(index, tiles.columns), c.x);
      Value column = b.mul(c.x, 4);
      auto scalar = [&](Value tile, int32_t j) {
        return b.load(b.getF32Type(),
                      b.advance(b.advance(tile, column), 32 * j), 4);
      };
      Patch dK(tiles.rowTiles, width, values.take_front(values.size() / 2));
      Patch dV(tiles.rowTiles, width, values.drop_front(values.size() / 2));
      Patch p = c.scores(kTile, qTile);
      for (int32_t j = 0; j != p.columns; ++j) {
        Value negated = arith::NegFOp::create(b, scalar(lseTile, j));
        for (int32_t i = 0; i != p.rows; ++i) {
          Value &value = p.at(i, j);
          value =
              b.exp2Scaled(b.fma(value, b.f32(shape.scale), negated), M_LOG2E);
          if (masked && block.masked) {
            Value from = b.sub(firstQueries[i], origin);
            value = b.select(
                b.compare(arith::CmpIPredicate::sle, from, b.i32(8 * j)), value,
                b.f32(0));
          }
        }
      }
      c.multiplyAcross(dV, p, scoreTile, dOTile);
      Patch ds = c.scores(vTile, dOTile);
      for (int32_t j = 0; j != p.columns; ++j) {
        Value delta = scalar(deltaTile, j);
        for (int32_t i = 0; i != p.rows; ++i)
          ds.at(i, j) = b.mulF(p.at(i, j), b.subF(ds.at(i, j), delta));
      }
      c.multiplyAcross(dK, ds, scoreTile, qTile);
      SmallVector<Value> next = dK.values;
      llvm::append_range(next, dV.values);
      return next;
    };
    return pipeline.run(b, range.begin, range.whole, range.end,
                        /*maskedFirst=*/true, std::move(carried), body);
  };
  SmallVector<Value> carried = block.forQueryHeads(
      SmallVector<Value>(2 * tiles.rowTiles * width, b.f32(0)), addHead);

  ValueRange all(carried);
  Patch dK(tiles.rowTiles, width, all.take_front(all.size() / 2));
  Patch dV(tiles.rowTiles, width, all.drop_front(all.size() / 2));
  for (Value &value : dK.values)
    value = b.mulF(value, b.f32(shape.scale));
  c.storeRows(dK, b.operand(6), shape.dK, keyHead, first, shape.keys);
  c.storeRows(dV, b.operand(7), shape.dV, keyHead, first, shape.keys);

  DeviceLaunch launch;
  launch.grid = {blocks, int32_t(shape.keyHeads), int32_t(shape.batch)};
  launch.block = {32 * tiles.warps, 1, 1};
  launch.sharedBytes =
      2 * rowBytes + 2 * tileBytes + c.scoreLayout.bytes() + 8 * tiles.columns;
  return launch;
}
