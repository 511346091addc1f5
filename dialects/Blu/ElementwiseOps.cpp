//===- ElementwiseOps.cpp - inference, verifiers, gradients ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/BluSupport.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blu;

using Grads = ArrayRef<Value>;
using OperandGrads = MutableArrayRef<Value>;

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

//===----------------------------------------------------------------------===//
// Binary ops
//===----------------------------------------------------------------------===//

/// C1 and C2 of every broadcasting op, and the result type.
static LogicalResult inferElementwise(InferSite site, ValueRange numbers,
                                      ValueRange all, Type elementType,
                                      SmallVectorImpl<Type> &types) {
  Type element = tensorType(numbers.front()).getElementType();
  for (Value value : numbers.drop_front())
    if (tensorType(value).getElementType() != element)
      return emitInferError(site, "element types ", element, " and ",
                            tensorType(value).getElementType(), " differ");
  SmallVector<ArrayRef<int64_t>> shapes;
  for (Value value : all)
    shapes.push_back(tensorType(value).getShape());
  auto shape = inferBroadcast(site, shapes);
  if (failed(shape))
    return failure();
  types.push_back(
      RankedTensorType::get(*shape, elementType ? elementType : element));
  return success();
}

#define BLU_INFER_BINARY(OP)                                                   \
  LogicalResult OP::inferReturnTypes(                                          \
      MLIRContext *, std::optional<Location> loc, Adaptor adaptor,             \
      SmallVectorImpl<Type> &types) {                                          \
    return inferElementwise({loc, getOperationName()}, adaptor.getOperands(),  \
                            adaptor.getOperands(), /*elementType=*/nullptr,    \
                            types);                                            \
  }
BLU_INFER_BINARY(AddOp)
BLU_INFER_BINARY(SubOp)
BLU_INFER_BINARY(MulOp)
BLU_INFER_BINARY(DivOp)
BLU_INFER_BINARY(MaximumOp)
BLU_INFER_BINARY(MinimumOp)
#undef BLU_INFER_BINARY

LogicalResult CompareOp::inferReturnTypes(MLIRContext *context,
                                          std::optional<Location> loc,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  return inferElementwise({loc, getOperationName()}, adaptor.getOperands(),
                          adaptor.getOperands(), IntegerType::get(context, 1),
                          types);
}

LogicalResult SelectOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  return inferElementwise(
      {loc, getOperationName()}, adaptor.getOperands().drop_front(),
      adaptor.getOperands(), /*elementType=*/nullptr, types);
}

LogicalResult AddOp::buildGradient(OpBuilder &b, Grads g,
                                   const llvm::BitVector &wanted,
                                   OperandGrads out) {
  GradBuilder gb(b, getLoc());
  for (unsigned i : wanted.set_bits())
    out[i] = gb.reduceTo(g[0], tensorType(getOperand(i)));
  return success();
}

LogicalResult SubOp::buildGradient(OpBuilder &b, Grads g,
                                   const llvm::BitVector &wanted,
                                   OperandGrads out) {
  GradBuilder gb(b, getLoc());
  if (wanted[0])
    out[0] = gb.reduceTo(g[0], tensorType(getLhs()));
  if (wanted[1])
    out[1] = gb.neg(gb.reduceTo(g[0], tensorType(getRhs())));
  return success();
}

LogicalResult MulOp::buildGradient(OpBuilder &b, Grads g,
                                   const llvm::BitVector &wanted,
                                   OperandGrads out) {
  GradBuilder gb(b, getLoc());
  if (wanted[0])
    out[0] = gb.reduceTo(gb.mul(g[0], getRhs()), tensorType(getLhs()));
  if (wanted[1])
    out[1] = gb.reduceTo(gb.mul(g[0], getLhs()), tensorType(getRhs()));
  return success();
}

LogicalResult DivOp::buildGradient(OpBuilder &b, Grads g,
                                   const llvm::BitVector &wanted,
                                   OperandGrads out) {
  GradBuilder gb(b, getLoc());
  Value scaled = gb.div(g[0], getRhs());
  if (wanted[0])
    out[0] = gb.reduceTo(scaled, tensorType(getLhs()));
  if (wanted[1])
    out[1] =
        gb.neg(gb.reduceTo(gb.mul(scaled, getResult()), tensorType(getRhs())));
  return success();
}

/// Gradient of min and max: all of g where the operand is strictly chosen, half
/// of it where both are equal.
static void buildChoiceGradient(OpBuilder &b, Location loc,
                                ComparePredicate chosen, Value lhs, Value rhs,
                                Value g, const llvm::BitVector &wanted,
                                OperandGrads out) {
  GradBuilder gb(b, loc);
  Value zero = gb.scalar(0, g);
  Value half = gb.mul(g, gb.scalar(0.5, g));
  Value tie = gb.select(gb.compare(ComparePredicate::EQ, lhs, rhs), half, zero);
  Value operands[] = {lhs, rhs};
  for (unsigned i : wanted.set_bits()) {
    Value wins = gb.compare(chosen, operands[i], operands[1 - i]);
    out[i] = gb.reduceTo(gb.select(wins, g, tie), tensorType(operands[i]));
  }
}

LogicalResult MaximumOp::buildGradient(OpBuilder &b, Grads g,
                                       const llvm::BitVector &wanted,
                                       OperandGrads out) {
  buildChoiceGradient(b, getLoc(), ComparePredicate::GT, getLhs(), getRhs(),
                      g[0], wanted, out);
  return success();
}

LogicalResult MinimumOp::buildGradient(OpBuilder &b, Grads g,
                                       const llvm::BitVector &wanted,
                                       OperandGrads out) {
  buildChoiceGradient(b, getLoc(), ComparePredicate::LT, getLhs(), getRhs(),
                      g[0], wanted, out);
  return success();
}

LogicalResult SelectOp::buildGradient(OpBuilder &b, Grads g,
                                      const llvm::BitVector &wanted,
                                      OperandGrads out) {
  GradBuilder gb(b, getLoc());
  Value zero = gb.scalar(0, g[0]);
  if (wanted[1])
    out[1] = gb.reduceTo(gb.select(getCondition(), g[0], zero),
                         tensorType(getOnTrue()));
  if (wanted[2])
    out[2] = gb.reduceTo(gb.select(getCondition(), zero, g[0]),
                         tensorType(getOnFalse()));
  return success();
}

//===----------------------------------------------------------------------===//
// Unary ops
//===----------------------------------------------------------------------===//

/// The rule of a unary op: `out[0]` from the cotangent `g`, the input `x` and
/// the result `y`.
#define BLU_UNARY_GRADIENT(OP, EXPRESSION)                                     \
  LogicalResult OP::buildGradient(OpBuilder &b, Grads grads,                   \
                                  const llvm::BitVector &wanted,               \
                                  OperandGrads out) {                          \
    GradBuilder gb(b, getLoc());                                               \
    Value g = grads[0];                                                        \
    [[maybe_unused]] Value x = getInput(), y = getResult();                    \
    [[maybe_unused]] auto c = [&](double v) { return gb.scalar(v, g); };       \
    if (wanted[0])                                                             \
      out[0] = EXPRESSION;                                                     \
    return success();                                                          \
  }

BLU_UNARY_GRADIENT(NegOp, gb.neg(g))
BLU_UNARY_GRADIENT(
    AbsOp, gb.select(gb.compare(ComparePredicate::GT, x, c(0)), g,
                     gb.select(gb.compare(ComparePredicate::LT, x, c(0)),
                               gb.neg(g), c(0))))
BLU_UNARY_GRADIENT(ExpOp, gb.mul(g, y))
BLU_UNARY_GRADIENT(LogOp, gb.div(g, x))
BLU_UNARY_GRADIENT(SqrtOp, gb.div(gb.mul(g, c(0.5)), y))
BLU_UNARY_GRADIENT(RsqrtOp, gb.div(gb.mul(gb.mul(g, c(-0.5)), y), x))
BLU_UNARY_GRADIENT(TanhOp, gb.mul(g, gb.sub(c(1), gb.mul(y, y))))
BLU_UNARY_GRADIENT(SigmoidOp, gb.mul(g, gb.mul(y, gb.sub(c(1), y))))
BLU_UNARY_GRADIENT(ReluOp, gb.select(gb.compare(ComparePredicate::GT, x, c(0)),
                                     g, c(0)))
#undef BLU_UNARY_GRADIENT

LogicalResult SiluOp::buildGradient(OpBuilder &b, Grads g,
                                    const llvm::BitVector &wanted,
                                    OperandGrads out) {
  if (!wanted[0])
    return success();
  GradBuilder gb(b, getLoc());
  Value x = getInput(), one = gb.scalar(1, x);
  Value s = SigmoidOp::create(b, getLoc(), x);
  Value slope = gb.mul(s, gb.add(one, gb.mul(x, gb.sub(one, s))));
  out[0] = gb.mul(g[0], slope);
  return success();
}

LogicalResult GeluOp::buildGradient(OpBuilder &b, Grads g,
                                    const llvm::BitVector &wanted,
                                    OperandGrads out) {
  if (wanted[0])
    out[0] = GeluGradOp::create(b, getLoc(), getInput(), g[0], getKind());
  return success();
}

LogicalResult CastOp::buildGradient(OpBuilder &b, Grads g,
                                    const llvm::BitVector &wanted,
                                    OperandGrads out) {
  if (wanted[0])
    out[0] = GradBuilder(b, getLoc())
                 .cast(g[0], getCotangentType(getInput()).getElementType());
  return success();
}

/// Whether every value of one type is one of the other.
static bool isWidening(Type from, Type to) {
  auto narrow = dyn_cast<FloatType>(from), wide = dyn_cast<FloatType>(to);
  return narrow && wide && narrow.getWidth() < wide.getWidth();
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  // There and back again, exactly.
  if (auto first = getInput().getDefiningOp<CastOp>())
    if (first.getInput().getType() == getType() &&
        isWidening(getType().getElementType(),
                   first.getType().getElementType()))
      return first.getInput();
  return {};
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }
