//===- Matmul.cpp - matrix products to GEMMs ------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "../FusionViews.h"
#include "Lowering.h"

using namespace mlir;
using namespace blutrain;
using blurt::GemmOp;

namespace {
/// One side of a product: batch × two dims, stored transposed or not.
struct Operand {
  Value value;
  bool transposed;

  ArrayRef<int64_t> shape() const { return tensorType(value).getShape(); }
  ArrayRef<int64_t> batch() const { return shape().drop_back(2); }
  /// Extents of the operand, not of what is stored.
  int64_t rows() const {
    return shape()[shape().size() - (transposed ? 1 : 2)];
  }
  int64_t cols() const {
    return shape()[shape().size() - (transposed ? 2 : 1)];
  }
};
} // namespace

/// Turns a transpose of the last two dims before the product into the flag.
static void foldTranspose(Operand &operand) {
  auto transpose = operand.value.getDefiningOp<blurt::TransposeOp>();
  if (!transpose)
    return;
  SmallVector<int64_t> swapped =
      llvm::to_vector(llvm::seq<int64_t>(0, operand.shape().size()));
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  if (ArrayRef<int64_t>(swapped) != transpose.getPermutation())
    return;
  operand.value = transpose.getSource();
  operand.transposed = !operand.transposed;
  foldTranspose(operand);
}

/// Makes the operand readable by a GEMM under another shape with the same two
/// inner dims, or with dims before the last merged.
static Value reshapeMatrix(Lowering &l, Value value, ArrayRef<int64_t> shape) {
  if (!isReshapeView(value, shape) || !isMatrixView(value))
    value = l.copy(value);
  return l.reshape(value, shape);
}

/// Repeats the operand along its batch dims.
static void broadcastBatch(Lowering &l, Operand &operand,
                           ArrayRef<int64_t> batch) {
  SmallVector<int64_t> shape(batch);
  llvm::append_range(shape, operand.shape().take_back(2));
  operand.value = l.elementwise(
      "broadcast", RankedTensorType::get(shape, elementType(operand.value)),
      operand.value, [](Body &, ArrayRef<Value> in) { return in[0]; });
}

static Value createGemm(Lowering &l, const Operand &a, const Operand &b,
                        ArrayRef<int64_t> resultShape, Type element) {
  return GemmOp::create(l.builder, l.loc,
                        TypeRange(RankedTensorType::get(resultShape, element)),
                        a.value, b.value, /*c=*/Value(), /*bias=*/Value(),
                        ValueRange(), a.transposed, b.transposed)
      .getResult(0);
}

/// The product in the shape batch × rows × cols that the operands broadcast to.
static Value multiply(Lowering &l, Operand a, Operand b,
                      ArrayRef<int64_t> batch, Type element) {
  foldTranspose(a);
  foldTranspose(b);
  int64_t rows = a.rows(), cols = b.cols();
  SmallVector<int64_t> resultShape(batch);
  resultShape.append({rows, cols});
  auto resultType = RankedTensorType::get(resultShape, element);
  if (a.cols() == 0)
    return l.splat(resultType, 0);

  int64_t batchA = product(a.batch()), batchB = product(b.batch());
  int64_t count = product(batch);
  auto matrix = [&](Operand operand, int64_t n) {
    SmallVector<int64_t> shape;
    if (n != 0)
      shape.push_back(n);
    llvm::append_range(shape, operand.shape().take_back(2));
    operand.value = reshapeMatrix(l, operand.value, shape);
    return operand;
  };

  Value result;
  if (batchB == 1 && (batchA == 1 || !a.transposed) && batchA == count) {
    // All rows of a in one product.
    if (batchA > 1) {
      a.value = reshapeMatrix(l, a.value, {batchA * rows, a.cols()});
      result = createGemm(l, a, matrix(b, 0), {batchA * rows, cols}, element);
    } else {
      result = createGemm(l, matrix(a, 0), matrix(b, 0), {rows, cols}, element);
    }
  } else {
    if (batchA != 1 && batchA != count)
      broadcastBatch(l, a, batch);
    if (batchB != 1 && batchB != count)
      broadcastBatch(l, b, batch);
    result = createGemm(l, matrix(a, batchA == 1 ? 1 : count),
                        matrix(b, batchB == 1 ? 1 : count), {count, rows, cols},
                        element);
  }
  return l.reshape(result, resultShape);
}

static LoweringResult lowerMatmul(blu::MatmulOp op, Lowering &l) {
  Operand a{op.getLhs(), op.getTransA()}, b{op.getRhs(), op.getTransB()};
  if (a.shape().size() == 1)
    a.value = l.reshape(a.value, {1, a.shape()[0]});
  if (b.shape().size() == 1)
    b.value = l.reshape(b.value, {b.shape()[0], 1});
  ArrayRef<int64_t> shape = tensorType(op.getResult()).getShape();
  int64_t matrixDims = (tensorType(op.getLhs()).getRank() > 1) +
                       (tensorType(op.getRhs()).getRank() > 1);
  Value full = multiply(l, a, b, shape.drop_back(matrixDims),
                        elementType(op.getResult()));
  return SmallVector<Value>{l.reshape(full, shape)};
}

static LoweringResult lowerLinear(blu::LinearOp op, Lowering &l) {
  RankedTensorType type = tensorType(op.getResult());
  auto [rows, cols] = rowsOf(type);
  int64_t depth = op.getWeight().getType().getDimSize(1);
  if (!isReshapeView(op.getInput(), {rows, depth}))
    op.getInputMutable().assign(l.copy(op.getInput()));
  Operand x{l.reshape(op.getInput(), {rows, depth}), false};
  Operand w{op.getWeight(), true};
  Value result = multiply(l, x, w, {}, type.getElementType());
  if (Value bias = op.getBias())
    result = l.elementwise(
        "bias", tensorType(result), {result, bias},
        [](Body &b, ArrayRef<Value> in) { return b.add(in[0], in[1]); });
  return SmallVector<Value>{l.reshape(result, type.getShape())};
}

//===----------------------------------------------------------------------===//
// Products added to what is there
//===----------------------------------------------------------------------===//

/// Whether `value`, read once, has a place of its own that may be overwritten:
/// it is computed here, or carried by the stack or loop around.
static bool isOverwritable(Value value, Block *block) {
  while (auto reshape = value.getDefiningOp<blurt::ReshapeOp>()) {
    if (!value.hasOneUse())
      return false;
    value = reshape.getSource();
  }
  if (!value.hasOneUse() || value.getParentBlock() != block)
    return false;
  if (Operation *op = value.getDefiningOp())
    return isa<blurt::GroupOp, GemmOp, blurt::LoopOp>(op);
  unsigned number = cast<BlockArgument>(value).getArgNumber();
  if (auto stack = dyn_cast<blu::StackOp>(block->getParentOp()))
    return number >= 1 && number <= stack.getNumCarries();
  if (auto loop = dyn_cast<blurt::LoopOp>(block->getParentOp()))
    return number >= 1 && number <= loop.getCarries().size();
  return false;
}

Value blutrain::accumulateGemm(Lowering &l, Value product, Value addend,
                               bool ownsAddend) {
  if (product == addend)
    return {};
  Value gemmResult = product;
  while (auto reshape = gemmResult.getDefiningOp<blurt::ReshapeOp>()) {
    gemmResult = reshape.getSource();
    if (!gemmResult.hasOneUse())
      return {};
  }
  auto gemm = gemmResult.getDefiningOp<GemmOp>();
  if (!gemm || gemm.getC() ||
      gemm->getBlock() != l.builder.getInsertionBlock() ||
      elementType(gemmResult).isBF16())
    return {};
  if (!ownsAddend && !isOverwritable(addend, l.builder.getInsertionBlock()))
    return {};
  Value c = l.reshape(addend, tensorType(gemmResult).getShape());
  auto sum =
      GemmOp::create(l.builder, gemm.getLoc(), TypeRange(gemmResult.getType()),
                     gemm.getA(), gemm.getB(), c, /*bias=*/Value(),
                     ValueRange(), gemm.getTransA(), gemm.getTransB());
  return l.reshape(sum.getResult(0), tensorType(product).getShape());
}

void blutrain::addMatmulLowerings(LoweringTable &table) {
  table.add(lowerMatmul);
  table.add(lowerLinear);
}
