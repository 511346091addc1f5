//===- ElementwiseOps.cpp - arithmetic, choices, functions, casts ---------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace blutrain;

/// The shape that the operands broadcast to, from their values: types may leave
/// extents open.
static FailureOr<SmallVector<int64_t>> broadcastShape(Operation *op,
                                                      Evaluation &e) {
  SmallVector<ArrayRef<int64_t>> shapes;
  for (Value operand : op->getOperands())
    shapes.push_back(e[operand].shape);
  return blu::inferBroadcast(op->getLoc(), shapes);
}

//===----------------------------------------------------------------------===//
// Binary
//===----------------------------------------------------------------------===//

static double compute(blu::AddOp, double a, double b) { return a + b; }
static double compute(blu::SubOp, double a, double b) { return a - b; }
static double compute(blu::MulOp, double a, double b) { return a * b; }
static double compute(blu::DivOp, double a, double b) { return a / b; }
static double compute(blu::MaximumOp, double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return NAN;
  return a > b ? a : b;
}
static double compute(blu::MinimumOp, double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return NAN;
  return a < b ? a : b;
}

// Integers are modulo 2^64 here and modulo their width when they are stored.
static int64_t compute(blu::AddOp, int64_t a, int64_t b) {
  return int64_t(uint64_t(a) + uint64_t(b));
}
static int64_t compute(blu::SubOp, int64_t a, int64_t b) {
  return int64_t(uint64_t(a) - uint64_t(b));
}
static int64_t compute(blu::MulOp, int64_t a, int64_t b) {
  return int64_t(uint64_t(a) * uint64_t(b));
}
static int64_t compute(blu::DivOp, int64_t a, int64_t b) {
  return b == -1 ? int64_t(-uint64_t(a)) : a / b;
}
static int64_t compute(blu::MaximumOp, int64_t a, int64_t b) {
  return a > b ? a : b;
}
static int64_t compute(blu::MinimumOp, int64_t a, int64_t b) {
  return a < b ? a : b;
}

template <typename Op>
static LogicalResult evaluateBinary(Op op, Evaluation &e) {
  const Tensor &a = e[op.getLhs()], &b = e[op.getRhs()];
  auto shape = broadcastShape(op, e);
  if (failed(shape))
    return failure();
  if (isa<blu::DivOp>(op) && llvm::is_contained(b.ints, 0))
    return op.emitOpError("divides an integer by 0");
  Tensor y = zerosFor(op, *shape);
  forEachIndex(*shape, [&](ArrayRef<int64_t> index) {
    int64_t i = a.broadcastOffset(index), j = b.broadcastOffset(index);
    if (y.isFloat())
      y.at(index) = compute(op, a.floats[i], b.floats[j]);
    else
      y.ints[y.offset(index)] = compute(op, a.ints[i], b.ints[j]);
  });
  return e.set(op, std::move(y));
}

template <typename T>
static bool holds(blu::ComparePredicate predicate, T a, T b) {
  switch (predicate) {
  case blu::ComparePredicate::EQ:
    return a == b;
  case blu::ComparePredicate::NE:
    return a != b;
  case blu::ComparePredicate::LT:
    return a < b;
  case blu::ComparePredicate::LE:
    return a <= b;
  case blu::ComparePredicate::GT:
    return a > b;
  case blu::ComparePredicate::GE:
    return a >= b;
  }
  llvm_unreachable("unknown predicate");
}

static LogicalResult evaluateCompare(blu::CompareOp op, Evaluation &e) {
  const Tensor &a = e[op.getLhs()], &b = e[op.getRhs()];
  auto shape = broadcastShape(op, e);
  if (failed(shape))
    return failure();
  Tensor y = zerosFor(op, *shape);
  forEachIndex(*shape, [&](ArrayRef<int64_t> index) {
    int64_t i = a.broadcastOffset(index), j = b.broadcastOffset(index);
    y.ints[y.offset(index)] =
        a.isFloat() ? holds(op.getPredicate(), a.floats[i], b.floats[j])
                    : holds(op.getPredicate(), a.ints[i], b.ints[j]);
  });
  return e.set(op, std::move(y));
}

static LogicalResult evaluateSelect(blu::SelectOp op, Evaluation &e) {
  const Tensor &condition = e[op.getCondition()];
  const Tensor &a = e[op.getOnTrue()], &b = e[op.getOnFalse()];
  auto shape = broadcastShape(op, e);
  if (failed(shape))
    return failure();
  Tensor y = zerosFor(op, *shape);
  forEachIndex(*shape, [&](ArrayRef<int64_t> index) {
    const Tensor &choice =
        condition.ints[condition.broadcastOffset(index)] ? a : b;
    y.copyElement(y.offset(index), choice, choice.broadcastOffset(index));
  });
  return e.set(op, std::move(y));
}

//===----------------------------------------------------------------------===//
// Unary
//===----------------------------------------------------------------------===//

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

static double compute(blu::NegOp, double x) { return -x; }
static double compute(blu::AbsOp, double x) { return std::fabs(x); }
static double compute(blu::ExpOp, double x) { return std::exp(x); }
static double compute(blu::LogOp, double x) { return std::log(x); }
static double compute(blu::SqrtOp, double x) { return std::sqrt(x); }
static double compute(blu::RsqrtOp, double x) { return 1 / std::sqrt(x); }
static double compute(blu::TanhOp, double x) { return std::tanh(x); }
static double compute(blu::SigmoidOp, double x) { return sigmoid(x); }
static double compute(blu::SiluOp, double x) { return x * sigmoid(x); }
// Written so that a NaN stays one.
static double compute(blu::ReluOp, double x) { return x <= 0 ? 0 : x; }

/// Φ of the chosen GELU and its derivative.
struct GeluFactor {
  double value, slope;
};
static GeluFactor geluFactor(blu::GeluKind kind, double x) {
  if (kind == blu::GeluKind::Erf) {
    // erfc keeps the digits of the left tail.
    double value = std::erfc(-x / std::numbers::sqrt2) / 2;
    double density =
        std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); // φ(x)
    return {value, density};
  }
  double c = std::sqrt(2 / std::numbers::pi);
  double u = c * (x + 0.044715 * x * x * x);
  // (1 + tanh u)/2 = 1/(1 + e^-2u), which keeps the digits of the left tail.
  double value = sigmoid(2 * u);
  double du = c * (1 + 3 * 0.044715 * x * x);
  // The derivative of the logistic function, as s(v)·s(-v); far out du is
  // infinite where the product is 0.
  double product = sigmoid(2 * u) * sigmoid(-2 * u);
  return {value, product == 0 ? 0 : product * 2 * du};
}

static double compute(blu::GeluOp op, double x) {
  return x * geluFactor(op.getKind(), x).value;
}

template <typename Op>
static LogicalResult evaluateUnary(Op op, Evaluation &e) {
  const Tensor &x = e[op.getInput()];
  Tensor y = zerosFor(op, x.shape);
  for (int64_t i = 0; i < x.size(); ++i)
    y.floats[i] = compute(op, x.floats[i]);
  return e.set(op, std::move(y));
}

static LogicalResult evaluateGeluGrad(blu::GeluGradOp op, Evaluation &e) {
  const Tensor &x = e[op.getInput()], &g = e[op.getGrad()];
  Tensor dx = zerosFor(op, x.shape);
  for (int64_t i = 0; i < x.size(); ++i) {
    GeluFactor factor = geluFactor(op.getKind(), x.floats[i]);
    double bend = factor.slope == 0 ? 0 : x.floats[i] * factor.slope;
    dx.floats[i] = g.floats[i] * (factor.value + bend);
  }
  return e.set(op, std::move(dx));
}

//===----------------------------------------------------------------------===//
// Casts and constants
//===----------------------------------------------------------------------===//

static LogicalResult evaluateCast(blu::CastOp op, Evaluation &e) {
  const Tensor &x = e[op.getInput()];
  Tensor y = zerosFor(op, x.shape);
  for (int64_t i = 0; i < x.size(); ++i) {
    if (x.isFloat() && y.isFloat()) {
      y.floats[i] = x.floats[i];
    } else if (y.isFloat()) {
      y.floats[i] = double(x.ints[i]);
    } else if (y.elementType.isInteger(1)) {
      y.ints[i] = x.isFloat() ? x.floats[i] != 0 : x.ints[i] != 0;
    } else if (!x.isFloat()) {
      y.ints[i] = x.ints[i];
    } else {
      double whole = std::trunc(x.floats[i]);
      double limit = std::ldexp(1, y.elementType.getIntOrFloatBitWidth() - 1);
      if (!(whole >= -limit && whole < limit))
        return op.emitOpError()
               << "element " << i << " is " << x.floats[i] << ", which "
               << y.elementType << " does not hold";
      y.ints[i] = int64_t(whole);
    }
  }
  // A program's rounding points are part of what it computes.
  if (y.elementType.isBF16())
    for (double &element : y.floats)
      element = roundTo(y.elementType, element);
  return e.set(op, std::move(y));
}

static LogicalResult evaluateConstant(blu::ConstantOp op, Evaluation &e) {
  auto type = op.getType();
  Tensor y = zerosFor(op, type.getShape());
  ElementsAttr value = op.getValue();
  if (y.isFloat()) {
    auto elements = value.tryGetValues<APFloat>();
    if (!elements)
      return op.emitOpError("has elements that cannot be read");
    for (auto [i, element] : llvm::enumerate(*elements)) {
      bool losesInfo;
      APFloat number = element;
      number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                     &losesInfo);
      y.floats[i] = number.convertToDouble();
    }
  } else {
    auto elements = value.tryGetValues<APInt>();
    if (!elements)
      return op.emitOpError("has elements that cannot be read");
    for (auto [i, element] : llvm::enumerate(*elements))
      y.ints[i] = element.getSExtValue();
  }
  return e.set(op, std::move(y));
}

void blutrain::registerElementwiseEvaluators(EvaluatorRegistry &registry) {
  registry.add<blu::AddOp>(evaluateBinary);
  registry.add<blu::SubOp>(evaluateBinary);
  registry.add<blu::MulOp>(evaluateBinary);
  registry.add<blu::DivOp>(evaluateBinary);
  registry.add<blu::MaximumOp>(evaluateBinary);
  registry.add<blu::MinimumOp>(evaluateBinary);
  registry.add<blu::CompareOp>(evaluateCompare);
  registry.add<blu::SelectOp>(evaluateSelect);
  registry.add<blu::NegOp>(evaluateUnary);
  registry.add<blu::AbsOp>(evaluateUnary);
  registry.add<blu::ExpOp>(evaluateUnary);
  registry.add<blu::LogOp>(evaluateUnary);
  registry.add<blu::SqrtOp>(evaluateUnary);
  registry.add<blu::RsqrtOp>(evaluateUnary);
  registry.add<blu::TanhOp>(evaluateUnary);
  registry.add<blu::SigmoidOp>(evaluateUnary);
  registry.add<blu::SiluOp>(evaluateUnary);
  registry.add<blu::ReluOp>(evaluateUnary);
  registry.add<blu::GeluOp>(evaluateUnary);
  registry.add<blu::GeluGradOp>(evaluateGeluGrad);
  registry.add<blu::CastOp>(evaluateCast);
  registry.add<blu::ConstantOp>(evaluateConstant);
}
