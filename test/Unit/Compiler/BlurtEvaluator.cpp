//===- BlurtEvaluator.cpp - blurt functions, one value at a time ----------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "BlurtEvaluator.h"

#include "Blurt/BlurtDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace blutrain;

namespace {

/// A scalar of a body: one of both, by its type.
struct Scalar {
  double f = 0;
  int64_t i = 0;
};

SmallVector<int64_t> shapeOf(Value value) {
  return llvm::to_vector(cast<RankedTensorType>(value.getType()).getShape());
}

Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }

Scalar read(const Tensor &tensor, int64_t at) {
  Scalar scalar;
  if (tensor.isFloat())
    scalar.f = tensor.floats[at];
  else
    scalar.i = tensor.ints[at];
  return scalar;
}

void write(Tensor &tensor, int64_t at, Scalar value) {
  if (tensor.isFloat())
    tensor.floats[at] = roundTo(tensor.elementType, value.f);
  else
    tensor.ints[at] = value.i;
}

//===----------------------------------------------------------------------===//
// Scalar operations
//===----------------------------------------------------------------------===//

bool compareFloats(arith::CmpFPredicate predicate, double x, double y) {
  switch (predicate) {
  case arith::CmpFPredicate::OEQ:
    return x == y;
  case arith::CmpFPredicate::UNE:
    return !(x == y);
  case arith::CmpFPredicate::OLT:
    return x < y;
  case arith::CmpFPredicate::OLE:
    return x <= y;
  case arith::CmpFPredicate::OGT:
    return x > y;
  case arith::CmpFPredicate::OGE:
    return x >= y;
  default:
    llvm_unreachable("comparison not evaluated");
  }
}

bool compareInts(arith::CmpIPredicate predicate, int64_t x, int64_t y) {
  switch (predicate) {
  case arith::CmpIPredicate::eq:
    return x == y;
  case arith::CmpIPredicate::ne:
    return x != y;
  case arith::CmpIPredicate::slt:
    return x < y;
  case arith::CmpIPredicate::sle:
    return x <= y;
  case arith::CmpIPredicate::sgt:
    return x > y;
  case arith::CmpIPredicate::sge:
    return x >= y;
  default:
    llvm_unreachable("comparison not evaluated");
  }
}

double extremum(double x, double y, bool larger) {
  if (std::isnan(x) || std::isnan(y))
    return NAN;
  return larger ? std::max(x, y) : std::min(x, y);
}

Scalar evaluateScalar(Operation &op, ArrayRef<Scalar> in) {
  Type type = op.getResult(0).getType();
  auto number = [&](double value) { return Scalar{roundTo(type, value), 0}; };
  auto integer = [&](int64_t value) { return Scalar{0, wrapTo(type, value)}; };
  auto bits = [](int64_t value) { return static_cast<uint64_t>(value); };
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto value = dyn_cast<FloatAttr>(constant.getValue()))
      return {value.getValueAsDouble(), 0};
    return integer(
        cast<IntegerAttr>(constant.getValue()).getValue().getSExtValue());
  }
  if (isa<arith::AddFOp>(op))
    return number(in[0].f + in[1].f);
  if (isa<arith::SubFOp>(op))
    return number(in[0].f - in[1].f);
  if (isa<arith::MulFOp>(op))
    return number(in[0].f * in[1].f);
  if (isa<arith::DivFOp>(op))
    return number(in[0].f / in[1].f);
  if (isa<arith::NegFOp>(op))
    return number(-in[0].f);
  if (isa<arith::MaximumFOp>(op))
    return number(extremum(in[0].f, in[1].f, true));
  if (isa<arith::MinimumFOp>(op))
    return number(extremum(in[0].f, in[1].f, false));
  if (isa<arith::ExtFOp, arith::TruncFOp>(op))
    return number(in[0].f);
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op))
    return number(double(in[0].i));
  if (isa<arith::FPToSIOp>(op))
    return integer(int64_t(in[0].f));
  if (isa<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(op))
    return integer(in[0].i);
  if (isa<arith::AddIOp>(op))
    return integer(bits(in[0].i) + bits(in[1].i));
  if (isa<arith::SubIOp>(op))
    return integer(bits(in[0].i) - bits(in[1].i));
  if (isa<arith::MulIOp>(op))
    return integer(bits(in[0].i) * bits(in[1].i));
  if (isa<arith::DivSIOp>(op))
    return integer(in[0].i / in[1].i);
  if (isa<arith::MaxSIOp>(op))
    return integer(std::max(in[0].i, in[1].i));
  if (isa<arith::MinSIOp>(op))
    return integer(std::min(in[0].i, in[1].i));
  if (isa<arith::AndIOp>(op))
    return integer(in[0].i & in[1].i);
  if (isa<arith::XOrIOp>(op))
    return integer(in[0].i ^ in[1].i);
  if (isa<arith::ShRUIOp>(op))
    return integer(bits(in[0].i) >> in[1].i);
  if (auto compare = dyn_cast<arith::CmpFOp>(op))
    return integer(compareFloats(compare.getPredicate(), in[0].f, in[1].f));
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return integer(compareInts(compare.getPredicate(), in[0].i, in[1].i));
  if (isa<arith::SelectOp>(op))
    return in[0].i ? in[1] : in[2];
  if (isa<math::AbsFOp>(op))
    return number(std::fabs(in[0].f));
  if (isa<math::ExpOp>(op))
    return number(std::exp(in[0].f));
  if (isa<math::LogOp>(op))
    return number(std::log(in[0].f));
  if (isa<math::SqrtOp>(op))
    return number(std::sqrt(in[0].f));
  if (isa<math::TanhOp>(op))
    return number(std::tanh(in[0].f));
  if (isa<math::ErfcOp>(op))
    return number(std::erfc(in[0].f));
  if (isa<math::PowFOp>(op))
    return number(std::pow(in[0].f, in[1].f));
  op.dump();
  llvm_unreachable("operation not evaluated");
}

//===----------------------------------------------------------------------===//
// Operations on tensors
//===----------------------------------------------------------------------===//

class Evaluator {
public:
  std::vector<Tensor> run(func::FuncOp func,
                          const std::vector<Tensor> &arguments) {
    Block &block = func.getBody().front();
    for (auto [argument, value] :
         llvm::zip_equal(block.getArguments(), arguments))
      values[argument] = value;
    runBlock(block);
    std::vector<Tensor> results;
    for (Value value : block.getTerminator()->getOperands())
      results.push_back(values.at(value));
    return results;
  }

private:
  void runBlock(Block &block) {
    for (Operation &op : block.without_terminator())
      runOp(op);
  }

  Tensor &define(Value value) {
    return values[value] = Tensor(shapeOf(value), elementOf(value));
  }

  void runGroup(blurt::GroupOp group);
  void runGemm(blurt::GemmOp op);
  void runAttention(blurt::AttentionOp op);
  void runAttentionGrad(blurt::AttentionGradOp op);
  void runLoop(blurt::LoopOp op);
  void runView(Operation &op);

  void runOp(Operation &op) {
    if (auto group = dyn_cast<blurt::GroupOp>(op))
      return runGroup(group);
    if (auto gemm = dyn_cast<blurt::GemmOp>(op))
      return runGemm(gemm);
    if (auto attention = dyn_cast<blurt::AttentionOp>(op))
      return runAttention(attention);
    if (auto attention = dyn_cast<blurt::AttentionGradOp>(op))
      return runAttentionGrad(attention);
    if (auto loop = dyn_cast<blurt::LoopOp>(op))
      return runLoop(loop);
    if (auto scatter = dyn_cast<blurt::ScatterAddOp>(op)) {
      Tensor ids = values.at(scatter.getIds());
      Tensor updates = values.at(scatter.getUpdates());
      Tensor &out = define(op.getResult(0));
      for (int64_t n = 0; n < updates.shape[0]; ++n)
        for (int64_t c = 0; c < updates.shape[1]; ++c) {
          double &sum = out.at({ids.ints[n], c});
          sum = roundTo(out.elementType, sum + updates.at({n, c}));
        }
      return;
    }
    if (auto update = dyn_cast<blurt::CacheUpdateOp>(op)) {
      Tensor cache = values.at(update.getCache());
      const Tensor &rows = values.at(update.getRows());
      int64_t position = values.at(update.getPosition()).ints[0];
      forEachIndex(rows.shape, [&](ArrayRef<int64_t> index) {
        SmallVector<int64_t> to(index);
        to[1] += position;
        cache.at(to) = rows.at(index);
      });
      values[op.getResult(0)] = cache;
      return;
    }
    runView(op);
  }

  llvm::DenseMap<Value, Tensor> values;
};

/// Each value of the body is an array over the whole domain.
void Evaluator::runGroup(blurt::GroupOp group) {
  SmallVector<int64_t> domain(group.getDomain());
  SmallVector<SmallVector<int64_t>> points;
  forEachIndex(domain, [&](ArrayRef<int64_t> p) { points.emplace_back(p); });
  auto mapped = [](AffineMap map, ArrayRef<int64_t> point) {
    SmallVector<int64_t> index;
    for (AffineExpr expr : map.getResults()) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      index.push_back(dim ? point[dim.getPosition()] : 0);
    }
    return index;
  };
  llvm::DenseMap<Value, std::vector<Scalar>> arrays;
  Block *body = group.getBodyBlock();
  for (auto [i, input] : llvm::enumerate(group.getInputs())) {
    const Tensor &tensor = values.at(input);
    auto &array = arrays[body->getArgument(i)];
    for (const auto &point : points)
      array.push_back(
          read(tensor, tensor.offset(mapped(group.getInputMap(i), point))));
  }
  for (Operation &op : body->without_terminator()) {
    std::vector<Scalar> array(points.size());
    if (auto reduce = dyn_cast<blurt::ReduceOp>(op)) {
      bool isSum = reduce.getKind() == blurt::ReduceKind::Sum;
      Type type = reduce.getType();
      std::map<std::vector<int64_t>, Scalar> totals;
      auto key = [&](ArrayRef<int64_t> point) {
        std::vector<int64_t> kept(point);
        for (int64_t dim : group.getReduce())
          kept[dim] = 0;
        return kept;
      };
      const auto &in = arrays.at(reduce.getValue());
      for (size_t p = 0; p < points.size(); ++p) {
        auto [it, isNew] =
            totals.insert({key(points[p]), Scalar{isSum ? 0.0 : -INFINITY, 0}});
        Scalar &total = it->second;
        if (isa<IntegerType>(type))
          total.i += in[p].i;
        else if (isSum)
          total.f = roundTo(type, total.f + in[p].f);
        else
          total.f = extremum(total.f, in[p].f, true);
      }
      for (size_t p = 0; p < points.size(); ++p)
        array[p] = totals.at(key(points[p]));
    } else if (auto index = dyn_cast<blurt::IndexOp>(op)) {
      for (size_t p = 0; p < points.size(); ++p)
        array[p].i = points[p][index.getDim()];
    } else if (auto load = dyn_cast<blurt::LoadOp>(op)) {
      unsigned number = cast<BlockArgument>(load.getTable()).getArgNumber() -
                        group.getInputs().size();
      const Tensor &table = values.at(group.getTables()[number]);
      for (size_t p = 0; p < points.size(); ++p) {
        SmallVector<int64_t> at;
        for (Value i : load.getIndices())
          at.push_back(arrays.at(i)[p].i);
        array[p] = read(table, table.offset(at));
      }
    } else {
      for (size_t p = 0; p < points.size(); ++p) {
        SmallVector<Scalar> in;
        for (Value operand : op.getOperands())
          in.push_back(arrays.at(operand)[p]);
        array[p] = evaluateScalar(op, in);
      }
    }
    arrays[op.getResult(0)] = std::move(array);
  }
  for (auto [i, result] : llvm::enumerate(group.getResults())) {
    Tensor &out = define(result);
    const auto &array = arrays.at(group.getYielded()[i]);
    for (size_t p = 0; p < points.size(); ++p)
      write(out, out.offset(mapped(group.getOutputMap(i), points[p])),
            array[p]);
  }
}

void Evaluator::runGemm(blurt::GemmOp op) {
  Tensor a = values.at(op.getA()), b = values.at(op.getB()), c;
  if (op.getC())
    c = values.at(op.getC());
  Tensor &out = define(op.getResult(0));
  size_t rank = out.shape.size();
  Type compute = blurt::GroupOp::getScalarType(out.elementType);
  int64_t depth = a.shape[rank - (op.getTransA() ? 2 : 1)];
  forEachIndex(out.shape, [&](ArrayRef<int64_t> index) {
    double sum = 0;
    for (int64_t k = 0; k < depth; ++k) {
      SmallVector<int64_t> left(index), right(index);
      left[rank - 1] = k;
      right[rank - 2] = k;
      if (op.getTransA())
        std::swap(left[rank - 1], left[rank - 2]);
      if (op.getTransB())
        std::swap(right[rank - 1], right[rank - 2]);
      if (rank == 3 && a.shape[0] == 1)
        left[0] = 0;
      if (rank == 3 && b.shape[0] == 1)
        right[0] = 0;
      sum = roundTo(compute, sum + a.at(left) * b.at(right));
    }
    if (op.getC())
      sum += c.at(index);
    if (op.getBias())
      sum = roundTo(compute, sum) + values.at(op.getBias()).at(index.back());
    out.at(index) = roundTo(out.elementType, sum);
  });
}

void Evaluator::runAttention(blurt::AttentionOp op) {
  Tensor q = values.at(op.getQ()), k = values.at(op.getK()),
         v = values.at(op.getV());
  int64_t position = -1;
  if (op.getPosition())
    position = values.at(op.getPosition()).ints[0];
  Tensor o(q.shape, q.elementType);
  Tensor lse(shapeOf(op.getResult(1)), elementOf(op.getResult(1)));
  double scale = op.getScale().convertToDouble();
  int64_t length = k.shape[1], ratio = q.shape[2] / k.shape[2];
  for (int64_t n = 0; n < q.shape[0]; ++n)
    for (int64_t t = 0; t < q.shape[1]; ++t)
      for (int64_t h = 0; h < q.shape[2]; ++h) {
        int64_t seen = length;
        if (position >= 0)
          seen = position + t + 1;
        else if (op.getCausal())
          seen = t + length - q.shape[1] + 1;
        std::vector<double> scores;
        double sum = 0;
        for (int64_t s = 0; s < seen; ++s) {
          double dot = 0;
          for (int64_t d = 0; d < q.shape[3]; ++d)
            dot += q.at({n, t, h, d}) * k.at({n, s, h / ratio, d});
          scores.push_back(std::exp(scale * dot));
          sum += scores.back();
        }
        for (int64_t d = 0; d < q.shape[3]; ++d) {
          double value = 0;
          for (int64_t s = 0; s < seen; ++s)
            value += scores[s] / sum * v.at({n, s, h / ratio, d});
          o.at({n, t, h, d}) = roundTo(o.elementType, value);
        }
        lse.at({n, h, t}) = roundTo(lse.elementType, std::log(sum));
      }
  values[op.getResult(0)] = o;
  values[op.getResult(1)] = lse;
}

void Evaluator::runAttentionGrad(blurt::AttentionGradOp op) {
  Tensor q = values.at(op.getQ()), k = values.at(op.getK()),
         v = values.at(op.getV()), o = values.at(op.getO()),
         lse = values.at(op.getLse()), g = values.at(op.getDO());
  Tensor dq(q.shape, q.elementType), dk(k.shape, k.elementType),
      dv(v.shape, v.elementType);
  double scale = op.getScale().convertToDouble();
  int64_t length = k.shape[1], ratio = q.shape[2] / k.shape[2];
  for (int64_t n = 0; n < q.shape[0]; ++n)
    for (int64_t t = 0; t < q.shape[1]; ++t)
      for (int64_t h = 0; h < q.shape[2]; ++h) {
        int64_t seen = op.getCausal() ? t + length - q.shape[1] + 1 : length;
        int64_t kv = h / ratio;
        double delta = 0;
        for (int64_t d = 0; d < q.shape[3]; ++d)
          delta += g.at({n, t, h, d}) * o.at({n, t, h, d});
        for (int64_t s = 0; s < seen; ++s) {
          double dot = 0, dp = 0;
          for (int64_t d = 0; d < q.shape[3]; ++d) {
            dot += q.at({n, t, h, d}) * k.at({n, s, kv, d});
            dp += g.at({n, t, h, d}) * v.at({n, s, kv, d});
          }
          double p = std::exp(scale * dot - lse.at({n, h, t}));
          double ds = p * (dp - delta);
          for (int64_t d = 0; d < q.shape[3]; ++d) {
            dq.at({n, t, h, d}) += scale * ds * k.at({n, s, kv, d});
            dk.at({n, s, kv, d}) += scale * ds * q.at({n, t, h, d});
            dv.at({n, s, kv, d}) += p * g.at({n, t, h, d});
          }
        }
      }
  for (auto [i, tensor] : llvm::enumerate(ArrayRef{dq, dk, dv})) {
    Tensor rounded = tensor;
    for (double &value : rounded.floats)
      value = roundTo(rounded.elementType, value);
    values[op.getResult(i)] = rounded;
  }
}

void Evaluator::runLoop(blurt::LoopOp op) {
  int64_t count = op.getCount();
  unsigned numCarries = op.getCarries().size();
  SmallVector<Tensor> carries;
  for (Value carry : op.getCarries())
    carries.push_back(values.at(carry));
  SmallVector<Tensor> collected;
  for (Value result : op.getResults().drop_front(numCarries))
    collected.push_back(Tensor(shapeOf(result), elementOf(result)));
  for (int64_t step = 0; step < count; ++step) {
    int64_t i = op.getReverse() ? count - 1 - step : step;
    values[op.getIteration()] = Tensor::scalar(elementOf(op.getIteration()), i);
    for (unsigned c = 0; c < numCarries; ++c)
      values[op.getCarryArg(c)] = carries[c];
    for (auto [s, slice] : llvm::enumerate(op.getSlices())) {
      Tensor whole = values.at(slice);
      Tensor &part = define(op.getSliceArg(s));
      for (int64_t e = 0; e < part.size(); ++e)
        part.copyElement(e, whole, i * part.size() + e);
    }
    runBlock(*op.getBodyBlock());
    Operation *yield = op.getBodyBlock()->getTerminator();
    for (unsigned c = 0; c < numCarries; ++c)
      carries[c] = values.at(yield->getOperand(c));
    for (auto [c, whole] : llvm::enumerate(collected)) {
      const Tensor &part = values.at(yield->getOperand(numCarries + c));
      for (int64_t e = 0; e < part.size(); ++e)
        whole.copyElement(i * part.size() + e, part, e);
    }
  }
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    values[result] = i < numCarries ? carries[i] : collected[i - numCarries];
}

void Evaluator::runView(Operation &op) {
  Value result = op.getResult(0);
  if (auto concat = dyn_cast<blurt::ConcatOp>(op)) {
    SmallVector<Tensor> parts;
    for (Value part : concat.getParts())
      parts.push_back(values.at(part));
    Tensor &out = define(result);
    int64_t start = 0, dim = concat.getDim();
    for (const Tensor &part : parts) {
      forEachIndex(part.shape, [&](ArrayRef<int64_t> index) {
        SmallVector<int64_t> to(index);
        to[dim] += start;
        out.copyElement(out.offset(to), part, part.offset(index));
      });
      start += part.shape[dim];
    }
    return;
  }
  Tensor source = values.at(op.getOperand(0));
  Tensor &out = define(result);
  if (isa<blurt::ReshapeOp>(op)) {
    for (int64_t i = 0; i < out.size(); ++i)
      out.copyElement(i, source, i);
    return;
  }
  forEachIndex(out.shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> from(index);
    if (auto transpose = dyn_cast<blurt::TransposeOp>(op)) {
      for (auto [to, dim] : llvm::enumerate(transpose.getPermutation()))
        from[dim] = index[to];
    } else {
      auto slice = cast<blurt::SliceOp>(op);
      for (auto [i, offset] : llvm::enumerate(slice.getOffsets()))
        from[i] += offset;
    }
    out.copyElement(out.offset(index), source, source.offset(from));
  });
}

} // namespace

std::vector<Tensor>
blutrain::test::evaluateBlurt(func::FuncOp func,
                              const std::vector<Tensor> &arguments) {
  return Evaluator().run(func, arguments);
}
