//===- AttentionEmitter.cpp - tiled attention kernels ---------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Forward: a task is a tile of query rows of one head. For each tile of keys
// the scores are a library product into scratch on the stack; row by row they
// become exponentials, rescaled when the running maximum grows, and multiply
// the values into the output.
//
// Backward: a task is one key-value head of one batch entry, so that dk and dv
// are sums in program order. Query tiles run outside, key tiles inside; the
// probabilities come back from lse.
//
// bf16 operands are copied to f32 tiles on the stack and results rounded from
// there. Backward then goes through the tiles twice, for dq and for dk and dv.
//
// Tiles depend on shapes alone, and keys that no row of a tile sees are never
// touched.
//
//===----------------------------------------------------------------------===//

#include "CpuHost.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::blurt;

/// Query rows of a tile.
static constexpr int64_t kQueryTile = 64;

namespace {
/// A B×T×H×D operand.
struct Rows {
  Value base;
  SmallVector<int64_t> strides;
  int64_t ld() const { return strides[1]; }
};

/// Rows of one head in the type that is computed in.
struct Tile {
  Value base;
  int64_t ld;
};

/// What the two kernels share: shapes, strides and row arithmetic.
struct AttentionBuilder {
  AttentionBuilder(KernelBuilder &b, MemRefType q, MemRefType k, double scale,
                   bool causal)
      : b(b), stored(q.getElementType()),
        element(GroupOp::getScalarType(stored)), lanes(getLaneType(element)),
        batch(q.getDimSize(0)), queries(q.getDimSize(1)),
        heads(q.getDimSize(2)), depth(q.getDimSize(3)), keys(k.getDimSize(1)),
        keyHeads(k.getDimSize(2)), scale(scale), causal(causal),
        keyTile(element.isF64() ? 128 : 256), scratchLd(keyTile + kLanes) {}

  Rows rows(unsigned argument, MemRefType type) {
    auto [strides, offset] = type.getStridesAndOffset();
    return {b.loadArgument(argument), strides};
  }
  Value at(const Rows &rows, Value batchIndex, Value row, Value head) {
    Value offset =
        b.add(b.mul(batchIndex, rows.strides[0]), b.mul(head, rows.strides[2]));
    offset = b.add(offset, b.mul(row, rows.strides[1]));
    return b.advance(stored, rows.base, offset);
  }

  bool isNarrow() const { return stored != element; }
  /// Room for `count` rows if operands are copied.
  Value scratch(int64_t count) {
    return isNarrow() ? b.stackBuffer(element, count * depth) : Value();
  }
  /// `count` rows of an operand: where they are, or copied to `scratch`.
  Tile read(const Rows &rows, Value batchIndex, Value first, Value count,
            Value head, Value scratch) {
    Value source = at(rows, batchIndex, first, head);
    if (!isNarrow())
      return {source, rows.ld()};
    forRows(count, [&](Value i) {
      Value from = b.advance(stored, source, b.mul(i, rows.ld()));
      Value to = b.advance(element, scratch, b.mul(i, depth));
      forVectors(depth, [&](Value at, const Lanes &valid) {
        b.storeVector(
            element,
            b.loadVector(stored, b.advance(stored, from, at), 1, valid),
            b.advance(element, to, at), 1, valid);
      });
    });
    return {scratch, depth};
  }
  /// Where `count` rows of a result are added up.
  Tile accumulator(const Rows &rows, Value batchIndex, Value first, Value head,
                   Value scratch) {
    if (isNarrow())
      return {scratch, depth};
    return {at(rows, batchIndex, first, head), rows.ld()};
  }
  /// Rounds what was added up in an accumulator apart.
  void write(const Tile &tile, const Rows &rows, Value batchIndex, Value first,
             Value count, Value head) {
    if (!isNarrow())
      return;
    Value target = at(rows, batchIndex, first, head);
    forRows(count, [&](Value i) {
      Value from = b.advance(element, tile.base, b.mul(i, tile.ld));
      Value to = b.advance(stored, target, b.mul(i, rows.ld()));
      forVectors(depth, [&](Value at, const Lanes &valid) {
        b.storeVector(
            stored,
            b.loadVector(element, b.advance(element, from, at), 1, valid),
            b.advance(stored, to, at), 1, valid);
      });
    });
  }
  void forRows(Value count, llvm::function_ref<void(Value)> body) {
    scf::ForOp loop = b.loop(b.i64(0), count, 1);
    b.atEnd(loop.getBody(), [&] { body(loop.getInductionVar()); });
  }
  void clear(const Tile &tile, Value count) {
    forRows(count, [&](Value i) {
      fillZero(b.advance(element, tile.base, b.mul(i, tile.ld)));
    });
  }

  Value constant(double value) { return b.constant(element, value); }
  Value addF(Value l, Value r) { return arith::AddFOp::create(b, l, r); }
  Value subF(Value l, Value r) { return arith::SubFOp::create(b, l, r); }
  Value mulF(Value l, Value r) { return arith::MulFOp::create(b, l, r); }
  Value maxF(Value l, Value r) { return arith::MaximumFOp::create(b, l, r); }
  Value sumLanes(Value vector) {
    return b.horizontal(vector, [&](Value l, Value r) { return addF(l, r); });
  }

  /// C = alpha op(A) op(B) + beta C on this thread.
  void gemm(bool transA, bool transB, Value m, Value n, Value k, Value alpha,
            Value a, int64_t lda, Value bMatrix, int64_t ldb, Value beta,
            Value c, int64_t ldc) {
    auto flag = [&](bool value) -> Value {
      return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
    };
    SmallVector<Value> operands{
        flag(transA), flag(transB), m,          n,    k, alpha,     a,
        b.i64(lda),   bMatrix,      b.i64(ldb), beta, c, b.i64(ldc)};
    auto module = b.getKernel()->getParentOfType<ModuleOp>();
    LLVM::LLVMFuncOp callee = declareFunction(
        module, element.isF32() ? "blurt_gemm_tile_f32" : "blurt_gemm_tile_f64",
        ValueRange(operands).getTypes());
    LLVM::CallOp::create(b, callee, operands);
  }

  /// Runs `body` over [0, count) in vectors, the last one masked.
  void forVectors(int64_t count,
                  llvm::function_ref<void(Value, const Lanes &)> body) {
    int64_t tail = count % kLanes;
    if (count >= kLanes) {
      scf::ForOp loop = b.loop(b.i64(0), b.i64(count - tail), kLanes);
      b.atEnd(loop.getBody(), [&] { body(loop.getInductionVar(), {}); });
    }
    if (tail != 0)
      body(b.i64(count - tail), b.lanes(b.i64(tail)));
  }

  void fillZero(Value pointer) {
    forVectors(depth, [&](Value at, const Lanes &valid) {
      b.storeVector(element, b.constant(lanes, 0),
                    b.advance(element, pointer, at), 1, valid);
    });
  }

  /// Keys that query row `row` sees, of all: its position (plus one) in the
  /// keys, or all of them.
  Value visibleKeys(Value row, Value position) {
    if (position)
      return b.min(b.add(b.add(row, position), b.i64(1)), b.i64(keys));
    if (!causal)
      return b.i64(keys);
    Value end = b.add(row, b.i64(keys - queries + 1));
    return b.max(b.min(end, b.i64(keys)), b.i64(0));
  }

  KernelBuilder &b;
  Type stored;  ///< of operands and results in memory
  Type element; ///< of scratch and arithmetic
  VectorType lanes;
  int64_t batch, queries, heads, depth, keys, keyHeads;
  double scale;
  bool causal;
  int64_t keyTile;
  int64_t scratchLd; ///< room for a vector that starts at the last key
};
} // namespace

/// Walks the first `valid` scores of a row: whole vectors, then one masked
/// vector at the end (which may have no valid lane), then the rest of `width`
/// through `clear`. Accumulators are vectors of 16 lanes.
static SmallVector<Value>
walkRow(AttentionBuilder &a, Value valid, SmallVector<Value> inits,
        llvm::function_ref<SmallVector<Value>(Value, const Lanes &, ValueRange)>
            body) {
  KernelBuilder &b = a.b;
  Value whole = b.mul(b.div(valid, kLanes), kLanes);
  scf::ForOp loop = b.loop(b.i64(0), whole, kLanes, inits);
  b.atEnd(loop.getBody(), [&] {
    SmallVector<Value> next =
        body(loop.getInductionVar(), {}, loop.getRegionIterArgs());
    loop.getBody()->getTerminator()->setOperands(next);
  });
  return body(whole, b.lanes(b.sub(valid, whole)), loop.getResults());
}

/// Stores zeros from the vector after the masked one up to `width`.
static void clearRest(AttentionBuilder &a, Value row, Value valid,
                      Value width) {
  KernelBuilder &b = a.b;
  Value from = b.add(b.mul(b.div(valid, kLanes), kLanes), b.i64(kLanes));
  scf::ForOp loop = b.loop(from, width, kLanes);
  b.atEnd(loop.getBody(), [&] {
    b.storeVector(a.element, b.constant(a.lanes, 0),
                  b.advance(a.element, row, loop.getInductionVar()), 1);
  });
}

template <typename OpTy>
static LogicalResult checkLayouts(OpTy op, ValueRange operands) {
  if (op.getTf32())
    return op.emitOpError("is tf32, which the CPU target does not have");
  for (Value operand : operands) {
    auto type = cast<MemRefType>(operand.getType());
    auto [strides, offset] = type.getStridesAndOffset();
    if (strides[3] != 1 && type.getDimSize(3) != 1)
      return op.emitOpError("has an operand of stride ")
             << strides[3] << " along its last dim, expected 1";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Forward
//===----------------------------------------------------------------------===//

static void emitForward(AttentionOp op, KernelBuilder &b, Kernel &kernel) {
  auto typeOf = [](Value value) { return cast<MemRefType>(value.getType()); };
  AttentionBuilder a(b, typeOf(op.getQ()), typeOf(op.getK()),
                     op.getScale().convertToDouble(), op.getCausal());
  Type element = a.element;
  Rows q = a.rows(0, typeOf(op.getQ())), k = a.rows(1, typeOf(op.getK())),
       v = a.rows(2, typeOf(op.getV()));
  unsigned next = 3;
  Value position;
  if (op.getPosition())
    position = b.loadScalar(b.getI64Type(), b.loadArgument(next++));
  Rows o = a.rows(next, typeOf(op.getOuts()[0]));
  Value lse = b.loadArgument(next + 1);
  auto [lseStrides, ignored] = typeOf(op.getOuts()[1]).getStridesAndOffset();

  int64_t tiles = llvm::divideCeil(a.queries, kQueryTile);
  kernel.tasks = a.batch * a.heads * tiles;
  int64_t work = std::min(kQueryTile, a.queries) * a.keys * (2 * a.depth + 16);
  kernel.grain = std::max<int64_t>(1, (1 << 17) / std::max<int64_t>(1, work));

  Value scores = b.stackBuffer(element, kQueryTile * a.scratchLd);
  Value maxima = b.stackBuffer(element, kQueryTile);
  Value sums = b.stackBuffer(element, kQueryTile);
  Value qScratch = a.scratch(kQueryTile), oScratch = a.scratch(kQueryTile);
  Value kScratch = a.scratch(a.keyTile), vScratch = a.scratch(a.keyTile);
  constexpr double inf = std::numeric_limits<double>::infinity();

  scf::ForOp tasks = b.loop(b.getBegin(), b.getEnd(), 1);
  b.setInsertionPoint(tasks.getBody()->getTerminator());
  Value task = tasks.getInductionVar();
  // The last tiles see most keys under a causal mask: start with them.
  Value tile = b.sub(b.i64(tiles - 1), b.rem(task, tiles));
  Value head = b.rem(b.div(task, tiles), a.heads);
  Value entry = b.div(task, tiles * a.heads);
  Value keyHead = b.div(head, a.heads / a.keyHeads);
  Value first = b.mul(tile, kQueryTile);
  Value count = b.min(b.i64(kQueryTile), b.sub(b.i64(a.queries), first));
  Tile qTile = a.read(q, entry, first, count, head, qScratch);
  Tile oTile = a.accumulator(o, entry, first, head, oScratch);

  scf::ForOp init = b.loop(b.i64(0), count, 1);
  b.atEnd(init.getBody(), [&] {
    Value i = init.getInductionVar();
    b.storeScalar(element, a.constant(-inf), b.advance(element, maxima, i));
    b.storeScalar(element, a.constant(0), b.advance(element, sums, i));
  });

  Value limit = a.visibleKeys(b.add(first, b.sub(count, b.i64(1))), position);
  scf::ForOp keyLoop = b.loop(b.i64(0), limit, a.keyTile);
  b.atEnd(keyLoop.getBody(), [&] {
    Value begin = keyLoop.getInductionVar();
    Value width = b.min(b.i64(a.keyTile), b.sub(limit, begin));
    Value isFirst =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, begin, b.i64(0));
    Tile kTile = a.read(k, entry, begin, width, keyHead, kScratch);
    a.gemm(false, true, count, width, b.i64(a.depth), a.constant(a.scale),
           qTile.base, qTile.ld, kTile.base, kTile.ld, a.constant(0), scores,
           a.scratchLd);
    scf::ForOp rows = b.loop(b.i64(0), count, 1);
    b.atEnd(rows.getBody(), [&] {
      Value i = rows.getInductionVar();
      Value row = b.advance(element, scores, b.mul(i, a.scratchLd));
      Value valid = b.sub(a.visibleKeys(b.add(first, i), position), begin);
      valid = b.max(b.min(valid, width), b.i64(0));
      auto load = [&](Value at, const Lanes &lanes) -> Value {
        Value x = b.loadVector(element, b.advance(element, row, at), 1);
        if (!lanes.mask)
          return x;
        return arith::SelectOp::create(b, lanes.mask, x,
                                       b.constant(a.lanes, -inf));
      };
      Value lanesMax =
          walkRow(a, valid, {b.constant(a.lanes, -inf)},
                  [&](Value at, const Lanes &lanes, ValueRange acc) {
                    return SmallVector<Value>{a.maxF(acc[0], load(at, lanes))};
                  })[0];
      Value maxSlot = b.advance(element, maxima, i);
      Value sumSlot = b.advance(element, sums, i);
      Value oldMax = b.loadScalar(element, maxSlot);
      Value newMax =
          a.maxF(oldMax, b.horizontal(lanesMax, [&](Value l, Value r) {
            return a.maxF(l, r);
          }));
      // A row that has seen nothing yet keeps exponentials of 0.
      Value none = arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, newMax,
                                         a.constant(-inf));
      Value shift = arith::SelectOp::create(b, none, a.constant(0), newMax);
      Value shiftLanes = b.splat(shift);
      Value lanesSum =
          walkRow(a, valid, {b.constant(a.lanes, 0)},
                  [&](Value at, const Lanes &lanes, ValueRange acc) {
                    Value p = math::ExpOp::create(
                        b, a.subF(load(at, lanes), shiftLanes));
                    b.storeVector(element, p, b.advance(element, row, at), 1);
                    return SmallVector<Value>{a.addF(acc[0], p)};
                  })[0];
      clearRest(a, row, valid, width);
      Value correction = math::ExpOp::create(b, a.subF(oldMax, shift));
      Value oldSum = b.loadScalar(element, sumSlot);
      b.storeScalar(element,
                    a.addF(a.mulF(oldSum, correction), a.sumLanes(lanesSum)),
                    sumSlot);
      b.storeScalar(element, newMax, maxSlot);
      // What is in the output so far was scaled by the old maximum.
      Value one = a.constant(1);
      Value changed =
          arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, correction, one);
      Value notFirst =
          arith::CmpIOp::create(b, arith::CmpIPredicate::ne, begin, b.i64(0));
      scf::IfOp rescale =
          b.branch(arith::AndIOp::create(b, changed, notFirst), false);
      b.atEnd(rescale.thenBlock(), [&] {
        Value out = b.advance(element, oTile.base, b.mul(i, oTile.ld));
        Value factor = b.splat(correction);
        a.forVectors(a.depth, [&](Value at, const Lanes &lanes) {
          Value slot = b.advance(element, out, at);
          b.storeVector(element,
                        a.mulF(b.loadVector(element, slot, 1, lanes), factor),
                        slot, 1, lanes);
        });
      });
    });
    Value beta =
        arith::SelectOp::create(b, isFirst, a.constant(0), a.constant(1));
    Tile vTile = a.read(v, entry, begin, width, keyHead, vScratch);
    a.gemm(false, false, count, b.i64(a.depth), width, a.constant(1), scores,
           a.scratchLd, vTile.base, vTile.ld, beta, oTile.base, oTile.ld);
  });

  scf::ForOp finish = b.loop(b.i64(0), count, 1);
  b.atEnd(finish.getBody(), [&] {
    Value i = finish.getInductionVar();
    Value sum = b.loadScalar(element, b.advance(element, sums, i));
    Value max = b.loadScalar(element, b.advance(element, maxima, i));
    Value out = b.advance(element, oTile.base, b.mul(i, oTile.ld));
    // Written so that a NaN sum is not taken for an empty row.
    Value isEmpty =
        arith::CmpFOp::create(b, arith::CmpFPredicate::OEQ, sum, a.constant(0));
    Value inverse = arith::DivFOp::create(b, a.constant(1), sum);
    Value factor = b.splat(inverse);
    Value emptyLanes = b.splat(isEmpty);
    a.forVectors(a.depth, [&](Value at, const Lanes &lanes) {
      Value slot = b.advance(element, out, at);
      Value value = a.mulF(b.loadVector(element, slot, 1, lanes), factor);
      value =
          arith::SelectOp::create(b, emptyLanes, b.constant(a.lanes, 0), value);
      b.storeVector(element, value, slot, 1, lanes);
    });
    Value logarithm = a.addF(max, math::LogOp::create(b, sum));
    Value offset =
        b.add(b.mul(entry, lseStrides[0]), b.mul(head, lseStrides[1]));
    offset = b.add(offset, b.mul(b.add(first, i), lseStrides[2]));
    b.storeScalar(element, logarithm, b.advance(element, lse, offset));
  });
  a.write(oTile, o, entry, first, count, head);
}

LogicalResult blurt::emitAttention(AttentionOp op, CpuHost &host) {
  if (failed(
          checkLayouts(op, {op.getQ(), op.getK(), op.getV(), op.getOuts()[0]})))
    return failure();
  const Kernel &kernel = host.getKernel(
      getStructureKey(op), "attention", op.getLoc(),
      [&](KernelBuilder &b, Kernel &kernel) { emitForward(op, b, kernel); });
  OpBuilder builder(op);
  host.launch(builder, op.getLoc(), kernel, op.getOperands());
  return success();
}

//===----------------------------------------------------------------------===//
// Backward
//===----------------------------------------------------------------------===//

namespace {
/// The parts of the backward kernel: operands, results, and steps over tiles.
struct BackwardBuilder : AttentionBuilder {
  BackwardBuilder(AttentionGradOp op, KernelBuilder &b)
      : AttentionBuilder(b, type(op.getQ()), type(op.getK()),
                         op.getScale().convertToDouble(), op.getCausal()),
        q(rows(0, type(op.getQ()))), k(rows(1, type(op.getK()))),
        v(rows(2, type(op.getV()))), o(rows(3, type(op.getO()))),
        dO(rows(5, type(op.getDO()))), dq(rows(6, type(op.getOuts()[0]))),
        dk(rows(7, type(op.getOuts()[1]))), dv(rows(8, type(op.getOuts()[2]))),
        lse(b.loadArgument(4)) {
    lseStrides = std::get<0>(type(op.getLse()).getStridesAndOffset());
    probabilities = b.stackBuffer(element, kQueryTile * scratchLd);
    cotangents = b.stackBuffer(element, kQueryTile * scratchLd);
    deltas = b.stackBuffer(element, kQueryTile);
    qScratch = scratch(kQueryTile);
    doScratch = scratch(kQueryTile);
    dqScratch = scratch(kQueryTile);
    kScratch = scratch(keyTile);
    vScratch = scratch(keyTile);
    dkScratch = scratch(keyTile);
    dvScratch = scratch(keyTile);
  }

  static MemRefType type(Value value) {
    return cast<MemRefType>(value.getType());
  }

  /// A tile of query rows and what comes with it.
  struct Queries {
    Value entry, head, first, count;
    Tile q, dO;
  };
  Queries readQueries(Value entry, Value head, Value first);
  /// A tile of keys, the first `width` of it in use.
  struct Keys {
    Value begin, width;
    Tile k, v;
  };
  Keys readKeys(Value entry, Value head, Value begin, Value width) {
    return {begin, width, read(k, entry, begin, width, head, kScratch),
            read(v, entry, begin, width, head, vScratch)};
  }
  /// Keys that some query of the tile sees.
  Value limit(const Queries &queries) {
    return visibleKeys(b.add(queries.first, b.sub(queries.count, b.i64(1))),
                       {});
  }

  /// p and ds of queries × keys to `probabilities` and `cotangents`.
  void buildScores(const Queries &queries, const Keys &keys);
  /// dq += ds · k.
  void addToQueries(const Queries &queries, const Keys &keys, const Tile &sum) {
    gemm(false, false, queries.count, b.i64(depth), keys.width, constant(1),
         cotangents, scratchLd, keys.k.base, keys.k.ld, constant(1), sum.base,
         sum.ld);
  }
  /// dv += pᵀ · do and dk += dsᵀ · q.
  void addToKeys(const Queries &queries, const Keys &keys, const Tile &sumK,
                 const Tile &sumV) {
    gemm(true, false, keys.width, b.i64(depth), queries.count, constant(1),
         probabilities, scratchLd, queries.dO.base, queries.dO.ld, constant(1),
         sumV.base, sumV.ld);
    gemm(true, false, keys.width, b.i64(depth), queries.count, constant(1),
         cotangents, scratchLd, queries.q.base, queries.q.ld, constant(1),
         sumK.base, sumK.ld);
  }

  Rows q, k, v, o, dO, dq, dk, dv;
  Value lse;
  SmallVector<int64_t> lseStrides;
  Value probabilities, cotangents, deltas;
  Value qScratch, doScratch, dqScratch, kScratch, vScratch, dkScratch,
      dvScratch;
};
} // namespace

/// Computes `deltas`, Σ do · o of each row, as well.
BackwardBuilder::Queries BackwardBuilder::readQueries(Value entry, Value head,
                                                      Value first) {
  Value count = b.min(b.i64(kQueryTile), b.sub(b.i64(queries), first));
  Queries result{entry,
                 head,
                 first,
                 count,
                 read(q, entry, first, count, head, qScratch),
                 read(dO, entry, first, count, head, doScratch)};
  Value cotangentRows = at(dO, entry, first, head);
  forRows(count, [&](Value i) {
    Value out = at(o, entry, b.add(first, i), head);
    Value cotangent = b.advance(stored, cotangentRows, b.mul(i, dO.ld()));
    Value total = b.constant(lanes, 0);
    int64_t tail = depth % kLanes;
    auto product = [&](Value at, const Lanes &valid) {
      // Lanes that are not valid hold 0.
      return mulF(
          b.loadVector(stored, b.advance(stored, out, at), 1, valid),
          b.loadVector(stored, b.advance(stored, cotangent, at), 1, valid));
    };
    if (depth >= kLanes) {
      scf::ForOp loop = b.loop(b.i64(0), b.i64(depth - tail), kLanes, {total});
      b.atEnd(loop.getBody(), [&] {
        Value sum =
            addF(loop.getRegionIterArg(0), product(loop.getInductionVar(), {}));
        loop.getBody()->getTerminator()->setOperands({sum});
      });
      total = loop.getResult(0);
    }
    if (tail != 0)
      total = addF(total, product(b.i64(depth - tail), b.lanes(b.i64(tail))));
    b.storeScalar(element, sumLanes(total), b.advance(element, deltas, i));
  });
  return result;
}

void BackwardBuilder::buildScores(const Queries &queries, const Keys &keys) {
  constexpr double inf = std::numeric_limits<double>::infinity();
  gemm(false, true, queries.count, keys.width, b.i64(depth), constant(scale),
       queries.q.base, queries.q.ld, keys.k.base, keys.k.ld, constant(0),
       probabilities, scratchLd);
  gemm(false, true, queries.count, keys.width, b.i64(depth), constant(1),
       queries.dO.base, queries.dO.ld, keys.v.base, keys.v.ld, constant(0),
       cotangents, scratchLd);
  forRows(queries.count, [&](Value i) {
    Value p = b.advance(element, probabilities, b.mul(i, scratchLd));
    Value ds = b.advance(element, cotangents, b.mul(i, scratchLd));
    Value valid = b.sub(visibleKeys(b.add(queries.first, i), {}), keys.begin);
    valid = b.max(b.min(valid, keys.width), b.i64(0));
    Value offset = b.add(b.mul(queries.entry, lseStrides[0]),
                         b.mul(queries.head, lseStrides[1]));
    offset = b.add(offset, b.mul(b.add(queries.first, i), lseStrides[2]));
    Value shift =
        b.splat(b.loadScalar(element, b.advance(element, lse, offset)));
    Value delta = b.splat(b.loadScalar(element, b.advance(element, deltas, i)));
    Value factor = b.constant(lanes, scale);
    walkRow(*this, valid, {}, [&](Value at, const Lanes &used, ValueRange) {
      Value pSlot = b.advance(element, p, at);
      Value dSlot = b.advance(element, ds, at);
      Value x = subF(b.loadVector(element, pSlot, 1), shift);
      if (used.mask)
        x = arith::SelectOp::create(b, used.mask, x, b.constant(lanes, -inf));
      Value probability = math::ExpOp::create(b, x);
      Value d = subF(b.loadVector(element, dSlot, 1), delta);
      d = mulF(mulF(probability, d), factor);
      // Beyond the row's keys the scratch holds anything.
      if (used.mask)
        d = arith::SelectOp::create(b, used.mask, d, b.constant(lanes, 0));
      b.storeVector(element, probability, pSlot, 1);
      b.storeVector(element, d, dSlot, 1);
      return SmallVector<Value>{};
    });
    clearRest(*this, p, valid, keys.width);
    clearRest(*this, ds, valid, keys.width);
  });
}

static void emitBackward(AttentionGradOp op, KernelBuilder &b, Kernel &kernel) {
  BackwardBuilder a(op, b);
  kernel.tasks = a.batch * a.keyHeads;
  kernel.grain = 1;
  int64_t group = a.heads / a.keyHeads;

  scf::ForOp tasks = b.loop(b.getBegin(), b.getEnd(), 1);
  b.setInsertionPoint(tasks.getBody()->getTerminator());
  Value keyHead = b.rem(tasks.getInductionVar(), a.keyHeads);
  Value entry = b.div(tasks.getInductionVar(), a.keyHeads);
  /// The query tiles of all heads that read the key-value head.
  auto forQueries = [&](llvm::function_ref<void(Value, Value)> body) {
    a.forRows(b.i64(group), [&](Value i) {
      Value head = b.add(b.mul(keyHead, group), i);
      scf::ForOp tiles = b.loop(b.i64(0), b.i64(a.queries), kQueryTile);
      b.atEnd(tiles.getBody(), [&] { body(head, tiles.getInductionVar()); });
    });
  };
  auto forKeys = [&](Value limit, llvm::function_ref<void(Value, Value)> body) {
    scf::ForOp tiles = b.loop(b.i64(0), limit, a.keyTile);
    b.atEnd(tiles.getBody(), [&] {
      Value begin = tiles.getInductionVar();
      body(begin, b.min(b.i64(a.keyTile), b.sub(limit, begin)));
    });
  };

  if (!a.isNarrow())
    a.forRows(b.i64(a.keys), [&](Value row) {
      a.fillZero(a.at(a.dk, entry, row, keyHead));
      a.fillZero(a.at(a.dv, entry, row, keyHead));
    });
  forQueries([&](Value head, Value first) {
    BackwardBuilder::Queries queries = a.readQueries(entry, head, first);
    Tile dq = a.accumulator(a.dq, entry, first, head, a.dqScratch);
    a.clear(dq, queries.count);
    forKeys(a.limit(queries), [&](Value begin, Value width) {
      BackwardBuilder::Keys keys = a.readKeys(entry, keyHead, begin, width);
      a.buildScores(queries, keys);
      if (!a.isNarrow())
        a.addToKeys(queries, keys,
                    {a.at(a.dk, entry, begin, keyHead), a.dk.ld()},
                    {a.at(a.dv, entry, begin, keyHead), a.dv.ld()});
      a.addToQueries(queries, keys, dq);
    });
    a.write(dq, a.dq, entry, first, queries.count, head);
  });
  if (!a.isNarrow())
    return;
  // Sums over all queries fit the stack for one tile of keys only.
  forKeys(b.i64(a.keys), [&](Value begin, Value width) {
    BackwardBuilder::Keys keys = a.readKeys(entry, keyHead, begin, width);
    Tile dk{a.dkScratch, a.depth}, dv{a.dvScratch, a.depth};
    a.clear(dk, width);
    a.clear(dv, width);
    forQueries([&](Value head, Value first) {
      BackwardBuilder::Queries queries = a.readQueries(entry, head, first);
      a.buildScores(queries, keys);
      a.addToKeys(queries, keys, dk, dv);
    });
    a.write(dk, a.dk, entry, begin, width, keyHead);
    a.write(dv, a.dv, entry, begin, width, keyHead);
  });
}

LogicalResult blurt::emitAttentionGrad(AttentionGradOp op, CpuHost &host) {
  if (failed(checkLayouts(op, {op.getQ(), op.getK(), op.getV(), op.getO(),
                               op.getDO(), op.getOuts()[0], op.getOuts()[1],
                               op.getOuts()[2]})))
    return failure();
  const Kernel &kernel = host.getKernel(
      getStructureKey(op), "attention_grad", op.getLoc(),
      [&](KernelBuilder &b, Kernel &kernel) { emitBackward(op, b, kernel); });
  OpBuilder builder(op);
  host.launch(builder, op.getLoc(), kernel, op.getOperands());
  return success();
}
