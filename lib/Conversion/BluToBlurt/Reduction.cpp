//===- Reduction.cpp - reductions to groups -------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace blutrain;
using blurt::ReduceKind;

namespace {
/// What a reduction does to one element before, and to the result after.
struct Reduction {
  StringRef kernel;
  ReduceKind kind;
  int64_t divisor; ///< of the result, 1 for none
  Type element;

  /// Sums of integers are i64, maxima of them f64, which holds any i32.
  Value term(Body &b, Value x) const {
    if (isa<FloatType>(element))
      return x;
    Type wide = kind == ReduceKind::Sum
                    ? Type(IntegerType::get(element.getContext(), 64))
                    : Type(Float64Type::get(element.getContext()));
    return b.cast(x, element, wide);
  }
  Value finish(Body &b, Value x) const {
    if (divisor != 1)
      x = b.div(x, b.constant(x.getType(), double(divisor)));
    return isa<FloatType>(element) ? x : b.cast(x, x.getType(), element);
  }
};
} // namespace

static LoweringResult lowerReduction(Operation *op, Value input,
                                     ArrayRef<int64_t> dims,
                                     RankedTensorType resultType,
                                     const Reduction &reduction, Lowering &l) {
  if (reduction.kind == ReduceKind::Max && reduction.element.isInteger(64))
    return op->emitOpError("maximum of i64 elements is not supported");

  // Extents of 1 go, neighbours that are all kept or all reduced become one.
  ArrayRef<int64_t> shape = tensorType(input).getShape();
  SmallVector<int64_t> domain, reduced, kept;
  std::optional<bool> previous;
  for (auto [dim, extent] : llvm::enumerate(shape)) {
    if (extent == 1)
      continue;
    bool isReduced = llvm::is_contained(dims, int64_t(dim));
    if (previous == isReduced) {
      domain.back() *= extent;
      continue;
    }
    previous = isReduced;
    (isReduced ? reduced : kept).push_back(domain.size());
    domain.push_back(extent);
  }
  if (reduced.empty())
    return SmallVector<Value>{l.reshape(input, resultType.getShape())};
  if (kept.empty()) {
    SmallVector<Value> results = l.reduceAll(
        reduction.kernel, reduction.kind, input,
        [&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
          return {reduction.term(b, in[0])};
        },
        reduction.element,
        [&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
          return {reduction.finish(b, in[0])};
        });
    return SmallVector<Value>{l.reshape(results[0], resultType.getShape())};
  }

  GroupBuilder group(l, reduction.kernel, domain, reduced);
  group.input(l.reshape(input, domain),
              llvm::to_vector(llvm::seq<int64_t>(0, domain.size())));
  group.output(reduction.element, kept);
  blurt::GroupOp result =
      group.build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        Value term = reduction.term(b, in[0]);
        Value value = reduction.kind == ReduceKind::Sum ? b.reduceSum(term)
                                                        : b.reduceMax(term);
        return {reduction.finish(b, value)};
      });
  return SmallVector<Value>{
      l.reshape(result.getResult(0), resultType.getShape())};
}

static RankedTensorType resultType(Operation *op) {
  return cast<RankedTensorType>(op->getResult(0).getType());
}

static LoweringResult lowerReduceSum(blu::ReduceSumOp op, Lowering &l) {
  Reduction reduction{"reduce_sum", ReduceKind::Sum, 1,
                      elementType(op.getInput())};
  return lowerReduction(op, op.getInput(), op.getDims(), resultType(op),
                        reduction, l);
}

static LoweringResult lowerReduceMean(blu::ReduceMeanOp op, Lowering &l) {
  int64_t count = 1;
  for (int64_t dim : op.getDims())
    count *= tensorType(op.getInput()).getDimSize(dim);
  Reduction reduction{"reduce_mean", ReduceKind::Sum, count,
                      elementType(op.getInput())};
  return lowerReduction(op, op.getInput(), op.getDims(), resultType(op),
                        reduction, l);
}

static LoweringResult lowerReduceMax(blu::ReduceMaxOp op, Lowering &l) {
  Reduction reduction{"reduce_max", ReduceKind::Max, 1,
                      elementType(op.getInput())};
  return lowerReduction(op, op.getInput(), op.getDims(), resultType(op),
                        reduction, l);
}

void blutrain::addReductionLowerings(LoweringTable &table) {
  table.add(lowerReduceSum);
  table.add(lowerReduceMean);
  table.add(lowerReduceMax);
}
