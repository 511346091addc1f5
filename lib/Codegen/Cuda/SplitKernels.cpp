//===- SplitKernels.cpp - operands into pieces on CUDA devices -*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "SplitKernels.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blurt;
using blutrain::SplitOperand;
using blutrain::SplitProduct;

namespace {
constexpr int32_t kThreads = 256, kWarps = kThreads / 32;
/// Elements of a lane at a time, and columns of a block.
constexpr int32_t kLane = 4, kColumns = 32 * kLane;

/// Walks the elements of an operand, of which `blocks()` blocks have their
/// share: a warp has a line that runs along the depth, and where lines run
/// across it, a block has 256 of them for 128 columns, each warp every eighth.
class SplitWalk {
public:
  SplitWalk(DeviceBuilder &b, const SplitSource &source, Value base)
      : b(b), source(source), operand(source.operand), base(base) {
    Value thread = b.threadId();
    lane = b.rem(thread, 32);
    warp = b.div(thread, 32);
  }

  static int64_t blocks(const SplitOperand &o) {
    if (o.along)
      return int64_t(llvm::divideCeil(o.batch * o.rows, kWarps));
    return o.batch * o.chunks() *
           int64_t(llvm::divideCeil(o.pitch(), kColumns));
  }

  /// Sets out from block `block` of the operand's.
  void start(Value block) {
    if (operand.along) {
      line = b.add(b.mul(block, kWarps), warp);
      inside = b.lessThan(line, operand.batch * operand.rows);
      entry = b.div(line, operand.rows);
      row = b.sub(line, b.mul(entry, operand.rows));
      return;
    }
    int64_t across = llvm::divideCeil(operand.pitch(), kColumns);
    Value rest = b.div(block, across);
    column = b.add(b.mul(b.sub(block, b.mul(rest, across)), kColumns),
                   b.mul(lane, kLane));
    entry = b.div(rest, operand.chunks());
    chunk = b.sub(rest, b.mul(entry, operand.chunks()));
    inside = b.lessThan(column, operand.pitch());
  }

  /// The number of the line at which the walk is, in the planes.
  using Body = llvm::function_ref<SmallVector<Value>(
      Value line, Value inner, ArrayRef<Value> elements, ValueRange carried)>;
  /// Every four elements of this lane's; beyond the operand they are 0.
  SmallVector<Value> forElements(ValueRange carried, Body body) {
    if (operand.along) {
      Value from = b.advance(base, b.mul(b.extend(entry), 4 * source.stride));
      from = b.advance(from, b.wideOffset(row, 4 * source.ld));
      int64_t end = operand.inner();
      // All lanes take as many steps.
      return b.loop(b.i32(0), b.i32(end), kColumns, carried,
                    [&](Value first, ValueRange values) {
                      Value inner = b.add(first, b.mul(lane, kLane));
                      return body(row, inner, load(from, inner), values);
                    });
    }
    Value first = b.mul(chunk, SplitOperand::kChunk);
    Value end = b.min(b.add(first, SplitOperand::kChunk), operand.depth);
    Value from = b.advance(base, b.mul(b.extend(entry), 4 * source.stride));
    return b.loop(b.add(first, warp), end, kWarps, carried,
                  [&](Value at, ValueRange values) {
                    Value lineAt =
                        b.advance(from, b.wideOffset(at, 4 * source.ld));
                    return body(at, column, load(lineAt, column), values);
                  });
  }

  DeviceBuilder &b;
  const SplitSource &source;
  const SplitOperand &operand;
  Value base, lane, warp;
  Value inside; ///< whether there is anything to do
  Value entry;
  Value line, row;     ///< along the depth
  Value chunk, column; ///< across it: this lane's first of four

private:
  SmallVector<Value> load(Value from, Value inner) {
    int64_t extent = operand.inner();
    SmallVector<Value> values;
    Value zero = b.f32(0);
    if (source.chunked && extent % kLane == 0) {
      Value valid = b.lessThan(inner, extent);
      Value at = b.select(valid, inner, b.i32(0));
      for (Value value : b.loadF32x4(b.advance(from, b.wideOffset(at, 4))))
        values.push_back(b.select(valid, value, zero));
      return values;
    }
    for (int32_t e = 0; e != kLane; ++e) {
      Value at = b.add(inner, e);
      Value valid = b.lessThan(at, extent);
      Value place = b.select(valid, at, b.i32(0));
      Value value =
          b.load(b.getF32Type(), b.advance(from, b.wideOffset(place, 4)), 4);
      values.push_back(b.select(valid, value, zero));
    }
    return values;
  }
};
} // namespace

/// Runs `body` on the blocks of A, then of B, of which it leaves those out that
/// lie along the depth if it is told so.
static int32_t forBothOperands(
    DeviceBuilder &b, const SplitShape &shape, bool acrossAlone,
    llvm::function_ref<void(SplitWalk &walk, unsigned which)> body) {
  auto blocks = [&](const SplitOperand &o) {
    return acrossAlone && o.along ? 0 : SplitWalk::blocks(o);
  };
  int64_t first = blocks(shape.a.operand), second = blocks(shape.b.operand);
  Value block = b.blockId(0);
  for (unsigned which : {0, 1}) {
    const SplitSource &source = which == 0 ? shape.a : shape.b;
    if (blocks(source.operand) == 0)
      continue;
    Value isMine = b.lessThan(block, first);
    if (which == 1)
      isMine = b.bitXor(isMine, 1);
    b.branch(isMine, [&] {
      SplitWalk walk(b, source, b.operand(which));
      walk.start(which == 0 ? block : b.add(block, -first));
      if (source.operand.along)
        b.branch(walk.inside, [&] { body(walk, which); });
      else
        body(walk, which);
    });
  }
  return int32_t(first + second);
}

static Value absoluteBits(DeviceBuilder &b, Value value) {
  return b.bitAnd(b.bitcast(value, b.getI32Type()), 0x7FFFFFFF);
}

/// The greater of two bit patterns of f32s without sign.
static Value maxBits(DeviceBuilder &b, Value l, Value r) {
  return arith::MaxUIOp::create(b, l, r);
}

static int64_t getBytes(const SplitOperand &o) {
  return 4 * o.batch * o.rows * o.depth;
}

//===----------------------------------------------------------------------===//
// Maxima
//===----------------------------------------------------------------------===//

/// Of this lane's elements that are finite: of its line, or of its four
/// columns.
static SmallVector<Value> takeMaxima(SplitWalk &walk) {
  DeviceBuilder &b = walk.b;
  bool along = walk.operand.along;
  SmallVector<Value> maxima(along ? 1 : kLane, b.i32(0));
  return walk.forElements(maxima, [&](Value, Value, ArrayRef<Value> elements,
                                      ValueRange most) {
    SmallVector<Value> next(most);
    for (auto [e, element] : llvm::enumerate(elements)) {
      Value &to = next[along ? 0 : e];
      Value bits = absoluteBits(b, element);
      constexpr int64_t kInfinity = 0x7F800000;
      to =
          maxBits(b, to, b.select(b.lessThan(bits, kInfinity), bits, b.i32(0)));
    }
    return next;
  });
}

DeviceLaunch blurt::emitSplitMaxima(const SplitEmission &emission) {
  const SplitShape &shape = emission.shape;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 4, {2, 3},
                  kThreads);
  DeviceLaunch launch;
  launch.grid[0] = forBothOperands(
      b, shape, /*acrossAlone=*/true, [&](SplitWalk &walk, unsigned which) {
        const SplitOperand &o = walk.operand;
        Value out = b.operand(2 + which);
        SmallVector<Value> maxima = takeMaxima(walk);
        Value shared = b.advance(b.shared(), b.mul(b.threadId(), 4 * kLane));
        b.store16(b.makeVector(maxima), shared);
        b.barrier();
        Value thread = b.threadId();
        Value column =
            b.add(b.sub(walk.column, b.mul(walk.lane, kLane)), thread);
        Value writes =
            b.bitAnd(b.lessThan(thread, kColumns), b.lessThan(column, o.rows));
        b.branch(writes, [&] {
          Value from = b.advance(b.shared(), b.mul(thread, 4));
          Value most = b.i32(0);
          for (int32_t w = 0; w != kWarps; ++w)
            most =
                maxBits(b, most,
                        b.load(b.getI32Type(),
                               b.advance(from, int64_t(w) * 4 * kColumns), 4));
          Value to = b.add(b.mul(walk.entry, o.chunks()), walk.chunk);
          to = b.advance(out, b.wideOffset(to, 4 * o.rows));
          b.store(most, b.advance(to, b.wideOffset(column, 4)), 4);
        });
      });
  launch.sharedBytes = kWarps * 4 * kColumns;
  launch.block = {kThreads, 1, 1};
  for (const SplitSource *source : {&shape.a, &shape.b})
    if (!source->operand.along)
      launch.bytes += getBytes(source->operand);
  return launch;
}

//===----------------------------------------------------------------------===//
// Scales
//===----------------------------------------------------------------------===//

/// 2^exponent for an exponent of normal numbers.
static Value powerOfTwo(DeviceBuilder &b, Value exponent) {
  return b.bitcast(b.shiftLeft(b.add(exponent, 127), 23), b.getF32Type());
}

/// A pair of factors that make 2^exponent.
static SmallVector<Value> makePair(DeviceBuilder &b, Value exponent) {
  Value half = arith::ShRSIOp::create(b, exponent, b.i32(1));
  return {powerOfTwo(b, half), powerOfTwo(b, b.sub(exponent, half))};
}

/// The exponent of what a row is multiplied by whose maximum has these bits.
static Value getScaleExponent(DeviceBuilder &b, Value most) {
  Value biased = arith::ShRUIOp::create(b, most, b.i32(23));
  Value zeros = LLVM::CountLeadingZerosOp::create(b, b.getI32Type(), most,
                                                  /*is_zero_poison=*/false);
  Value exponent =
      b.select(b.equal(biased, 0), b.sub(-118, zeros), b.add(biased, -127));
  Value scale = b.sub(kScaledExponent, exponent);
  return b.select(b.equal(most, 0), b.i32(0), scale);
}

/// Stores the factors of a row and those that undo them.
static void storeScales(DeviceBuilder &b, const SplitOperand &o, Value scales,
                        Value entry, Value row, Value exponent) {
  Value to = b.advance(scales, b.wideOffset(entry, 8 * o.scalePitch()));
  to = b.advance(to, b.wideOffset(row, 8));
  b.store(b.makeVector(makePair(b, exponent)), to, 8);
  b.store(b.makeVector(makePair(b, b.sub(0, exponent))),
          b.advance(to, 8 * o.batch * o.scalePitch()), 8);
}

Value blurt::unscale(DeviceBuilder &b, Value value, Value ofRow,
                     ArrayRef<Value> ofColumn) {
  for (unsigned half : {0, 1}) {
    Value factor = b.mulF(b.element(ofRow, half), ofColumn[half]);
    value = b.mulF(value, factor);
  }
  return value;
}

DeviceLaunch blurt::emitSplitScales(const SplitEmission &emission) {
  const SplitShape &shape = emission.shape;
  DeviceBuilder b(emission.module, emission.loc, emission.name, 5, {2, 3, 4},
                  kThreads);
  Value at = b.add(b.mul(b.blockId(0), kThreads), b.threadId());
  b.branch(b.equal(at, 0), [&] { b.store(b.i32(0), b.operand(4), 4); });
  int64_t first = 0;
  for (unsigned which : {0, 1}) {
    const SplitOperand &o = which == 0 ? shape.a.operand : shape.b.operand;
    if (o.along)
      continue;
    int64_t count = o.batch * o.scalePitch();
    Value index = b.add(at, -first);
    Value isMine =
        b.bitAnd(b.lessThan(index, count),
                 b.compare(arith::CmpIPredicate::sge, index, b.i32(0)));
    first += count;
    b.branch(isMine, [&] {
      Value entry = b.div(index, o.scalePitch());
      Value row = b.sub(index, b.mul(entry, o.scalePitch()));
      Value from = b.advance(b.operand(which),
                             b.wideOffset(entry, 4 * o.rows * o.chunks()));
      // Where there is no row, the last one's scale does.
      from = b.advance(from, b.wideOffset(b.min(row, o.rows - 1), 4));
      Value most =
          b.loop(b.i32(0), b.i32(o.chunks()), 1, {b.i32(0)},
                 [&](Value chunk, ValueRange most) {
                   Value next = b.load(
                       b.getI32Type(),
                       b.advance(from, b.wideOffset(chunk, 4 * o.rows)), 4);
                   return SmallVector<Value>{maxBits(b, most[0], next)};
                 })[0];
      storeScales(b, o, b.operand(2 + which), entry, row,
                  getScaleExponent(b, most));
    });
  }
  DeviceLaunch launch;
  launch.grid[0] =
      int32_t(llvm::divideCeil(std::max<int64_t>(first, 1), kThreads));
  launch.block = {kThreads, 1, 1};
  return launch;
}

//===----------------------------------------------------------------------===//
// Planes
//===----------------------------------------------------------------------===//

DeviceLaunch blurt::emitSplitPlanes(const SplitEmission &emission,
                                    SplitFormat format) {
  const SplitShape &shape = emission.shape;
  bool isHalf = format == SplitFormat::Half;
  // The first of the kernels that make planes makes scales too.
  bool isFirst = isHalf || shape.product.alwaysBfloat();
  DeviceBuilder b(emission.module, emission.loc, emission.name, 7,
                  isFirst ? ArrayRef<unsigned>{2, 3, 4, 5, 6}
                          : ArrayRef<unsigned>{4, 5},
                  kThreads);
  int32_t planes = getNumPlanes(format);
  Type piece = isHalf ? Type(b.getF16Type()) : Type(b.getBF16Type());
  auto pair = VectorType::get({2}, b.getF32Type());

  auto split = [&](SplitWalk &walk, unsigned which) {
    const SplitOperand &o = walk.operand;
    Value scales = b.advance(b.operand(2 + which),
                             b.wideOffset(walk.entry, 8 * o.scalePitch()));
    int32_t numScales = o.along ? 1 : kLane;
    SmallVector<Value> first, second;
    if (isFirst && o.along) {
      // The line is read once more, from the cache if it is not too long.
      Value most = takeMaxima(walk)[0];
      for (int32_t mask = 16; mask != 0; mask /= 2)
        most = maxBits(b, most, b.shuffleXor(most, mask));
      Value exponent = getScaleExponent(b, most);
      SmallVector<Value> factors = makePair(b, exponent);
      first.push_back(factors[0]);
      second.push_back(factors[1]);
      b.branch(b.equal(walk.lane, 0), [&] {
        storeScales(b, o, b.operand(2 + which), walk.entry, walk.row, exponent);
        // Pairs of columns are scaled back together.
        if (o.scalePitch() != o.rows)
          b.branch(b.equal(walk.row, o.rows - 1), [&] {
            storeScales(b, o, b.operand(2 + which), walk.entry, b.i32(o.rows),
                        exponent);
          });
      });
    }
    for (int32_t e = int32_t(first.size()); e != numScales; ++e) {
      Value row = o.along ? walk.row : b.min(b.add(walk.column, e), o.rows - 1);
      Value factors = b.load(pair, b.advance(scales, b.wideOffset(row, 8)), 8);
      first.push_back(b.element(factors, 0));
      second.push_back(b.element(factors, 1));
    }
    Value out = b.advance(b.operand(4 + which),
                          b.mul(b.extend(walk.entry), planes * o.planeBytes()));
    // How many elements are not zero, and how many of them are too small.
    SmallVector<Value> counts(isHalf ? 2 * numScales : 0, b.i32(0));
    counts = walk.forElements(counts, [&](Value line, Value inner,
                                          ArrayRef<Value> elements,
                                          ValueRange carried) {
      SmallVector<Value> next(carried);
      SmallVector<SmallVector<Value>> pieces(planes);
      for (auto [e, element] : llvm::enumerate(elements)) {
        size_t s = o.along ? 0 : e;
        Value rest = b.mulF(b.mulF(element, first[s]), second[s]);
        if (isHalf) {
          const double small = std::ldexp(1.0, kSmallExponent);
          auto compare = [&](arith::CmpFPredicate predicate, Value l, Value r) {
            return arith::CmpFOp::create(b, predicate, l, r).getResult();
          };
          Value exists = compare(arith::CmpFPredicate::UNE, element, b.f32(0));
          Value isSmall = compare(arith::CmpFPredicate::OLT,
                                  LLVM::FAbsOp::create(b, rest), b.f32(small));
          auto count = [&](size_t to, Value condition) {
            next[to] = b.add(
                next[to], arith::ExtUIOp::create(b, b.getI32Type(), condition));
          };
          count(2 * s, exists);
          count(2 * s + 1, b.bitAnd(exists, isSmall));
        }
        for (int32_t p = 0; p != planes; ++p) {
          Value rounded = arith::TruncFOp::create(b, piece, rest);
          pieces[p].push_back(rounded);
          if (p + 1 != planes)
            rest =
                b.subF(rest, arith::ExtFOp::create(b, b.getF32Type(), rounded));
        }
      }
      b.branch(b.lessThan(inner, o.pitch()), [&] {
        Value to = b.advance(out, b.wideOffset(line, 2 * o.pitch()));
        to = b.advance(to, b.wideOffset(inner, 2));
        for (int32_t p = 0; p != planes; ++p)
          b.store(b.makeVector(pieces[p]), b.advance(to, p * o.planeBytes()),
                  8);
      });
      return next;
    });
    if (!isHalf)
      return;
    // A few small elements change a sum of many by less than its rounding does;
    // many need the other format.
    if (o.along)
      for (Value &count : counts)
        for (int32_t mask = 16; mask != 0; mask /= 2)
          count = b.add(count, b.shuffleXor(count, mask));
    Value many;
    for (int32_t s = 0; s != numScales; ++s) {
      constexpr int64_t kShare = 8, kAllowed = 16;
      Value over = b.lessThan(b.add(counts[2 * s], kAllowed),
                              b.mul(counts[2 * s + 1], kShare));
      many = many ? Value(arith::OrIOp::create(b, many, over)) : over;
    }
    b.branch(many, [&] { b.store(b.i32(1), b.operand(6), 4); });
  };

  DeviceLaunch launch;
  auto all = [&] {
    launch.grid[0] = forBothOperands(b, shape, /*acrossAlone=*/false, split);
  };
  if (isFirst)
    all();
  else
    b.branch(b.equal(b.bitXor(b.load(b.getI32Type(), b.operand(6), 4), 1), 0),
             all);
  launch.block = {kThreads, 1, 1};
  int64_t read = getBytes(shape.a.operand) + getBytes(shape.b.operand);
  launch.bytes = isFirst ? 2 * read : 0;
  return launch;
}

//===----------------------------------------------------------------------===//
// Sum
//===----------------------------------------------------------------------===//

DeviceLaunch blurt::emitSplitSum(const SplitEmission &emission) {
  const SplitShape &shape = emission.shape;
  const SplitProduct &p = shape.product;
  DeviceBuilder b(emission.module, emission.loc, emission.name,
                  shape.hasBias ? 5 : 4, {1}, kThreads);
  // As many at a time as rows of C can be accessed by.
  int32_t width =
      p.n % 4 == 0 && shape.ldc % 4 == 0 && shape.alignmentC >= 16 ? 4 : 1;
  int64_t perRow = p.n / width, count = p.m * perRow;
  Value at = b.add(b.mul(b.blockId(0), kThreads), b.threadId());
  b.branch(b.lessThan(at, count), [&] {
    Value row = b.div(at, perRow);
    Value column = b.mul(b.sub(at, b.mul(row, perRow)), width);
    Value to = b.advance(b.operand(1), b.wideOffset(row, 4 * shape.ldc));
    to = b.advance(to, b.wideOffset(column, 4));
    auto load = [&](Value from) {
      if (width == 4)
        return b.loadF32x4(from);
      return SmallVector<Value>{b.load(b.getF32Type(), from, 4)};
    };
    auto add = [&](SmallVector<Value> sum, Value from) {
      for (auto [value, other] : llvm::zip_equal(sum, load(from)))
        value = b.addF(value, other);
      return sum;
    };
    Value from = b.advance(b.operand(0), b.wideOffset(at, 4 * width));
    SmallVector<Value> sum = load(from);
    for (int64_t part = 1; part != p.parts; ++part)
      sum = add(sum, b.advance(from, part * 4 * p.m * p.n));
    auto pair = VectorType::get({2}, b.getF32Type());
    auto loadPair = [&](unsigned operand, const SplitOperand &o, Value row) {
      Value from = b.advance(b.operand(operand), 8 * o.scalePitch());
      return b.load(pair, b.advance(from, b.wideOffset(row, 8)), 8);
    };
    Value ofRow = loadPair(2, p.a, row);
    for (auto [e, value] : llvm::enumerate(sum)) {
      Value ofColumn = loadPair(3, p.b, b.add(column, int64_t(e)));
      value = unscale(b, value, ofRow,
                      {b.element(ofColumn, 0), b.element(ofColumn, 1)});
    }
    if (shape.hasBias)
      for (auto [e, value] : llvm::enumerate(sum)) {
        Value from = b.advance(b.operand(4), b.wideOffset(column, 4));
        value = b.addF(
            value, b.load(b.getF32Type(), b.advance(from, 4 * int64_t(e)), 4));
      }
    if (shape.accumulates)
      sum = add(sum, to);
    if (width == 4)
      b.storeF32x4(sum, to);
    else
      b.store(sum[0], to, 4);
  });
  DeviceLaunch launch;
  launch.grid[0] = int32_t(llvm::divideCeil(count, kThreads));
  launch.block = {kThreads, 1, 1};
  launch.bytes = 4 * p.m * p.n * (p.parts + 1 + (shape.accumulates ? 1 : 0));
  return launch;
}
