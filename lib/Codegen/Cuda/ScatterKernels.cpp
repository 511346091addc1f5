//===- ScatterKernels.cpp - scatter-add on CUDA ---------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Rows of the table are dealt out to sets, row r to set r mod S with S a power
// of two, so that ids that are frequent and close to each other fall into
// different ones. Two kernels:
//
//   sort  a block owns a set. It reads all ids, counts those of each of its
//         rows and those of lower sets, and writes the positions of its ids,
//         grouped by row, in ascending order.
//   add   a warp owns a slice of the columns of a few rows and adds the updates
//         at the positions of each, one after the other, loads ahead of the
//         additions.
//
// In the workspace: where the positions of each row begin, rows by set; the
// positions; and what a block of the first kernel notes of its set.
//
//===----------------------------------------------------------------------===//

#include "CudaHost.h"
#include "DeviceBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::blurt;

/// Sort: threads of a block, ids that a lane looks at in one go, such loads in
/// flight.
static constexpr int64_t kSortThreads = 512;
static constexpr int64_t kIds = 4;
static constexpr int64_t kIdLoads = 4;
/// Sort: sets, unless rows are few, and the most rows of one.
static constexpr int64_t kSets = 256;
static constexpr int64_t kSetRows = 4096;
/// Add: threads of a block, rows of a warp, updates in flight of rows with many
/// and of rows with few.
static constexpr int64_t kAddThreads = 256;
static constexpr int32_t kAddBlocks = 2; ///< on one multiprocessor
static constexpr int64_t kWarpRows = 8;
static constexpr int64_t kManyLoads = 16;
static constexpr int64_t kFewLoads = 4;

namespace {
struct Scatter {
  Scatter(ScatterAddOp op, CudaHost &host);

  DeviceLaunch emitSort(gpu::GPUModuleOp module, Location loc,
                        StringRef symbol) const;
  DeviceLaunch emitAdd(gpu::GPUModuleOp module, Location loc,
                       StringRef symbol) const;

  int64_t rows, columns, count; ///< of the table and of the ids
  Type id, element;
  int64_t idStride;
  SmallVector<int64_t> updateStrides, outStrides;
  int64_t idAlignment, updateAlignment, outAlignment;
  int64_t sets, setRows;
  /// Of the workspace, in bytes.
  int64_t positions, notes, workspaceBytes;
  int64_t bytes = 0; ///< of ids, updates and table

private:
  struct Ids {
    SmallVector<Value> keys; ///< set of each id, `sets` for what is no row
    SmallVector<Value> rows; ///< its row in the set
    Value first;             ///< position of the first
  };
  Ids loadIds(DeviceBuilder &b, Value first, Value end) const;
  int64_t slots() const { return sets * setRows; }
};
} // namespace

Scatter::Scatter(ScatterAddOp op, CudaHost &host) {
  auto idsType = cast<MemRefType>(op.getIds().getType());
  auto updatesType = cast<MemRefType>(op.getUpdates().getType());
  auto outType = cast<MemRefType>(op.getOuts()[0].getType());
  id = idsType.getElementType();
  element = outType.getElementType();
  rows = outType.getDimSize(0);
  columns = outType.getDimSize(1);
  count = idsType.getDimSize(0);
  idStride = idsType.getStridesAndOffset().first[0];
  updateStrides = updatesType.getStridesAndOffset().first;
  outStrides = outType.getStridesAndOffset().first;
  auto align = [&](Value value, int64_t rowStride) {
    return std::min<int64_t>(
        16, llvm::MinAlign(host.getAlignment(value),
                           rowStride * getElementBytes(element)));
  };
  idAlignment = std::min<int64_t>(16, host.getAlignment(op.getIds()));
  updateAlignment = align(op.getUpdates(), updateStrides[0]);
  outAlignment = align(op.getOuts()[0], outStrides[0]);
  sets = std::min<int64_t>(
      llvm::PowerOf2Ceil(rows),
      std::max<int64_t>(kSets,
                        llvm::PowerOf2Ceil(llvm::divideCeil(rows, kSetRows))));
  setRows = llvm::divideCeil(rows, sets);
  positions = llvm::alignTo((slots() + 1) * 4, 16);
  notes = llvm::alignTo(positions + count * 4, 16);
  workspaceBytes = notes + (count + 1) * 8; // the last may be read past
  bytes = getOperandBytes({op.getIds(), op.getUpdates(), op.getOuts()[0]});
}

//===----------------------------------------------------------------------===//
// Warps
//===----------------------------------------------------------------------===//

static Value ballot(DeviceBuilder &b, Value predicate) {
  return NVVM::VoteSyncOp::create(b, b.getI32Type(), b.i32(-1), predicate,
                                  NVVM::VoteSyncKind::ballot);
}

static Value countBits(DeviceBuilder &b, Value mask) {
  return LLVM::CtPopOp::create(b, b.getI32Type(), mask);
}

static Value shuffle(DeviceBuilder &b, Value value, Value from,
                     NVVM::ShflKind kind = NVVM::ShflKind::idx) {
  int32_t clamp = kind == NVVM::ShflKind::up ? 0 : 31;
  return NVVM::ShflOp::create(b, value.getType(), b.i32(-1), value, from,
                              b.i32(clamp), kind, UnitAttr());
}

static Value sumOfWarp(DeviceBuilder &b, Value value) {
  for (int32_t mask = 16; mask >= 1; mask /= 2)
    value = b.add(value, b.shuffleXor(value, mask));
  return value;
}

/// The lanes below `lane` as a mask.
static Value lanesBelow(DeviceBuilder &b, Value lane) {
  Value bit = arith::ShLIOp::create(b, b.i32(1), lane);
  return b.add(bit, -1);
}

static Value isBelow(DeviceBuilder &b, Value l, Value r) {
  return b.compare(arith::CmpIPredicate::ult, l, r);
}

static Value andBits(DeviceBuilder &b, Value l, Value r) {
  return arith::AndIOp::create(b, l, r);
}

//===----------------------------------------------------------------------===//
// Sort
//===----------------------------------------------------------------------===//

/// The ids at the positions `first` … `first` + 3 that are below `end`.
Scatter::Ids Scatter::loadIds(DeviceBuilder &b, Value first, Value end) const {
  int64_t size = getElementBytes(id);
  Value base = b.operand(0);
  SmallVector<Value> raw;
  if (idStride == 1 && count % kIds == 0) {
    Value at = b.min(first, count - kIds);
    Value vector = b.load(VectorType::get({kIds}, id),
                          b.advance(base, b.wideOffset(at, size)),
                          std::min(idAlignment, kIds * size));
    for (int64_t i = 0; i < kIds; ++i)
      raw.push_back(b.element(vector, i));
  } else {
    for (int64_t i = 0; i < kIds; ++i) {
      Value at = b.min(b.add(first, i), count - 1);
      raw.push_back(
          b.load(id, b.advance(base, b.wideOffset(at, idStride * size)), size));
    }
  }
  Ids ids;
  ids.first = first;
  for (auto [i, value] : llvm::enumerate(raw)) {
    Value isRow = andBits(b, isBelow(b, value, b.constantLike(value, rows)),
                          b.lessThan(b.add(first, int64_t(i)), end));
    Value number = value.getType().isInteger(64) ? b.truncate(value) : value;
    ids.keys.push_back(
        b.select(isRow, b.bitAnd(number, sets - 1), b.i32(sets)));
    ids.rows.push_back(b.div(number, sets));
  }
  return ids;
}

DeviceLaunch Scatter::emitSort(gpu::GPUModuleOp module, Location loc,
                               StringRef symbol) const {
  constexpr int64_t kWarps = kSortThreads / 32, kUnit = 32 * kIds;
  DeviceBuilder b(module, loc, symbol, 2, {1}, kSortThreads);
  Value workspace = b.operand(1);
  Type i32 = b.getI32Type();
  Value thread = b.threadId(), set = b.blockId(0);
  Value lane = b.rem(thread, 32), warp = b.div(thread, 32);

  // Shared memory: a count of each row, then where its next position goes; of
  // each warp, ids of lower sets and of this one.
  Value counts = b.shared();
  Value lowerOfWarps = b.advance(counts, llvm::alignTo(setRows * 4, 16));
  Value ownOfWarps = b.advance(lowerOfWarps, kWarps * 4);
  auto at32 = [&](Value base, Value index) {
    return b.advance(base, b.wideOffset(index, 4));
  };
  b.loop(thread, b.i32(setRows), kSortThreads,
         [&](Value row) { b.store(b.i32(0), at32(counts, row)); });
  b.barrier();

  // Each warp looks through its part of the ids, twice.
  int64_t part =
      kUnit * kIdLoads * llvm::divideCeil(count, kUnit * kIdLoads * kWarps);
  Value begin = b.mul(warp, part);
  Value end = b.min(b.add(begin, part), count);
  auto forIds = [&](ValueRange inits,
                    llvm::function_ref<SmallVector<Value>(
                        const Ids &, SmallVector<Value> carried)>
                        body) {
    return b.loop(
        begin, end, kUnit * kIdLoads, inits,
        [&](Value start, ValueRange carried) {
          SmallVector<Ids> loaded;
          for (int64_t i = 0; i < kIdLoads; ++i)
            loaded.push_back(loadIds(
                b, b.add(b.add(start, i * kUnit), b.mul(lane, kIds)), end));
          SmallVector<Value> values(carried);
          for (const Ids &ids : loaded)
            values = body(ids, std::move(values));
          return values;
        });
  };
  SmallVector<Value> totals = forIds(
      {b.i32(0), b.i32(0)}, [&](const Ids &ids, SmallVector<Value> carried) {
        for (auto [key, row] : llvm::zip_equal(ids.keys, ids.rows)) {
          Value isOwn = b.compare(arith::CmpIPredicate::eq, key, set);
          auto addOne = [&](Value sum, Value condition) {
            return b.add(sum, arith::ExtUIOp::create(b, i32, condition));
          };
          carried[0] = addOne(carried[0], b.lessThan(key, set));
          carried[1] = addOne(carried[1], isOwn);
          b.branch(isOwn, [&] {
            LLVM::AtomicRMWOp::create(b, LLVM::AtomicBinOp::add,
                                      at32(counts, row), b.i32(1),
                                      LLVM::AtomicOrdering::monotonic);
          });
        }
        return carried;
      });
  Value lower = sumOfWarp(b, totals[0]), own = sumOfWarp(b, totals[1]);
  b.branch(b.equal(lane, 0), [&] {
    b.store(lower, at32(lowerOfWarps, warp), 4);
    b.store(own, at32(ownOfWarps, warp), 4);
  });
  b.barrier();
  Value base = b.i32(0), before = b.i32(0), total = b.i32(0);
  for (int64_t w = 0; w < kWarps; ++w) {
    base = b.add(base, b.load(i32, b.advance(lowerOfWarps, w * 4), 4));
    Value ofWarp = b.load(i32, b.advance(ownOfWarps, w * 4), 4);
    before =
        b.add(before, b.select(b.lessThan(b.i32(w), warp), ofWarp, b.i32(0)));
    total = b.add(total, ofWarp);
  }

  // What belongs to the set, in order: a position and a row.
  Value setNotes =
      b.advance(b.advance(workspace, notes), b.wideOffset(base, 8));
  Value below = lanesBelow(b, lane);
  forIds({before}, [&](const Ids &ids, SmallVector<Value> carried) {
    SmallVector<Value> isOwn;
    Value any;
    for (Value key : ids.keys) {
      isOwn.push_back(b.compare(arith::CmpIPredicate::eq, key, set));
      any = any ? arith::OrIOp::create(b, any, isOwn.back()).getResult()
                : isOwn.back();
    }
    Value anyLane =
        b.compare(arith::CmpIPredicate::ne, ballot(b, any), b.i32(0));
    return b.branch(anyLane, carried, [&] {
      Value mine = carried[0], next = carried[0];
      for (Value own : isOwn) {
        Value lanes = ballot(b, own);
        mine = b.add(mine, countBits(b, andBits(b, lanes, below)));
        next = b.add(next, countBits(b, lanes));
      }
      for (auto [i, own] : llvm::enumerate(isOwn)) {
        b.branch(own, [&] {
          Value note =
              b.makeVector({b.add(ids.first, int64_t(i)), ids.rows[i]});
          b.store(note, b.advance(setNotes, b.wideOffset(mine, 8)), 8);
        });
        mine = b.add(mine, arith::ExtUIOp::create(b, i32, own));
      }
      return SmallVector<Value>{next};
    });
  });
  b.barrier();

  // One warp turns counts into beginnings and deals the positions out.
  b.branch(b.equal(warp, 0), [&] {
    Value starts = b.advance(workspace, b.wideOffset(set, setRows * 4));
    SmallVector<Value> last = b.loop(
        b.i32(0), b.i32(setRows), 32, base, [&](Value first, ValueRange sums) {
          Value row = b.add(first, lane);
          Value isRow = b.lessThan(row, setRows);
          Value slot = at32(counts, row);
          // A lane reads no slot but the one that it writes.
          Value number = b.branch(isRow, ValueRange(b.i32(0)), [&] {
            return SmallVector<Value>{b.load(i32, slot, 4)};
          })[0];
          Value sum = number;
          for (int32_t step = 1; step < 32; step *= 2) {
            Value other = shuffle(b, sum, b.i32(step), NVVM::ShflKind::up);
            Value has = b.compare(arith::CmpIPredicate::sge, lane, b.i32(step));
            sum = b.add(sum, b.select(has, other, b.i32(0)));
          }
          Value start = b.add(sums[0], b.sub(sum, number));
          b.branch(isRow, [&] {
            b.store(start, slot, 4);
            b.store(start, at32(starts, row), 4);
          });
          return SmallVector<Value>{b.add(sums[0], shuffle(b, sum, b.i32(31)))};
        });
    b.branch(andBits(b, b.equal(set, sets - 1), b.equal(lane, 0)),
             [&] { b.store(last[0], b.advance(workspace, slots() * 4), 4); });
    b.warpBarrier();
    Value out = b.advance(workspace, positions);
    Type pair = VectorType::get({2}, i32);
    auto loadNote = [&](Value index) {
      return b.load(pair, b.advance(setNotes, b.wideOffset(index, 8)), 8);
    };
    Value most = b.max(b.add(total, -1), 0);
    b.loop(b.i32(0), total, 32, loadNote(b.min(lane, most)),
           [&](Value first, ValueRange notes) {
             Value number = b.add(first, lane);
             Value following = loadNote(b.min(b.add(number, 32), most));
             Value isNote = b.lessThan(number, total);
             Value position = b.element(notes[0], 0);
             Value row = b.element(notes[0], 1);
             Value peers = NVVM::MatchSyncOp::create(
                 b, i32, b.i32(-1), b.select(isNote, row, b.i32(-1)),
                 NVVM::MatchSyncKind::any);
             Value rank = countBits(b, andBits(b, peers, below));
             Value size = countBits(b, peers);
             Value slot = at32(counts, row);
             Value next = b.load(i32, slot, 4);
             b.warpBarrier();
             b.branch(isNote, [&] {
               b.store(position, at32(out, b.add(next, rank)), 4);
             });
             Value isFirst = andBits(b, isNote, b.equal(rank, 0));
             b.branch(isFirst, [&] { b.store(b.add(next, size), slot, 4); });
             b.warpBarrier();
             return SmallVector<Value>{following};
           });
  });

  DeviceLaunch launch;
  launch.grid = {int32_t(sets), 1, 1};
  launch.block = {int32_t(kSortThreads), 1, 1};
  launch.sharedBytes = llvm::alignTo(setRows * 4, 16) + 2 * kWarps * 4;
  launch.bytes = count * getElementBytes(id) + slots() * 4 + count * 4;
  return launch;
}

//===----------------------------------------------------------------------===//
// Add
//===----------------------------------------------------------------------===//

DeviceLaunch Scatter::emitAdd(gpu::GPUModuleOp module, Location loc,
                              StringRef symbol) const {
  int64_t size = getElementBytes(element);
  bool contiguous = updateStrides[1] == 1 && outStrides[1] == 1;
  int64_t width = contiguous ? 16 / size : 1;
  while (columns % width != 0)
    width /= 2;
  int64_t vectors = columns / width, slices = llvm::divideCeil(vectors, 32);
  constexpr int64_t kWarps = kAddThreads / 32;
  int64_t tasks = llvm::divideCeil(slots(), kWarpRows) * slices;

  DeviceBuilder b(module, loc, symbol, 3, {2}, kAddThreads, kAddBlocks);
  Type i32 = b.getI32Type();
  Value starts = b.operand(0), updates = b.operand(1), out = b.operand(2);
  Value lane = b.rem(b.threadId(), 32);
  Value task = b.add(b.mul(b.blockId(0), kWarps), b.div(b.threadId(), 32));
  Value vector = b.add(b.mul(b.rem(task, slices), 32), lane);
  Value isVector = b.lessThan(vector, vectors);
  Value column = b.mul(b.min(vector, vectors - 1), width);
  Value updateColumn =
      b.advance(updates, b.wideOffset(column, updateStrides[1] * size));
  Value outColumn = b.advance(out, b.wideOffset(column, outStrides[1] * size));
  Value positionOf = b.advance(starts, positions);
  Type type = width == 1 ? element : Type(VectorType::get({width}, element));
  Value zero = arith::ConstantOp::create(b, type, b.getZeroAttr(type));

  Value firstSlot = b.mul(b.div(task, slices), kWarpRows);
  Value ownBound = b.load(
      i32,
      b.advance(
          starts,
          b.wideOffset(b.min(b.add(firstSlot, b.min(lane, kWarpRows)), slots()),
                       4)),
      4);
  b.loop(b.i32(0), b.i32(kWarpRows), 1, [&](Value i) {
    Value begin = shuffle(b, ownBound, i);
    Value end = shuffle(b, ownBound, b.add(i, 1));
    /// The positions at `first` and the 31 after it, one a lane.
    auto loadPositions = [&](Value first) {
      Value index = b.min(b.add(first, lane), b.add(end, -1));
      return b.load(i32, b.advance(positionOf, b.wideOffset(index, 4)), 4);
    };
    auto loadUpdate = [&](Value position) {
      Value offset = b.wideOffset(position, updateStrides[0] * size);
      return b.load(type, b.advance(updateColumn, offset),
                    std::min(updateAlignment, width * size));
    };
    Value whole = b.sub(end, b.bitAnd(b.sub(end, begin), 31));
    Value any = b.lessThan(begin, end);
    SmallVector<Value> sum = b.branch(any, ValueRange(zero), [&] {
      SmallVector<Value> many =
          b.loop(begin, whole, 32, ValueRange{zero, loadPositions(begin)},
                 [&](Value first, ValueRange carried) {
                   Value next = loadPositions(b.add(first, 32));
                   SmallVector<Value> sums =
                       b.loop(b.i32(0), b.i32(32), kManyLoads, carried[0],
                              [&](Value lanes, ValueRange sums) {
                                SmallVector<Value> loaded;
                                for (int64_t j = 0; j < kManyLoads; ++j)
                                  loaded.push_back(loadUpdate(
                                      shuffle(b, carried[1], b.add(lanes, j))));
                                Value sum = sums[0];
                                for (Value update : loaded)
                                  sum = b.addF(sum, update);
                                return SmallVector<Value>{sum};
                              });
                   return SmallVector<Value>{sums[0], next};
                 });
      // Adding 0 to a sum that began with 0 changes no bit of it.
      return b.loop(
          whole, end, kFewLoads, many[0], [&](Value first, ValueRange carried) {
            SmallVector<Value> loaded, valid;
            for (int64_t j = 0; j < kFewLoads; ++j) {
              Value at = b.min(b.add(first, j), b.add(end, -1));
              loaded.push_back(
                  loadUpdate(shuffle(b, many[1], b.sub(at, whole))));
              valid.push_back(b.lessThan(b.add(first, j), end));
            }
            Value sum = carried[0];
            for (auto [update, isValid] : llvm::zip_equal(loaded, valid))
              sum = b.addF(sum, b.select(isValid, update, zero));
            return SmallVector<Value>{sum};
          });
    });
    Value slot = b.add(firstSlot, i);
    Value row = b.add(b.mul(b.rem(slot, setRows), sets), b.div(slot, setRows));
    Value isRow = andBits(b, b.lessThan(slot, slots()), b.lessThan(row, rows));
    b.branch(andBits(b, isRow, isVector), [&] {
      b.store(sum[0],
              b.advance(outColumn, b.wideOffset(row, outStrides[0] * size)),
              std::min(outAlignment, width * size));
    });
  });

  DeviceLaunch launch;
  launch.grid = {int32_t(llvm::divideCeil(tasks, kWarps)), 1, 1};
  launch.block = {int32_t(kAddThreads), 1, 1};
  launch.bytes = bytes + slots() * 4 + count * 4;
  launch.flops = count * columns;
  return launch;
}

LogicalResult blurt::emitScatterAdd(ScatterAddOp op, CudaHost &host) {
  Type element = getElementTypeOrSelf(op.getOuts()[0].getType());
  if (!element.isF32() && !element.isF64())
    return op.emitOpError("has element type ")
           << element
           << ", which the CUDA target cannot add up, expected f32 or f64";
  Scatter scatter(op, host);
  if (scatter.workspaceBytes > host.getWorkspaceBytes())
    return op.emitOpError("needs a workspace of ")
           << scatter.workspaceBytes << " bytes, the plan has "
           << host.getWorkspaceBytes();
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Value workspace = host.getWorkspace(builder, loc);
  std::string key = getStructureKey(op) + " " +
                    std::to_string(scatter.idAlignment) + " " +
                    std::to_string(scatter.updateAlignment) + " " +
                    std::to_string(scatter.outAlignment);
  int32_t sort = host.getKernel(
      key + " sort", "scatter_add_sort", op, 2, [&](StringRef symbol) {
        return scatter.emitSort(host.getKernels(), loc, symbol);
      });
  host.launch(builder, loc, sort, {op.getIds(), workspace});
  int32_t add =
      host.getKernel(key, "scatter_add", op, 3, [&](StringRef symbol) {
        return scatter.emitAdd(host.getKernels(), loc, symbol);
      });
  host.launch(builder, loc, add, {workspace, op.getUpdates(), op.getOuts()[0]});
  return success();
}
