//===- Elementwise.cpp - elementwise ops to groups ------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace blutrain;

/// The kernel's name is the op's.
static StringRef kernelName(Operation *op) {
  return op->getName().stripDialect();
}

template <typename OpTy>
static void addBinary(LoweringTable &table,
                      Value (Body::*combine)(Value, Value)) {
  table.add<OpTy>([combine](OpTy op, Lowering &l) -> SmallVector<Value> {
    return {l.elementwise(kernelName(op), op.getType(), op->getOperands(),
                          [&](Body &b, ArrayRef<Value> in) {
                            return (b.*combine)(in[0], in[1]);
                          })};
  });
}

template <typename OpTy>
static void addUnary(LoweringTable &table, Value (*formula)(Body &, Value)) {
  table.add<OpTy>([formula](OpTy op, Lowering &l) -> SmallVector<Value> {
    return {l.elementwise(
        kernelName(op), op.getType(), op->getOperands(),
        [&](Body &b, ArrayRef<Value> in) { return formula(b, in[0]); })};
  });
}

//===----------------------------------------------------------------------===//
// GELU
//===----------------------------------------------------------------------===//

// tanh form: (1 + tanh u)/2 = σ(2u), which loses no digits where tanh u is
// close to -1, with u = √(2/π)·(x + 0.044715·x³).
static constexpr double kCubic = 0.044715;
static const double kTwiceRoot = 2 * std::sqrt(2 / std::numbers::pi);

/// 2u.
static Value tanhArgument(Body &b, Value x, Value square) {
  Type type = x.getType();
  Value inner = b.add(b.constant(type, kTwiceRoot),
                      b.mul(b.constant(type, kTwiceRoot * kCubic), square));
  return b.mul(x, inner);
}

static Value gelu(Body &b, Value x, blu::GeluKind kind) {
  Type type = x.getType();
  if (kind == blu::GeluKind::Tanh)
    return b.mul(x, b.sigmoid(tanhArgument(b, x, b.mul(x, x))));
  // 1 + erf(x/√2) = erfc(-x/√2), which loses no digits for negative x.
  Value half = b.mul(x, b.constant(type, 0.5));
  Value argument = b.mul(x, b.constant(type, -1 / std::numbers::sqrt2));
  return b.mul(half, b.erfc(argument));
}

/// Φ(x) + x·Φ'(x).
static Value geluDerivative(Body &b, Value x, blu::GeluKind kind) {
  Type type = x.getType();
  Value square = b.mul(x, x);
  if (kind == blu::GeluKind::Tanh) {
    // Φ = s and Φ' = s·(1 - s)·(2u)' with s = σ(2u). From z = e^-|2u| both
    // follow without cancellation: s(1 - s) = z/(1 + z)².
    Value one = b.constant(type, 1);
    Value argument = tanhArgument(b, x, square);
    Value z = b.exp(b.neg(b.abs(argument)));
    Value reciprocal = b.div(one, b.add(one, z));
    Value positive =
        b.compare(blu::ComparePredicate::GE, argument, b.constant(type, 0));
    Value s = b.mul(b.select(positive, one, z), reciprocal);
    Value slope = b.mul(b.mul(z, reciprocal), reciprocal);
    // x·(2u)' may overflow where the slope is 0.
    Value inner = b.mul(
        x, b.add(b.constant(type, kTwiceRoot),
                 b.mul(b.constant(type, 3 * kTwiceRoot * kCubic), square)));
    Value flat =
        b.compare(blu::ComparePredicate::EQ, slope, b.constant(type, 0));
    Value term = b.select(flat, b.constant(type, 0), b.mul(inner, slope));
    return b.add(s, term);
  }
  Value cumulative =
      b.mul(b.constant(type, 0.5),
            b.erfc(b.mul(x, b.constant(type, -1 / std::numbers::sqrt2))));
  Value density = b.mul(b.constant(type, 1 / std::sqrt(2 * std::numbers::pi)),
                        b.exp(b.mul(square, b.constant(type, -0.5))));
  return b.add(cumulative, b.mul(x, density));
}

//===----------------------------------------------------------------------===//
// Table
//===----------------------------------------------------------------------===//

static LoweringResult lowerCompare(blu::CompareOp op, Lowering &l) {
  return SmallVector<Value>{
      l.elementwise("compare", op.getType(), op->getOperands(),
                    [&](Body &b, ArrayRef<Value> in) {
                      return b.compare(op.getPredicate(), in[0], in[1]);
                    })};
}

static LoweringResult lowerSelect(blu::SelectOp op, Lowering &l) {
  return SmallVector<Value>{
      l.elementwise("select", op.getType(), op->getOperands(),
                    [&](Body &b, ArrayRef<Value> in) {
                      return b.select(in[0], in[1], in[2]);
                    })};
}

static LoweringResult lowerCast(blu::CastOp op, Lowering &l) {
  return SmallVector<Value>{
      l.elementwise("cast", op.getType(), op->getOperands(),
                    [&](Body &b, ArrayRef<Value> in) {
                      return b.cast(in[0], elementType(op.getInput()),
                                    op.getType().getElementType());
                    })};
}

static LoweringResult lowerGelu(blu::GeluOp op, Lowering &l) {
  return SmallVector<Value>{l.elementwise("gelu", op.getType(), op.getInput(),
                                          [&](Body &b, ArrayRef<Value> in) {
                                            return gelu(b, in[0], op.getKind());
                                          })};
}

static LoweringResult lowerGeluGrad(blu::GeluGradOp op, Lowering &l) {
  return SmallVector<Value>{l.elementwise(
      "gelu_grad", op.getType(), op->getOperands(),
      [&](Body &b, ArrayRef<Value> in) {
        return b.mul(in[1], geluDerivative(b, in[0], op.getKind()));
      })};
}

/// `product + addend`, for one of the operands a product.
static LoweringResult lowerAdd(blu::AddOp op, Lowering &l) {
  if (op.getLhs().getType() == op.getRhs().getType()) {
    for (auto [product, addend] : {std::pair(op.getLhs(), op.getRhs()),
                                   std::pair(op.getRhs(), op.getLhs())})
      if (product.hasOneUse())
        if (Value sum = accumulateGemm(l, product, addend))
          return SmallVector<Value>{sum};
  }
  return SmallVector<Value>{l.elementwise(
      "add", op.getType(), op->getOperands(),
      [&](Body &b, ArrayRef<Value> in) { return b.add(in[0], in[1]); })};
}

void blutrain::addElementwiseLowerings(LoweringTable &table) {
  table.add(lowerAdd);
  addBinary<blu::SubOp>(table, &Body::sub);
  addBinary<blu::MulOp>(table, &Body::mul);
  addBinary<blu::DivOp>(table, &Body::div);
  addBinary<blu::MaximumOp>(table, &Body::max);
  addBinary<blu::MinimumOp>(table, &Body::min);
  table.add(lowerCompare);
  table.add(lowerSelect);
  table.add(lowerCast);
  table.add(lowerGelu);
  table.add(lowerGeluGrad);
  addUnary<blu::NegOp>(table, [](Body &b, Value x) { return b.neg(x); });
  addUnary<blu::AbsOp>(table, [](Body &b, Value x) { return b.abs(x); });
  addUnary<blu::ExpOp>(table, [](Body &b, Value x) { return b.exp(x); });
  addUnary<blu::LogOp>(table, [](Body &b, Value x) { return b.log(x); });
  addUnary<blu::SqrtOp>(table, [](Body &b, Value x) { return b.sqrt(x); });
  addUnary<blu::RsqrtOp>(table, [](Body &b, Value x) { return b.rsqrt(x); });
  addUnary<blu::TanhOp>(table, [](Body &b, Value x) { return b.tanh(x); });
  addUnary<blu::SigmoidOp>(table,
                           [](Body &b, Value x) { return b.sigmoid(x); });
  addUnary<blu::SiluOp>(
      table, [](Body &b, Value x) { return b.mul(x, b.sigmoid(x)); });
  addUnary<blu::ReluOp>(table, [](Body &b, Value x) {
    return b.max(x, b.constant(x.getType(), 0));
  });
}
