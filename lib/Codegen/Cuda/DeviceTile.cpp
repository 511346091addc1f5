//===- DeviceTile.cpp - tiles of rows in shared memory --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "DeviceTile.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::blurt;

TileLayout TileLayout::get(int32_t rows, int32_t rowBytes, bool padded) {
  TileLayout layout;
  layout.rows = rows;
  layout.chunks = llvm::divideCeil(rowBytes, 16);
  layout.swizzled = !padded && layout.chunks % 8 == 0;
  layout.pitch = 16 * (layout.swizzled ? layout.chunks : layout.chunks | 1);
  return layout;
}

TileCursor::TileCursor(DeviceBuilder &b, const TileLayout &layout, Value row,
                       Value chunk, Value byteInChunk)
    : layout(layout) {
  Value place = layout.swizzled ? b.bitXor(chunk, b.bitAnd(row, 7)) : chunk;
  offset = b.add(b.mul(row, layout.pitch), b.shiftLeft(place, 4));
  if (byteInChunk)
    offset = b.add(offset, byteInChunk);
}

Value TileCursor::at(DeviceBuilder &b, Value tile, int32_t rows,
                     int32_t chunks) const {
  if (!layout.swizzled)
    return b.advance(b.advance(tile, offset),
                     rows * layout.pitch + chunks * 16);
  Value place = b.bitXor(offset, ((rows ^ chunks) & 7) << 4);
  return b.advance(b.advance(tile, place),
                   rows * layout.pitch + (chunks >> 3) * 128);
}

//===----------------------------------------------------------------------===//
// Global to shared
//===----------------------------------------------------------------------===//

TileCopy::TileCopy(DeviceBuilder &b, const TileLayout &layout,
                   const GlobalRows &source, Value thread)
    : b(b), layout(layout), source(source) {
  // The threads of a row are a power of two, so that places are reached by
  // constants.
  int32_t lanes = llvm::PowerOf2Ceil(layout.chunks);
  assert(lanes <= b.getThreads() && "a row has more chunks than threads");
  row = b.div(thread, lanes);
  chunk = b.rem(thread, lanes);
  step = b.getThreads() / lanes;
  assert((step >= layout.rows || layout.rows % step == 0) &&
         "rows are no multiple of what the block copies at a time");
  if (lanes != layout.chunks)
    takesPart = b.lessThan(chunk, layout.chunks);
  if (step > layout.rows) {
    Value inside = b.lessThan(row, layout.rows);
    takesPart = takesPart ? b.bitAnd(takesPart, inside) : inside;
  }
  cursor = TileCursor(b, layout, row, chunk);
}

void TileCopy::forChunks(llvm::function_ref<void(int32_t)> body) {
  auto all = [&] {
    for (int32_t i = 0; i < layout.rows; i += step)
      body(i);
  };
  if (takesPart)
    b.branch(takesPart, all);
  else
    all();
}

void TileCopy::start(Value base, Value tile, Value first, Value limit) {
  Value firstRow = b.add(first, row);
  int32_t bytes = source.elementBytes();
  if (source.chunked) {
    Value from = b.advance(base, b.wideOffset(firstRow, source.stride * bytes));
    from = b.advance(from, b.shiftLeft(chunk, 4));
    Value isColumn;
    if (source.chunks() != layout.chunks)
      isColumn = b.lessThan(chunk, source.chunks());
    forChunks([&](int32_t i) {
      Value valid = b.lessThan(b.add(firstRow, i), limit);
      if (isColumn)
        valid = b.bitAnd(valid, isColumn);
      b.copyAsync(cursor.at(b, tile, i, 0),
                  b.advance(from, source.stride * bytes * i), 16, valid);
    });
    return;
  }
  // Every address is in range; what should not be there is replaced by zero.
  Type storage = bytes == 2 ? b.getI16Type() : b.getI32Type();
  Value zero = bytes == 2
                   ? arith::ConstantOp::create(b, b.getI16IntegerAttr(0))
                   : arith::ConstantOp::create(b, b.getI32IntegerAttr(0));
  Value last = b.add(limit, -1);
  forChunks([&](int32_t i) {
    Value at = b.add(firstRow, i);
    Value isRow = b.lessThan(at, limit);
    Value from =
        b.advance(base, b.wideOffset(b.min(at, last), source.stride * bytes));
    SmallVector<Value> values;
    for (int32_t e = 0; e != source.perChunk(); ++e) {
      Value column = b.add(b.mul(chunk, source.perChunk()), e);
      Value inside = b.min(column, source.columns - 1);
      Value value = b.load(storage, b.advance(from, b.mul(inside, bytes)));
      Value valid = b.bitAnd(isRow, b.lessThan(column, source.columns));
      values.push_back(b.select(valid, value, zero));
    }
    b.store16(b.makeVector(values), cursor.at(b, tile, i, 0));
  });
}

void TileCopy::roundTF32(Value tile) {
  forChunks([&](int32_t i) {
    Value place = cursor.at(b, tile, i, 0);
    SmallVector<Value> values = b.loadF32x4(place);
    for (Value &value : values)
      value = b.roundTF32(value);
    b.store16(b.makeVector(values), place);
  });
}

SmallVector<Value> blurt::loadColumns(DeviceBuilder &b, const GlobalRows &rows,
                                      Value base, Value row, Value column) {
  int32_t bytes = rows.elementBytes(), count = rows.perChunk();
  Value from = b.advance(base, b.wideOffset(row, rows.stride * bytes));
  Type storage = bytes == 2 ? Type(b.getI16Type()) : Type(b.getF32Type());
  SmallVector<Value> values;
  if (rows.chunked) {
    Value isColumn = b.lessThan(column, rows.columns);
    Value inside = b.select(isColumn, column, b.i32(0));
    Value vector = b.load(VectorType::get({count}, storage),
                          b.advance(from, b.mul(inside, bytes)), 16);
    for (int32_t e = 0; e != count; ++e) {
      Value value = b.element(vector, e);
      value = bytes == 2 ? b.extendBF16(value) : value;
      values.push_back(b.select(isColumn, value, b.f32(0)));
    }
    return values;
  }
  for (int32_t e = 0; e != count; ++e) {
    Value at = b.add(column, e);
    Value inside = b.min(at, rows.columns - 1);
    Value value = b.load(storage, b.advance(from, b.mul(inside, bytes)));
    value = bytes == 2 ? b.extendBF16(value) : value;
    values.push_back(b.select(b.lessThan(at, rows.columns), value, b.f32(0)));
  }
  return values;
}

//===----------------------------------------------------------------------===//
// To global
//===----------------------------------------------------------------------===//

void blurt::storeColumns(DeviceBuilder &b, const GlobalRows &rows, Value base,
                         Value row, Value column, ArrayRef<Value> values) {
  int32_t bytes = rows.elementBytes();
  Value to = b.advance(base, b.wideOffset(row, rows.stride * bytes));
  to = b.advance(to, b.mul(column, bytes));
  auto size = int32_t(values.size());
  if (rows.chunked) {
    b.branch(b.lessThan(column, rows.columns),
             [&] { b.store(b.makeVector(values), to, size * bytes); });
    return;
  }
  for (auto [e, value] : llvm::enumerate(values))
    b.branch(b.lessThan(b.add(column, e), rows.columns),
             [&, e = e, value = value] {
               b.store(value, b.advance(to, int64_t(e) * bytes));
             });
}

void blurt::storeTileRows(DeviceBuilder &b, const TileLayout &layout,
                          Value tile, Value firstInTile, int32_t count,
                          const GlobalRows &target, Value base, Value first,
                          Value limit, Value lane) {
  int32_t lanes = llvm::PowerOf2Ceil(target.chunks());
  assert(lanes <= 32 && "a row has more chunks than lanes");
  int32_t step = 32 / lanes;
  Value row = b.div(lane, lanes), chunk = b.rem(lane, lanes);
  TileCursor cursor(b, layout, b.add(firstInTile, row), chunk);
  auto type = VectorType::get({target.perChunk()}, target.elementBytes() == 2
                                                       ? b.getI16Type()
                                                       : b.getI32Type());
  Value isColumn = b.lessThan(chunk, target.chunks());
  for (int32_t i = 0; i < count; i += step) {
    Value at = b.add(b.add(first, row), i);
    Value valid = b.bitAnd(isColumn, b.lessThan(at, limit));
    if (step > count)
      valid = b.bitAnd(valid, b.lessThan(row, count));
    b.branch(valid, [&] {
      Value place = cursor.at(b, tile, i, 0);
      if (target.chunked) {
        Value to = b.advance(
            base, b.wideOffset(at, target.stride * target.elementBytes()));
        b.store16(b.load16(place), b.advance(to, b.shiftLeft(chunk, 4)));
        return;
      }
      Value vector = b.load(type, place, 16);
      SmallVector<Value> values;
      for (int32_t e = 0; e != target.perChunk(); ++e)
        values.push_back(b.element(vector, e));
      storeColumns(b, target, base, at, b.mul(chunk, target.perChunk()),
                   values);
    });
  }
}
