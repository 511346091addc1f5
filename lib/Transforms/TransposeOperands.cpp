//===- TransposeOperands.cpp - products whose operands lie along k --------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Transforms/Passes.h"

#include "Blurt/BlurtDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace blutrain {
#define GEN_PASS_DEF_TRANSPOSEOPERANDSPASS
#include "blutrain/Transforms/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace blutrain;

/// True if the product gains more than the copies cost. Its 2mnk operations
/// take 1/190 - 1/385 picoseconds less each, the copies move 8(m + n)k bytes of
/// FP32 at 4.3 TB/s (an H200: docs/Performance.md); k falls out.
static bool isWorthIt(int64_t m, int64_t n) {
  double gain = 2.0 * double(m) * double(n) * (1 / 190e12 - 1 / 385e12);
  double cost = 8.0 * double(m + n) / 4.3e12;
  return gain > 1.25 * cost;
}

/// A copy of the matrix `value` with its dims exchanged.
static Value emitTranspose(OpBuilder &builder, Location loc, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  MLIRContext *context = builder.getContext();
  auto identity = AffineMap::getMultiDimIdentityMap(2, context);
  auto exchange =
      AffineMap::getPermutationMap(ArrayRef<unsigned>{1, 0}, context);
  auto result = RankedTensorType::get({columns, rows}, type.getElementType());
  auto group = blurt::GroupOp::create(
      builder, loc, "transpose", {columns, rows}, ArrayRef<int64_t>{}, value,
      exchange, ValueRange(), ValueRange(), TypeRange(result), identity,
      [](OpBuilder &, Location, ValueRange arguments) {
        return SmallVector<Value>{arguments[0]};
      });
  // Not to be shared with its input, whose producers would then write it.
  group->setAttr("blurt.relayout", builder.getUnitAttr());
  return group.getResult(0);
}

namespace {
struct TransposeOperands
    : blutrain::impl::TransposeOperandsPassBase<TransposeOperands> {
  void runOnOperation() override {
    SmallVector<blurt::GemmOp> gemms;
    getOperation().walk([&](blurt::GemmOp gemm) { gemms.push_back(gemm); });
    for (blurt::GemmOp gemm : gemms) {
      auto a = cast<ShapedType>(gemm.getA().getType());
      auto b = cast<ShapedType>(gemm.getB().getType());
      if (!gemm.getTf32() || !gemm.getTransA() || gemm.getTransB() ||
          a.getRank() != 2 || !isa<RankedTensorType>(a) ||
          !isWorthIt(a.getDimSize(1), b.getDimSize(1)))
        continue;
      OpBuilder builder(gemm);
      gemm.getAMutable().assign(
          emitTranspose(builder, gemm.getLoc(), gemm.getA()));
      gemm.getBMutable().assign(
          emitTranspose(builder, gemm.getLoc(), gemm.getB()));
      gemm.setTransA(false);
      gemm.setTransB(true);
      ++numProducts;
    }
  }
};
} // namespace
