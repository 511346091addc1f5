//===- AttentionCudaCore.cpp - attention in IEEE f32 ----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "AttentionCudaCore.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blurt;

/// Keys whose scores lie in shared memory at a time.
static constexpr int32_t kScoreColumns = 32;
/// Chunks that a loop of a product takes at a time: more of them measured
/// slower. Loops stay loops; without one, registers spill.
static constexpr int32_t kChunks = 2;
static constexpr double kInf = std::numeric_limits<double>::infinity();

ScoreMask::Cell ScoreMask::cell(int32_t row, int32_t rows, int32_t column,
                                int32_t columns) const {
  int32_t lastRow = row + rows - 1, firstColumn = column + delta;
  int32_t lastColumn = firstColumn + columns - 1;
  switch (kind) {
  case All:
    return Whole;
  case Computed:
    return Partial;
  case UpToColumn:
    return firstColumn > lastRow ? Hidden : lastColumn <= row ? Whole : Partial;
  case FromColumn:
    return lastColumn < row ? Hidden : firstColumn >= lastRow ? Whole : Partial;
  }
  llvm_unreachable("unknown kind of mask");
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Rows of `rowBytes`, padded so that the columns which the lanes of a warp
/// write to `laneColumns` a row lie in different banks.
static TileLayout getScoreLayout(int32_t rows, int32_t columns,
                                 int32_t laneColumns) {
  assert(columns % 32 == 0 && "columns do not fill the banks");
  TileLayout layout = TileLayout::get(rows, columns * 4, /*padded=*/true);
  layout.pitch = 4 * (columns + laneColumns);
  return layout;
}

CoreBlock::CoreBlock(DeviceBuilder &b, const AttentionEmission &emission,
                     Value position, int32_t scoreColumns)
    : b(b), shape(emission.shape), tiles(emission.tiles),
      block(b, shape, position), laneRows(tiles.laneRows),
      laneColumns(32 / laneRows), warp(b.div(block.thread, 32)),
      rowCount(laneRows * tiles.rowTiles * tiles.warps),
      perThread(tiles.columns / laneColumns),
      wide(llvm::divideCeil(shape.depth, 4 * laneColumns)),
      depthChunks(llvm::alignTo(llvm::divideCeil(shape.depth, 4), 2)),
      scoreColumns(scoreColumns),
      rowLayout(TileLayout::get(rowCount, wide * 16 * laneColumns,
                                /*padded=*/true)),
      tileLayout(TileLayout::get(tiles.columns, wide * 16 * laneColumns, true)),
      scoreLayout(getScoreLayout(rowCount, scoreColumns, laneColumns)) {
  assert((laneRows == 2 || laneRows == 4) && "unknown arrangement of lanes");
  Value lane = b.rem(block.thread, 32);
  x = b.rem(b.div(lane, 2), laneColumns);
  y = b.rem(lane, 2);
  if (laneRows == 4)
    y = b.add(y, b.mul(b.div(lane, 16), 2));
  ownRow = b.add(b.mul(warp, laneRows), y);
  ownRows = TileCursor(b, rowLayout, ownRow, b.i32(0));
  tileRows = TileCursor(b, tileLayout, x, b.i32(0));
  tileAcross = TileCursor(b, tileLayout, b.i32(0), x);
  scoreWrites = TileCursor(b, scoreLayout, ownRow, b.i32(0), b.mul(x, 4));
  scoreReads = TileCursor(b, scoreLayout, ownRow, b.i32(0));
}

Value CoreBlock::reduceLanes(Value value,
                             llvm::function_ref<Value(Value, Value)> combine) {
  for (int32_t mask = 2; mask != 2 * laneColumns; mask *= 2)
    value = combine(value, b.shuffleXor(value, mask));
  return value;
}

Patch CoreBlock::scores(Value rows, Value tile, const ScoreMask &mask) {
  Value a = ownRows.at(b, rows, 0, 0), c = tileRows.at(b, tile, 0, 0);
  int32_t aPitch = band() * rowLayout.pitch;
  int32_t cPitch = laneColumns * tileLayout.pitch;
  Patch zero = zeros(perThread);
  auto isHidden = [&](int32_t i, int32_t j) {
    return cell(mask, i, j) == ScoreMask::Hidden;
  };
  auto addChunks = [&](Value index, ValueRange sums) {
    Patch sum(zero.rows, zero.columns, sums);
    Value offset = b.shiftLeft(index, 4);
    Value aChunk = b.advance(a, offset), cChunk = b.advance(c, offset);
    for (int32_t chunk = 0; chunk != kChunks; ++chunk) {
      SmallVector<SmallVector<Value>> columns(sum.columns);
      for (int32_t i = 0; i != sum.rows; ++i) {
        SmallVector<Value> row;
        for (int32_t j = 0; j != sum.columns; ++j) {
          if (isHidden(i, j))
            continue;
          if (row.empty())
            row = b.loadF32x4(b.advance(aChunk, i * aPitch + 16 * chunk));
          if (columns[j].empty())
            columns[j] =
                b.loadF32x4(b.advance(cChunk, j * cPitch + 16 * chunk));
        }
        for (int32_t e = 0; e != 4; ++e)
          for (int32_t j = 0; j != sum.columns; ++j)
            if (!isHidden(i, j))
              sum.at(i, j) = b.fma(row[e], columns[j][e], sum.at(i, j));
      }
    }
    return sum.values;
  };
  return Patch(
      zero.rows, zero.columns,
      b.loop(b.i32(0), b.i32(depthChunks), kChunks, zero.values, addChunks));
}

void CoreBlock::storeScores(Patch &p, Value scoreTile, int32_t column) {
  int32_t first = column / laneColumns, count = scoreColumns / laneColumns;
  for (int32_t i = 0; i != p.rows; ++i)
    for (int32_t j = 0; j != count; ++j)
      b.store(p.at(i, first + j),
              b.advance(scoreWrites.at(b, scoreTile, band() * i, 0),
                        4 * laneColumns * j),
              4);
}

void CoreBlock::multiplySegment(Patch &sum, int32_t from, int32_t to,
                                Value scores, Value tile, int32_t count) {
  if (from == to)
    return;
  int32_t width = sum.columns, scorePitch = band() * scoreLayout.pitch;
  ValueRange all(sum.values);
  SmallVector<Value> values = b.loop(
      b.i32(0), b.i32(count / 4), kChunks,
      all.slice(from * width, (to - from) * width),
      [&](Value index, ValueRange sums) {
        Patch next(to - from, width, sums);
        Value a = b.advance(scores, b.shiftLeft(index, 4));
        Value c = b.advance(tile, b.mul(index, 4 * tileLayout.pitch));
        for (int32_t chunk = 0; chunk != kChunks; ++chunk) {
          SmallVector<SmallVector<Value>> rows;
          for (int32_t i = from; i != to; ++i)
            rows.push_back(
                b.loadF32x4(b.advance(a, i * scorePitch + 16 * chunk)));
          for (int32_t e = 0; e != 4; ++e)
            for (int32_t w = 0; w != wide; ++w) {
              SmallVector<Value> columns =
                  b.loadF32x4(b.advance(c, (4 * chunk + e) * tileLayout.pitch +
                                               16 * laneColumns * w));
              for (int32_t i = 0; i != next.rows; ++i)
                for (int32_t k = 0; k != 4; ++k)
                  next.at(i, 4 * w + k) =
                      b.fma(rows[i][e], columns[k], next.at(i, 4 * w + k));
            }
        }
        return next.values;
      });
  llvm::copy(values, sum.values.begin() + from * width);
}

void CoreBlock::multiplyAcross(Patch &sum, Value scoreTile, int32_t column,
                               Value tile, const ScoreMask &mask) {
  // Columns of cells that the same rows see go together.
  auto rowsOf = [&](int32_t j) {
    int32_t from = 0, to = sum.rows;
    while (from != to && cell(mask, from, j) == ScoreMask::Hidden)
      ++from;
    while (from != to && cell(mask, to - 1, j) == ScoreMask::Hidden)
      --to;
    return std::pair(from, to);
  };
  int32_t first = column / laneColumns, count = scoreColumns / laneColumns;
  for (int32_t j = 0, end; j != count; j = end) {
    auto [from, to] = rowsOf(first + j);
    for (end = j + 1; end != count; ++end)
      if (rowsOf(first + end) != std::pair(from, to))
        break;
    multiplySegment(
        sum, from, to,
        b.advance(scoreReads.at(b, scoreTile, 0, 0), 4 * laneColumns * j),
        tileAcross.at(b, tile, column + laneColumns * j, 0),
        laneColumns * (end - j));
  }
}

void CoreBlock::multiplyAcross(Patch &sum, Patch &p, Value scoreTile,
                               Value tile, const ScoreMask &mask) {
  for (int32_t column = 0; column != tiles.columns; column += scoreColumns) {
    b.warpBarrier();
    storeScores(p, scoreTile, column);
    b.warpBarrier();
    multiplyAcross(sum, scoreTile, column, tile, mask);
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
        Value column = b.add(b.shiftLeft(x, 2), 4 * laneColumns * w);
        storeColumns(
            b, rows, base, at, column,
            ArrayRef<Value>(patch.values).slice(i * patch.columns + 4 * w, 4));
      }
    });
  }
}

bool blurt::hasFixedDiagonal(const AttentionShape &shape, int32_t rows,
                             int32_t columns) {
  int64_t offset = shape.keys - shape.queries;
  return shape.causal && !shape.hasPosition && offset >= 0 &&
         offset % columns == 0 && rows % columns == 0;
}

SmallVector<Value> blurt::walkInTurns(
    CoreBlock &c, Value first, llvm::function_ref<void(Value)> early,
    llvm::function_ref<void(Value)> late, SmallVector<Value> carried,
    llvm::function_ref<SmallVector<Value>(Value, const ScoreMask &, ValueRange,
                                          llvm::function_ref<void()>)>
        body) {
  DeviceBuilder &b = c.b;
  int32_t columns = c.tiles.columns;
  AttentionBlock::Tiles range = c.block.keyTiles(first, c.rowCount, columns);
  early(b.i32(0));
  b.commitCopies();
  auto step = [&](Value index, const ScoreMask &mask, ValueRange values) {
    b.waitCopies(0);
    b.barrier();
    late(index);
    b.commitCopies();
    return body(index, mask, values, [&] {
      b.waitCopies(0);
      b.barrier();
      early(b.add(index, 1));
      b.commitCopies();
    });
  };
  auto walk = [&](Value from, Value to, ScoreMask::Kind kind) {
    carried = b.loop(from, to, 1, carried, [&](Value index, ValueRange values) {
      return step(index, {kind}, values);
    });
  };
  walk(b.i32(0), range.full, ScoreMask::All);
  if (!hasFixedDiagonal(c.shape, c.rowCount, columns)) {
    walk(range.full, range.end, ScoreMask::Computed);
    return carried;
  }
  for (int32_t i = 0; i != c.rowCount / columns; ++i) {
    Value index = b.add(range.full, i);
    carried = b.branch(b.lessThan(index, range.end), carried, [&] {
      return step(index, {ScoreMask::UpToColumn, i * columns}, carried);
    });
  }
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
  CoreBlock c(b, emission, shape.hasPosition ? b.operand(3) : Value(),
              std::min(tiles.columns, kScoreColumns));
  AttentionBlock &block = c.block;
  // Scores in units of ln 2; maxima are of scores that grow with the product.
  bool scaleFirst = !(shape.scale > 0);
  double scale = (scaleFirst ? 1 : shape.scale) * M_LOG2E;

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

  int32_t rows = tiles.rowTiles, width = 4 * c.wide;
  SmallVector<Value> carried(rows * width, b.f32(0));
  carried.append(rows, b.f32(-kInf));
  carried.append(rows, b.f32(0));
  carried = walkInTurns(
      c, first,
      [&](Value index) {
        kCopy.start(kBase, kTile, b.mul(index, tiles.columns), block.keyLimit);
      },
      [&](Value index) {
        vCopy.start(vBase, vTile, b.mul(index, tiles.columns), block.keyLimit);
      },
      carried,
      [&](Value index, const ScoreMask &mask, ValueRange values,
          llvm::function_ref<void()> turn) {
        Patch out(rows, width, values.take_front(rows * width));
        SmallVector<Value> maxima =
            llvm::to_vector(values.slice(rows * width, rows));
        SmallVector<Value> sums = llvm::to_vector(values.take_back(rows));
        Patch s = c.scores(qTile, kTile, mask);
        Value origin = b.add(b.mul(index, tiles.columns), c.x);
        bool masked = mask.kind != ScoreMask::All;
        for (int32_t i = 0; i != rows; ++i) {
          Value last;
          if (masked)
            last = b.sub(block.lastKey(c.row(first, i)), origin);
          Value max;
          SmallVector<Value> seen(s.columns);
          auto isHidden = [&](int32_t j) {
            return c.cell(mask, i, j) == ScoreMask::Hidden;
          };
          for (int32_t j = 0; j != s.columns; ++j) {
            if (isHidden(j))
              continue;
            Value &value = s.at(i, j);
            if (scaleFirst)
              value = b.mulF(value, b.f32(shape.scale));
            if (c.cell(mask, i, j) == ScoreMask::Partial) {
              seen[j] = b.compare(arith::CmpIPredicate::sge, last,
                                  b.i32(c.laneColumns * j));
              value = b.select(seen[j], value, b.f32(-kInf));
            }
            max = max ? b.maxF(max, value) : value;
          }
          if (!max)
            continue;
          max = c.reduceLanes(max,
                              [&](Value l, Value r) { return b.maxF(l, r); });
          Value old = maxima[i];
          max = maxima[i] = b.maxF(old, b.mulF(max, b.f32(scale)));
          // A row that has seen nothing yet keeps exponentials of 0.
          Value shift = max;
          if (masked)
            shift = b.select(b.equalF(max, b.f32(-kInf)), b.f32(0), max);
          Value correction = b.exp2Approx(b.subF(old, shift));
          Value negated = arith::NegFOp::create(b, shift);
          Value sum;
          for (int32_t j = 0; j != s.columns; ++j) {
            if (isHidden(j))
              continue;
            Value p = b.exp2Approx(b.fma(s.at(i, j), b.f32(scale), negated));
            if (seen[j])
              p = b.select(seen[j], p, b.f32(0));
            s.at(i, j) = p;
            sum = sum ? b.addF(sum, p) : p;
          }
          sums[i] = b.fma(sums[i], correction, sum);
          for (int32_t j = 0; j != width; ++j)
            out.at(i, j) = b.mulF(out.at(i, j), correction);
        }
        turn();
        c.multiplyAcross(out, s, scoreTile, vTile, mask);
        SmallVector<Value> next = out.values;
        llvm::append_range(next, maxima);
        llvm::append_range(next, sums);
        return next;
      });

  ValueRange all(carried);
  Patch out(rows, width, all.take_front(rows * width));
  Value lse = block.rowScalars(b.operand(count - 1), block.headBlock);
  constexpr auto kLn2High = float(M_LN2);
  for (int32_t i = 0; i != rows; ++i) {
    Value sum = c.reduceLanes(carried[rows * (width + 1) + i],
                              [&](Value l, Value r) { return b.addF(l, r); });
    Value max = carried[rows * width + i];
    // Written so that a NaN sum is not taken for an empty row.
    Value inverse =
        b.select(b.equalF(sum, b.f32(0)), b.f32(0), b.divF(b.f32(1), sum));
    for (int32_t j = 0; j != width; ++j)
      out.at(i, j) = b.mulF(out.at(i, j), inverse);
    Value at = c.row(first, i);
    Value writes = b.bitAnd(b.equal(c.x, 0), b.lessThan(at, shape.queries));
    b.branch(writes, [&] {
      Value finite = b.select(b.equalF(max, b.f32(-kInf)), b.f32(0), max);
      Value log = b.fma(finite, b.f32(M_LN2 - kLn2High), b.log(sum));
      b.store(b.fma(finite, b.f32(kLn2High), log),
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
