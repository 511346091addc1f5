//===- RandomOps.cpp - verifier and gradient of dropout -------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/BluSupport.h"

using namespace mlir;
using namespace mlir::blu;

LogicalResult DropoutOp::verify() {
  double rate = getRate().convertToDouble();
  if (!(rate >= 0 && rate < 1)) // C2
    return emitOpError() << "rate is " << rate
                         << ", expected at least 0 and less than 1";
  return success();
}

OpFoldResult DropoutOp::fold(FoldAdaptor) {
  return getRate().isZero() ? OpFoldResult(getInput()) : OpFoldResult();
}

LogicalResult DropoutOp::buildGradient(OpBuilder &b, ArrayRef<Value> g,
                                       const llvm::BitVector &wanted,
                                       MutableArrayRef<Value> out) {
  if (wanted[0])
    out[0] = DropoutOp::create(b, getLoc(), g[0], getKey(), getRateAttr());
  return success();
}
