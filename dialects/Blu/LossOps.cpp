//===- LossOps.cpp - inference and gradients of losses --------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/BluSupport.h"

using namespace mlir;
using namespace mlir::blu;

/// C1 and C2: targets have the shape of the logits without the last dim. C3:
/// classes are some of those of the logits.
static LogicalResult checkOperands(InferSite site, Value logits, Value targets,
                                   std::optional<uint64_t> classes) {
  auto x = cast<RankedTensorType>(logits.getType());
  auto t = cast<RankedTensorType>(targets.getType());
  if (x.getRank() < 1)
    return emitInferError(site, "logits have rank 0, expected at least 1");
  if (!shapesMatch(x.getShape().drop_back(), t.getShape()))
    return emitInferError(site, "targets have shape ",
                          shapeString(t.getShape()), ", expected ",
                          shapeString(x.getShape().drop_back()));
  if (!classes)
    return success();
  int64_t count = *classes, most = x.getShape().back();
  if (count < 1 || (!ShapedType::isDynamic(most) && count > most))
    return emitInferError(site, "classes is ", count,
                          ", expected at least 1 and at most the ",
                          extentString(most), " of the logits' last dim");
  return success();
}

LogicalResult CrossEntropyOp::inferReturnTypes(MLIRContext *,
                                               std::optional<Location> loc,
                                               Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  if (failed(checkOperands({loc, getOperationName()}, adaptor.getLogits(),
                           adaptor.getTargets(), adaptor.getClasses())))
    return failure();
  auto x = cast<RankedTensorType>(adaptor.getLogits().getType());
  bool perRow = adaptor.getReduction() == LossReduction::None;
  Type element = x.getElementType();
  if (element.isBF16())
    element = Float32Type::get(element.getContext());
  types.push_back(RankedTensorType::get(
      perRow ? x.getShape().drop_back() : ArrayRef<int64_t>(), element));
  return success();
}

LogicalResult CrossEntropyOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                            const llvm::BitVector &wanted,
                                            MutableArrayRef<Value> out) {
  if (!wanted[0])
    return success();
  GradBuilder gb(b, getLoc());
  Value grad = g[0];
  if (getReduction() == LossReduction::Mean) {
    Value ignored = gb.scalar(double(int64_t(getIgnoreIndex())), getTargets());
    Value counted =
        gb.cast(gb.compare(ComparePredicate::NE, getTargets(), ignored),
                GradBuilder::type(grad).getElementType());
    SmallVector<int64_t> all;
    for (int64_t i = 0; i < GradBuilder::type(counted).getRank(); ++i)
      all.push_back(i);
    grad = gb.div(grad, gb.reduceSum(counted, all, /*keepDims=*/false));
  }
  out[0] =
      CrossEntropyGradOp::create(b, getLoc(), getLogits(), getTargets(), grad,
                                 getIgnoreIndexAttr(), getClassesAttr());
  return success();
}

LogicalResult
CrossEntropyGradOp::inferReturnTypes(MLIRContext *, std::optional<Location> loc,
                                     Adaptor adaptor,
                                     SmallVectorImpl<Type> &types) {
  if (failed(checkOperands({loc, getOperationName()}, adaptor.getLogits(),
                           adaptor.getTargets(), adaptor.getClasses())))
    return failure();
  auto grad = cast<RankedTensorType>(adaptor.getGrad().getType());
  auto targets = cast<RankedTensorType>(adaptor.getTargets().getType());
  if (grad.getRank() != 0 &&
      !shapesMatch(grad.getShape(), targets.getShape())) // C2
    return emitInferError({loc, getOperationName()}, "cotangent has shape ",
                          shapeString(grad.getShape()), ", targets have ",
                          shapeString(targets.getShape()));
  types.push_back(adaptor.getLogits().getType());
  return success();
}
