//===- MatmulOps.cpp - inference and gradients of matrix products ---------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/BluSupport.h"

using namespace mlir;
using namespace mlir::blu;

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

/// Checks `wide` (C4) and gives the element type of a product.
static FailureOr<Type> inferElement(InferSite site, Type operand, bool wide) {
  if (!wide)
    return operand;
  if (!operand.isBF16())
    return emitInferError(site, "is wide with operands of ", operand,
                          ", expected bf16");
  return Type(Float32Type::get(operand.getContext()));
}

//===----------------------------------------------------------------------===//
// matmul
//===----------------------------------------------------------------------===//

LogicalResult MatmulOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  RankedTensorType a = tensorType(adaptor.getLhs());
  RankedTensorType b = tensorType(adaptor.getRhs());
  if (a.getElementType() != b.getElementType()) // C1
    return emitInferError({loc, getOperationName()}, "element types ",
                          a.getElementType(), " and ", b.getElementType(),
                          " differ");
  for (auto [side, type, transposed] :
       {std::tuple("lhs", a, bool(adaptor.getTransA())),
        std::tuple("rhs", b, bool(adaptor.getTransB()))}) // C1
    if (int64_t least = transposed ? 2 : 1; type.getRank() < least)
      return emitInferError({loc, getOperationName()}, side, " has rank ",
                            type.getRank(), ", expected at least ", least,
                            transposed ? " to be transposed" : "");
  auto rows = [](RankedTensorType type, bool trans, bool isLhs) {
    int64_t rank = type.getRank();
    if (rank == 1) // a row on the left, a column on the right
      return isLhs ? std::pair<int64_t, int64_t>(1, type.getDimSize(0))
                   : std::pair<int64_t, int64_t>(type.getDimSize(0), 1);
    int64_t x = type.getDimSize(rank - 2), y = type.getDimSize(rank - 1);
    return trans ? std::pair(y, x) : std::pair(x, y);
  };
  auto [m, ka] = rows(a, adaptor.getTransA(), true);
  auto [kb, n] = rows(b, adaptor.getTransB(), false);
  if (!extentsMatch(ka, kb)) { // C2
    auto contracted = [](RankedTensorType type, bool trans, bool isLhs) {
      return type.getRank() == 1 ? 0
                                 : type.getRank() - (isLhs != trans ? 1 : 2);
    };
    return emitInferError(
        {loc, getOperationName()}, "contracting dims differ: lhs dim ",
        contracted(a, adaptor.getTransA(), true), " is ", ka, ", rhs dim ",
        contracted(b, adaptor.getTransB(), false), " is ", kb);
  }
  ArrayRef<int64_t> batchA =
      a.getShape().drop_back(std::min<int64_t>(a.getRank(), 2));
  ArrayRef<int64_t> batchB =
      b.getShape().drop_back(std::min<int64_t>(b.getRank(), 2));
  auto shape =
      inferBroadcast({loc, getOperationName()}, {batchA, batchB}); // C3
  if (failed(shape))
    return failure();
  if (a.getRank() > 1)
    shape->push_back(m);
  if (b.getRank() > 1)
    shape->push_back(n);
  auto element = inferElement({loc, getOperationName()}, a.getElementType(),
                              adaptor.getWide()); // C4
  if (failed(element))
    return failure();
  types.push_back(RankedTensorType::get(*shape, *element));
  return success();
}

LogicalResult MatmulOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                      const llvm::BitVector &wanted,
                                      MutableArrayRef<Value> out) {
  GradBuilder gb(b, getLoc());
  RankedTensorType typeA = tensorType(getLhs()), typeB = tensorType(getRhs());
  Value lhs = getLhs(), rhs = getRhs();
  Value grad = gb.cast(g[0], typeA.getElementType());
  // Give rank-1 operands, and the cotangent, the dims that the result lacks.
  SmallVector<int64_t> gradShape(tensorType(grad).getShape());
  if (typeB.getRank() == 1)
    gradShape.push_back(1);
  if (typeA.getRank() == 1)
    gradShape.insert(gradShape.end() - 1, 1);
  grad = gb.reshape(grad, gradShape);
  if (typeA.getRank() == 1)
    lhs = gb.reshape(lhs, {1, typeA.getDimSize(0)});
  if (typeB.getRank() == 1)
    rhs = gb.reshape(rhs, {typeB.getDimSize(0), 1});
  auto product = [&](Value operand, Value x, Value y, bool transX,
                     bool transY) -> Value {
    return MatmulOp::create(b, getLoc(), x, y, transX, transY,
                            isRoundedParameter(operand));
  };
  bool ta = getTransA(), tb = getTransB();
  auto finish = [&](Value full, Value matrix, RankedTensorType type) {
    return gb.reshape(gb.reduceTo(full, tensorType(matrix)), type.getShape());
  };
  // y = op(a) op(b): d op(a) = g op(b)ᵀ, and da is its transpose where a is.
  if (wanted[0])
    out[0] = finish(ta ? product(getLhs(), rhs, grad, tb, true)
                       : product(getLhs(), grad, rhs, false, !tb),
                    lhs, typeA);
  if (wanted[1])
    out[1] = finish(tb ? product(getRhs(), grad, lhs, true, ta)
                       : product(getRhs(), lhs, grad, !ta, false),
                    rhs, typeB);
  return success();
}

//===----------------------------------------------------------------------===//
// linear
//===----------------------------------------------------------------------===//

LogicalResult LinearOp::inferReturnTypes(MLIRContext *,
                                         std::optional<Location> loc,
                                         Adaptor adaptor,
                                         SmallVectorImpl<Type> &types) {
  RankedTensorType x = tensorType(adaptor.getInput());
  RankedTensorType w = tensorType(adaptor.getWeight());
  if (x.getElementType() != w.getElementType()) // C1
    return emitInferError({loc, getOperationName()}, "input has element type ",
                          x.getElementType(), ", weight has ",
                          w.getElementType());
  if (x.getRank() < 1 || w.getRank() != 2)
    return emitInferError({loc, getOperationName()}, "input has rank ",
                          x.getRank(), " and weight ", w.getRank(),
                          ", expected at least 1 and 2");
  if (!extentsMatch(x.getShape().back(), w.getDimSize(1))) // C2
    return emitInferError({loc, getOperationName()},
                          "contracting dims differ: input dim ",
                          x.getRank() - 1, " is ", x.getShape().back(),
                          ", weight dim 1 is ", w.getDimSize(1));
  auto element = inferElement({loc, getOperationName()}, x.getElementType(),
                              adaptor.getWide()); // C4
  if (failed(element))
    return failure();
  if (Value bias = adaptor.getBias()) { // C1, C3
    RankedTensorType type = tensorType(bias);
    if (type.getElementType() != *element || type.getRank() != 1 ||
        !extentsMatch(type.getDimSize(0), w.getDimSize(0)))
      return emitInferError({loc, getOperationName()}, "bias has type ", type,
                            ", expected ",
                            RankedTensorType::get({w.getDimSize(0)}, *element));
  }
  SmallVector<int64_t> shape(x.getShape());
  shape.back() = w.getDimSize(0);
  types.push_back(RankedTensorType::get(shape, *element));
  return success();
}

LogicalResult LinearOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                      const llvm::BitVector &wanted,
                                      MutableArrayRef<Value> out) {
  GradBuilder gb(b, getLoc());
  RankedTensorType x = tensorType(getInput()), w = tensorType(getWeight());
  int64_t k = w.getDimSize(1), n = w.getDimSize(0);
  int64_t rows = x.getNumElements() / k;
  Value full = gb.reshape(g[0], {rows, n});
  Value grad = gb.cast(full, x.getElementType());
  if (wanted[0]) {
    Value dx = MatmulOp::create(b, getLoc(), grad, getWeight(), false, false,
                                isRoundedParameter(getInput()));
    out[0] = gb.reshape(dx, x.getShape());
  }
  if (wanted[1])
    out[1] =
        MatmulOp::create(b, getLoc(), grad, gb.reshape(getInput(), {rows, k}),
                         true, false, isRoundedParameter(getWeight()));
  if (wanted.size() > 2 && wanted[2])
    out[2] = gb.reduceSum(full, {0}, /*keepDims=*/false);
  return success();
}
