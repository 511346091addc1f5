//===- Optimizer.cpp - norms, clipping and updates to groups --------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

using namespace mlir;
using namespace blutrain;

static LoweringResult lowerGlobalNorm(blu::GlobalNormOp op, Lowering &l) {
  SmallVector<Value> squares;
  for (Value input : op.getInputs()) {
    auto square = [](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
      return {b.mul(in[0], in[0])};
    };
    auto same = [](Body &, ArrayRef<Value> in) {
      return SmallVector<Value>(in);
    };
    llvm::append_range(squares,
                       l.reduceAll("sum_squares", blurt::ReduceKind::Sum, input,
                                   square, computeType(input), same));
  }
  GroupBuilder group(l, "global_norm", {});
  for (Value value : squares)
    group.input(value, {});
  group.output(tensorType(op.getResult()).getElementType(), {});
  return SmallVector<Value>{
      group
          .build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
            Value sum = in[0];
            for (Value value : in.drop_front())
              sum = b.add(sum, value);
            return {b.sqrt(sum)};
          })
          .getResult(0)};
}

static LoweringResult lowerClipScale(blu::ClipScaleOp op, Lowering &l) {
  GroupBuilder group(l, "clip_scale", {});
  group.input(op.getNorm(), {});
  group.input(op.getClip(), {});
  Type element = elementType(op.getResult());
  group.output(element, {});
  Type f64 = l.builder.getF64Type();
  return SmallVector<Value>{
      group
          .build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
            Value norm = b.cast(in[0], elementType(op.getNorm()), f64);
            Value one = b.constant(f64, 1);
            Value scale =
                b.min(one, b.div(in[1], b.add(norm, b.constant(f64, 1e-6))));
            Value active =
                b.compare(blu::ComparePredicate::GT, in[1], b.constant(f64, 0));
            return {b.cast(b.select(active, scale, one), f64, element)};
          })
          .getResult(0)};
}

/// A group over all elements of `tensors`, with scalar operands besides. The
/// results are new values of all tensors but the second, the gradient, and take
/// effect where `apply` is true or null.
static LoweringResult update(Lowering &l, StringRef kernel, ValueRange tensors,
                             ValueRange scalars, Value apply, BodyFn body) {
  RankedTensorType type = tensorType(tensors[0]);
  SmallVector<int64_t> all =
      llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  GroupBuilder group(l, kernel, type.getShape());
  for (Value tensor : tensors)
    group.input(tensor, all);
  for (Value scalar : scalars)
    group.input(scalar, {});
  if (apply)
    group.input(apply, {});
  for (unsigned i = 1; i < tensors.size(); ++i)
    group.output(type.getElementType(), all);
  blurt::GroupOp result =
      group.build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        SmallVector<Value> values = body(b, in);
        if (apply)
          for (auto [i, value] : llvm::enumerate(values))
            value = b.select(in.back(), value, in[i == 0 ? 0 : i + 1]);
        return values;
      });
  return llvm::to_vector_of<Value>(result.getResults());
}

static LoweringResult lowerAdamW(blu::AdamWOp op, Lowering &l) {
  Type f64 = l.builder.getF64Type();
  return update(
      l, "adamw", {op.getParam(), op.getGrad(), op.getM(), op.getV()},
      {op.getStep(), op.getLr(), op.getBeta1(), op.getBeta2(), op.getEps(),
       op.getWeightDecay()},
      op.getApply(), [&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        Value p = in[0], g = in[1], m = in[2], v = in[3];
        Value lr = in[5], beta1 = in[6], beta2 = in[7];
        // What depends on scalars alone is computed in f64 and
        // rounded once.
        auto rounded = [&](Value value) {
          return b.cast(value, f64, p.getType());
        };
        Value one = b.constant(f64, 1);
        Value step = b.cast(in[4], l.builder.getI64Type(), f64);
        Value rate = rounded(b.div(lr, b.sub(one, b.pow(beta1, step))));
        Value rootOfCorrection =
            rounded(b.sqrt(b.sub(one, b.pow(beta2, step))));
        if (op.getDecay())
          p = b.mul(p, rounded(b.sub(one, b.mul(lr, in[9]))));
        m = b.add(b.mul(rounded(beta1), m),
                  b.mul(rounded(b.sub(one, beta1)), g));
        v = b.add(b.mul(rounded(beta2), v),
                  b.mul(b.mul(rounded(b.sub(one, beta2)), g), g));
        Value denominator =
            b.add(b.div(b.sqrt(v), rootOfCorrection), rounded(in[8]));
        p = b.sub(p, b.div(b.mul(rate, m), denominator));
        return {p, m, v};
      });
}

static LoweringResult lowerSgd(blu::SgdOp op, Lowering &l) {
  Type f64 = l.builder.getF64Type();
  return update(l, "sgd", {op.getParam(), op.getGrad(), op.getM()},
                {op.getLr(), op.getMomentum(), op.getWeightDecay()},
                op.getApply(),
                [&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
                  Value p = in[0], g = in[1], m = in[2];
                  auto rounded = [&](Value value) {
                    return b.cast(value, f64, p.getType());
                  };
                  if (op.getDecay())
                    g = b.add(g, b.mul(rounded(in[5]), p));
                  m = b.add(b.mul(rounded(in[4]), m), g);
                  p = b.sub(p, b.mul(rounded(in[3]), m));
                  return {p, m};
                });
}

void blutrain::addOptimizerLowerings(LoweringTable &table) {
  table.add(lowerGlobalNorm);
  table.add(lowerClipScale);
  table.add(lowerAdamW);
  table.add(lowerSgd);
}
