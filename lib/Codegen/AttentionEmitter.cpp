//===- AttentionEmitter.cpp - tiled attention on CPUs ---------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Attention by tiles of queries and keys (Dao et al., arXiv 2205.14135): of the
// score matrix only one tile exists at a time, on the stack. Products of tiles
// are library calls, what happens to the rows of a tile between them is vector
// code.
//
// Forward, one task a tile of queries: a running maximum and sum of each row,
// the output rescaled whenever the maximum grows. Backward, one task a head of
// keys: its dK and dV are summed over the tiles of queries in order, so the
// result does not depend on the number of threads.
//
//===----------------------------------------------------------------------===//

#include "HostEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;
using namespace mlir::blurt;

/// Rows and columns of a tile of scores.
static constexpr int64_t kQueries = 64;
static constexpr int64_t kKeys = 64;

namespace {

/// A B×T×H×D operand inside a kernel.
struct HeadsOperand {
  Value pointer;
  int64_t batch, row, head; ///< strides

  HeadsOperand(KernelBuilder &b, Value memref, unsigned argument) {
    auto type = cast<MemRefType>(memref.getType());
    auto [strides, offset] = type.getStridesAndOffset();
    pointer = b.loadArgument(argument);
    batch = strides[0];
    row = strides[1];
    head = strides[2];
  }
};

/// What forward and backward have in common.
class AttentionKernel {
public:
  AttentionKernel(KernelBuilder &b, MemRefType q, MemRefType k, double scale,
                  bool causal)
      : b(b), element(q.getElementType()), batches(q.getDimSize(0)),
        queries(q.getDimSize(1)), heads(q.getDimSize(2)),
        width(q.getDimSize(3)), keys(k.getDimSize(1)), kvHeads(k.getDimSize(2)),
        scale(scale), causal(causal), shift(b.i64(keys - queries)) {}

  /// Queries see the keys up to their own position plus `position`.
  void setPosition(Value position) {
    causal = true;
    shift = position;
  }

  void emitForward(HeadsOperand q, HeadsOperand k, HeadsOperand v,
                   HeadsOperand o, Value lse, ArrayRef<int64_t> lseStrides,
                   Kernel &kernel);
  void emitBackward(HeadsOperand q, HeadsOperand k, HeadsOperand v,
                    HeadsOperand o, Value lse, ArrayRef<int64_t> lseStrides,
                    HeadsOperand dO, HeadsOperand dq, HeadsOperand dk,
                    HeadsOperand dv, Kernel &kernel);

private:
  Value at(Value pointer, Value index) {
    return b.advance(element, pointer, index);
  }
  Value rowOf(const HeadsOperand &x, Value batch, Value row, Value head) {
    return at(x.pointer, b.add(b.add(b.mul(batch, x.batch), b.mul(row, x.row)),
                               b.mul(head, x.head)));
  }
  Value number(double value) {
    return arith::ConstantOp::create(b, b.getFloatAttr(element, value));
  }
  Value exp(Value x) { return math::ExpOp::create(b, x); }
  Value addf(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value subf(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mulf(Value x, Value y) { return arith::MulFOp::create(b, x, y); }

  void forLoop(Value begin, Value end, int64_t step,
               llvm::function_ref<void(Value)> body) {
    scf::ForOp loop = b.loop(begin, end, step);
    b.atEnd(loop.getBody(), [&] { body(loop.getInductionVar()); });
  }
  /// A loop with one carried value; `body` gets it and returns the next.
  Value fold(Value end, int64_t step, Value init,
             llvm::function_ref<Value(Value, Value)> body) {
    scf::ForOp loop = b.loop(b.i64(0), end, step, init);
    b.atEnd(loop.getBody(), [&] {
      Value next = body(loop.getInductionVar(), loop.getRegionIterArg(0));
      loop.getBody()->getTerminator()->setOperand(0, next);
    });
    return loop.getResult(0);
  }

  /// C = alpha · op(A) · op(B) + beta · C.
  void product(bool transA, bool transB, Value m, Value n, Value k, Value alpha,
               Value a, int64_t lda, Value bMatrix, int64_t ldb, Value beta,
               Value c, int64_t ldc);

  /// Elements of a row of `width`, by vectors.
  void forWidth(llvm::function_ref<void(Value, Lanes)> body) {
    forLoop(b.i64(0), b.i64(width), kLanes, [&](Value d) {
      Lanes lanes;
      if (width % kLanes != 0)
        lanes = b.lanes(b.sub(b.i64(width), d));
      body(d, lanes);
    });
  }

  /// End of the keys that some row of a tile of queries sees.
  Value keyEnd(Value firstRow, Value rows) {
    if (!causal)
      return b.i64(keys);
    return b.min(b.i64(keys), b.add(b.add(firstRow, rows), shift));
  }
  /// How many of the `columns` keys from `firstKey` on a query sees.
  Value visible(Value query, Value firstKey, Value columns) {
    if (!causal)
      return columns;
    Value end = b.add(b.add(query, shift), b.i64(1));
    return b.max(b.i64(0), b.min(columns, b.sub(end, firstKey)));
  }
  /// The lanes of a row of scores from column `c` on that are visible.
  Lanes columnLanes(Value visibleColumns, Value c) {
    return b.lanes(b.max(b.i64(0), b.sub(visibleColumns, c)));
  }
  Value masked(const Lanes &lanes, Value value, double otherwise) {
    if (!lanes.mask)
      return value;
    return arith::SelectOp::create(b, lanes.mask, value,
                                   b.constant(getLaneType(element), otherwise));
  }

  KernelBuilder &b;
  Type element;
  int64_t batches, queries, heads, width, keys, kvHeads;
  double scale;
  bool causal;
  Value shift;
};

} // namespace

void AttentionKernel::product(bool transA, bool transB, Value m, Value n,
                              Value k, Value alpha, Value a, int64_t lda,
                              Value bMatrix, int64_t ldb, Value beta, Value c,
                              int64_t ldc) {
  auto i32 = [&](bool value) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
  };
  SmallVector<Value> operands = {
      i32(transA), i32(transB), m,          n,    k, alpha,     a,
      b.i64(lda),  bMatrix,     b.i64(ldb), beta, c, b.i64(ldc)};
  auto module = b.getKernel()->getParentOfType<ModuleOp>();
  LLVM::LLVMFuncOp function = declareFunction(
      module, element.isF32() ? "blurt_gemm_tile_f32" : "blurt_gemm_tile_f64",
      ValueRange(operands).getTypes());
  LLVM::CallOp::create(b, function, operands);
}

void AttentionKernel::emitForward(HeadsOperand q, HeadsOperand k,
                                  HeadsOperand v, HeadsOperand o, Value lse,
                                  ArrayRef<int64_t> lseStrides,
                                  Kernel &kernel) {
  const double infinity = std::numeric_limits<double>::infinity();
  int64_t tiles = llvm::divideCeil(queries, kQueries);
  kernel.tasks = batches * heads * tiles;
  Value scores = b.stackBuffer(element, kQueries * kKeys);
  Value maxima = b.stackBuffer(element, kQueries);
  Value sums = b.stackBuffer(element, kQueries);
  VectorType laneType = getLaneType(element);

  scf::ForOp tasks = b.loop(b.getBegin(), b.getEnd(), 1);
  b.setInsertionPoint(tasks.getBody()->getTerminator());
  Value task = tasks.getInductionVar();
  Value firstRow = b.mul(b.rem(task, tiles), kQueries);
  Value head = b.rem(b.div(task, tiles), heads);
  Value batch = b.div(task, tiles * heads);
  Value kvHead = b.div(head, heads / kvHeads);
  Value rows = b.min(b.i64(kQueries), b.sub(b.i64(queries), firstRow));
  Value qTile = rowOf(q, batch, firstRow, head);
  Value oTile = rowOf(o, batch, firstRow, head);
  Value zero = number(0), one = number(1);

  forLoop(b.i64(0), rows, 1, [&](Value r) {
    b.storeScalar(element, number(-infinity), at(maxima, r));
    b.storeScalar(element, zero, at(sums, r));
  });
  Value end = keyEnd(firstRow, rows);
  forLoop(b.i64(0), end, kKeys, [&](Value firstKey) {
    Value columns = b.min(b.i64(kKeys), b.sub(end, firstKey));
    Value isFirst =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, firstKey, b.i64(0));
    product(false, true, rows, columns, b.i64(width), number(scale), qTile,
            q.row, rowOf(k, batch, firstKey, kvHead), k.row, zero, scores,
            kKeys);
    forLoop(b.i64(0), rows, 1, [&](Value r) {
      Value row = at(scores, b.mul(r, kKeys));
      Value seen = visible(b.add(firstRow, r), firstKey, columns);
      Value highest = fold(columns, kLanes, b.constant(laneType, -infinity),
                           [&](Value c, Value sofar) -> Value {
                             Lanes lanes = columnLanes(seen, c);
                             Value x = b.loadVector(element, at(row, c), 1);
                             return arith::MaximumFOp::create(
                                 b, sofar, masked(lanes, x, -infinity));
                           });
      Value before = b.loadScalar(element, at(maxima, r));
      Value max = arith::MaximumFOp::create(
          b, before, b.horizontal(highest, [&](Value x, Value y) -> Value {
            return arith::MaximumFOp::create(b, x, y);
          }));
      Value maxLanes = b.splat(max);
      Value total = fold(columns, kLanes, b.constant(laneType, 0),
                         [&](Value c, Value sofar) -> Value {
                           Lanes lanes = columnLanes(seen, c);
                           Value x = b.loadVector(element, at(row, c), 1);
                           Value p = masked(lanes, exp(subf(x, maxLanes)), 0);
                           b.storeVector(element, p, at(row, c), 1);
                           return addf(sofar, p);
                         });
      Value sum = b.horizontal(
          total, [&](Value x, Value y) -> Value { return addf(x, y); });
      Value shrink = exp(subf(before, max));
      Value old = b.loadScalar(element, at(sums, r));
      b.storeScalar(element, addf(mulf(old, shrink), sum), at(sums, r));
      b.storeScalar(element, max, at(maxima, r));
      // The first tile writes the output, so there is nothing to rescale yet.
      Value grew =
          arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, before, max);
      Value rescales = arith::AndIOp::create(
          b, grew,
          arith::XOrIOp::create(
              b, isFirst, arith::ConstantOp::create(b, b.getBoolAttr(true))));
      scf::IfOp branch = b.branch(rescales, false);
      b.atEnd(branch.thenBlock(), [&] {
        Value out = at(oTile, b.mul(r, o.row));
        Value factor = b.splat(shrink);
        forWidth([&](Value d, Lanes lanes) {
          Value x = b.loadVector(element, at(out, d), 1, lanes);
          b.storeVector(element, mulf(x, factor), at(out, d), 1, lanes);
        });
      });
    });
    Value beta = arith::SelectOp::create(b, isFirst, zero, one);
    product(false, false, rows, b.i64(width), columns, one, scores, kKeys,
            rowOf(v, batch, firstKey, kvHead), v.row, beta, oTile, o.row);
  });
  Value lseRow =
      at(lse, b.add(b.mul(batch, lseStrides[0]), b.mul(head, lseStrides[1])));
  forLoop(b.i64(0), rows, 1, [&](Value r) {
    Value sum = b.loadScalar(element, at(sums, r));
    Value divisor = b.splat(sum);
    Value out = at(oTile, b.mul(r, o.row));
    forWidth([&](Value d, Lanes lanes) {
      Value x = b.loadVector(element, at(out, d), 1, lanes);
      b.storeVector(element, arith::DivFOp::create(b, x, divisor), at(out, d),
                    1, lanes);
    });
    Value log = math::LogOp::create(b, sum);
    b.storeScalar(element, addf(b.loadScalar(element, at(maxima, r)), log),
                  at(lseRow, b.mul(b.add(firstRow, r), lseStrides[2])));
  });
}

void AttentionKernel::emitBackward(HeadsOperand q, HeadsOperand k,
                                   HeadsOperand v, HeadsOperand o, Value lse,
                                   ArrayRef<int64_t> lseStrides,
                                   HeadsOperand dO, HeadsOperand dq,
                                   HeadsOperand dk, HeadsOperand dv,
                                   Kernel &kernel) {
  kernel.tasks = batches * kvHeads;
  Value scores = b.stackBuffer(element, kQueries * kKeys);
  Value dScores = b.stackBuffer(element, kQueries * kKeys);
  Value deltas = b.stackBuffer(element, kQueries);
  VectorType laneType = getLaneType(element);

  scf::ForOp tasks = b.loop(b.getBegin(), b.getEnd(), 1);
  b.setInsertionPoint(tasks.getBody()->getTerminator());
  Value kvHead = b.rem(tasks.getInductionVar(), kvHeads);
  Value batch = b.div(tasks.getInductionVar(), kvHeads);
  Value zero = number(0), one = number(1);
  Value scaleLanes = b.splat(number(scale));

  forLoop(b.i64(0), b.i64(keys), 1, [&](Value s) {
    Value dkRow = rowOf(dk, batch, s, kvHead);
    Value dvRow = rowOf(dv, batch, s, kvHead);
    forWidth([&](Value d, Lanes lanes) {
      Value zeros = b.constant(laneType, 0);
      b.storeVector(element, zeros, at(dkRow, d), 1, lanes);
      b.storeVector(element, zeros, at(dvRow, d), 1, lanes);
    });
  });
  int64_t group = heads / kvHeads;
  forLoop(b.i64(0), b.i64(group), 1, [&](Value g) {
    Value head = b.add(b.mul(kvHead, group), g);
    Value lseRow =
        at(lse, b.add(b.mul(batch, lseStrides[0]), b.mul(head, lseStrides[1])));
    forLoop(b.i64(0), b.i64(queries), kQueries, [&](Value firstRow) {
      Value rows = b.min(b.i64(kQueries), b.sub(b.i64(queries), firstRow));
      Value qTile = rowOf(q, batch, firstRow, head);
      Value oTile = rowOf(o, batch, firstRow, head);
      Value dOTile = rowOf(dO, batch, firstRow, head);
      Value dqTile = rowOf(dq, batch, firstRow, head);
      forLoop(b.i64(0), rows, 1, [&](Value r) {
        Value oRow = at(oTile, b.mul(r, o.row));
        Value dORow = at(dOTile, b.mul(r, dO.row));
        Value dot = fold(
            b.i64(width), kLanes, b.constant(laneType, 0),
            [&](Value d, Value sofar) -> Value {
              Lanes lanes;
              if (width % kLanes != 0)
                lanes = b.lanes(b.sub(b.i64(width), d));
              return addf(sofar,
                          mulf(b.loadVector(element, at(oRow, d), 1, lanes),
                               b.loadVector(element, at(dORow, d), 1, lanes)));
            });
        Value delta = b.horizontal(
            dot, [&](Value x, Value y) -> Value { return addf(x, y); });
        b.storeScalar(element, delta, at(deltas, r));
      });
      Value end = keyEnd(firstRow, rows);
      forLoop(b.i64(0), end, kKeys, [&](Value firstKey) {
        Value columns = b.min(b.i64(kKeys), b.sub(end, firstKey));
        Value kTile = rowOf(k, batch, firstKey, kvHead);
        product(false, true, rows, columns, b.i64(width), number(scale), qTile,
                q.row, kTile, k.row, zero, scores, kKeys);
        product(false, true, rows, columns, b.i64(width), one, dOTile, dO.row,
                rowOf(v, batch, firstKey, kvHead), v.row, zero, dScores, kKeys);
        forLoop(b.i64(0), rows, 1, [&](Value r) {
          Value query = b.add(firstRow, r);
          Value offset = b.mul(r, kKeys);
          Value row = at(scores, offset), dRow = at(dScores, offset);
          Value seen = visible(query, firstKey, columns);
          Value lseLanes = b.splat(
              b.loadScalar(element, at(lseRow, b.mul(query, lseStrides[2]))));
          Value delta = b.splat(b.loadScalar(element, at(deltas, r)));
          forLoop(b.i64(0), columns, kLanes, [&](Value c) {
            Lanes lanes = columnLanes(seen, c);
            Value x = b.loadVector(element, at(row, c), 1);
            Value p = exp(subf(x, lseLanes));
            Value dp = b.loadVector(element, at(dRow, c), 1);
            Value ds = mulf(mulf(p, subf(dp, delta)), scaleLanes);
            b.storeVector(element, masked(lanes, p, 0), at(row, c), 1);
            b.storeVector(element, masked(lanes, ds, 0), at(dRow, c), 1);
          });
        });
        product(true, false, columns, b.i64(width), rows, one, scores, kKeys,
                dOTile, dO.row, one, rowOf(dv, batch, firstKey, kvHead),
                dv.row);
        product(true, false, columns, b.i64(width), rows, one, dScores, kKeys,
                qTile, q.row, one, rowOf(dk, batch, firstKey, kvHead), dk.row);
        Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                              firstKey, b.i64(0));
        Value beta = arith::SelectOp::create(b, isFirst, zero, one);
        product(false, false, rows, b.i64(width), columns, one, dScores, kKeys,
                kTile, k.row, beta, dqTile, dq.row);
      });
    });
  });
}

/// Checks what the kernels rely on: f32 or f64, and rows of heads in one piece.
static LogicalResult checkOperands(Operation *op, ValueRange heads) {
  for (Value value : heads) {
    auto type = cast<MemRefType>(value.getType());
    Type element = type.getElementType();
    if (!element.isF32() && !element.isF64())
      return op->emitOpError("has element type ")
             << element << ", expected f32 or f64 on the CPU target";
    auto [strides, offset] = type.getStridesAndOffset();
    if (type.getDimSize(3) != 1 && strides[3] != 1)
      return op->emitOpError("has an operand of type ")
             << type << ", expected a stride of 1 along its last dim";
  }
  return success();
}

LogicalResult blurt::emitAttention(AttentionOp op, HostEmitter &host) {
  Value o = op.getOuts()[0], lse = op.getOuts()[1];
  if (failed(checkOperands(op, {op.getQ(), op.getK(), op.getV(), o})))
    return failure();
  const Kernel &kernel = host.getKernel(
      getStructureKey(op), "attention", op.getLoc(),
      [&](KernelBuilder &b, Kernel &kernel) {
        AttentionKernel attention(b, cast<MemRefType>(op.getQ().getType()),
                                  cast<MemRefType>(op.getK().getType()),
                                  op.getScale().convertToDouble(),
                                  op.getCausal());
        unsigned next = 3;
        if (op.getPosition())
          attention.setPosition(
              b.loadScalar(b.getI64Type(), b.loadArgument(next++)));
        auto [lseStrides, offset] =
            cast<MemRefType>(lse.getType()).getStridesAndOffset();
        attention.emitForward(
            HeadsOperand(b, op.getQ(), 0), HeadsOperand(b, op.getK(), 1),
            HeadsOperand(b, op.getV(), 2), HeadsOperand(b, o, next),
            b.loadArgument(next + 1), lseStrides, kernel);
      });
  OpBuilder builder(op);
  host.launch(builder, op.getLoc(), kernel, op.getOperands());
  return success();
}

LogicalResult blurt::emitAttentionGrad(AttentionGradOp op, HostEmitter &host) {
  Value dq = op.getOuts()[0], dk = op.getOuts()[1], dv = op.getOuts()[2];
  if (failed(checkOperands(op, {op.getQ(), op.getK(), op.getV(), op.getO(),
                                op.getDO(), dq, dk, dv})))
    return failure();
  const Kernel &kernel = host.getKernel(
      getStructureKey(op), "attention_grad", op.getLoc(),
      [&](KernelBuilder &b, Kernel &kernel) {
        AttentionKernel attention(b, cast<MemRefType>(op.getQ().getType()),
                                  cast<MemRefType>(op.getK().getType()),
                                  op.getScale().convertToDouble(),
                                  op.getCausal());
        auto [lseStrides, offset] =
            cast<MemRefType>(op.getLse().getType()).getStridesAndOffset();
        attention.emitBackward(
            HeadsOperand(b, op.getQ(), 0), HeadsOperand(b, op.getK(), 1),
            HeadsOperand(b, op.getV(), 2), HeadsOperand(b, op.getO(), 3),
            b.loadArgument(4), lseStrides, HeadsOperand(b, op.getDO(), 5),
            HeadsOperand(b, dq, 6), HeadsOperand(b, dk, 7),
            HeadsOperand(b, dv, 8), kernel);
      });
  OpBuilder builder(op);
  host.launch(builder, op.getLoc(), kernel, op.getOperands());
  return success();
}
