//===- PadVocabulary.cpp - an aligned number of columns of logits ---------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"

#include "Blu/BluSupport.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

namespace blutrain {
#define GEN_PASS_DEF_PADVOCABULARYPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;

/// Libraries read 16 bytes at a time, 8 elements of bf16.
static constexpr int64_t alignedClasses = 8;
/// There are at least so many classes for each column of padding.
static constexpr int64_t classesPerPadding = 16;

static int64_t lastDim(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape().back();
}

/// The shape of `value` with `columns` for the last dim.
static SmallVector<int64_t> withColumns(Value value, int64_t columns) {
  SmallVector<int64_t> shape(
      cast<RankedTensorType>(value.getType()).getShape());
  shape.back() = columns;
  return shape;
}

/// The product that `logits` are the result of, under reshapes that keep rows
/// whole, or null.
static Operation *findProduct(Value logits) {
  while (auto reshape = logits.getDefiningOp<ReshapeOp>()) {
    if (reshape.getInput().getType().getRank() < 1 ||
        lastDim(reshape.getInput()) != lastDim(logits))
      return nullptr;
    logits = reshape.getInput();
  }
  if (auto linear = logits.getDefiningOp<LinearOp>())
    return linear;
  auto matmul = logits.getDefiningOp<MatmulOp>();
  bool isWeight =
      matmul &&
      cast<RankedTensorType>(matmul.getRhs().getType()).getRank() == 2 &&
      cast<RankedTensorType>(matmul.getLhs().getType()).getRank() >= 2;
  return isWeight ? matmul : nullptr;
}

/// `value` followed by zeros along `dim`.
static Value append(OpBuilder &b, Location loc, Value value, int64_t dim,
                    int64_t count) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = count;
  Value zeros = GradBuilder(b, loc).zeros(
      RankedTensorType::get(shape, type.getElementType()));
  return ConcatOp::create(b, loc, dim, ValueRange{value, zeros});
}

/// The product with `columns` columns.
static Value buildPadded(OpBuilder &b, Operation *product, int64_t columns) {
  Location loc = product->getLoc();
  int64_t count = columns - lastDim(product->getResult(0));
  if (auto linear = dyn_cast<LinearOp>(product)) {
    Value bias = linear.getBias();
    if (bias)
      bias = append(b, loc, bias, 0, count);
    return LinearOp::create(b, loc, linear.getInput(),
                            append(b, loc, linear.getWeight(), 0, count), bias,
                            linear.getWide());
  }
  auto matmul = cast<MatmulOp>(product);
  Value weight =
      append(b, loc, matmul.getRhs(), matmul.getTransB() ? 0 : 1, count);
  return MatmulOp::create(b, loc, matmul.getLhs(), weight, matmul.getTransA(),
                          matmul.getTransB(), matmul.getWide());
}

/// Lets what reads `logits` read `padded` instead.
static void replaceLogits(Value logits, Value padded) {
  int64_t classes = lastDim(logits), columns = lastDim(padded);
  SmallVector<OpOperand *> others;
  for (OpOperand &use : llvm::make_early_inc_range(logits.getUses())) {
    auto loss = dyn_cast<CrossEntropyOp>(use.getOwner());
    auto reshape = dyn_cast<ReshapeOp>(use.getOwner());
    if (loss && !loss.getClasses()) {
      loss.getLogitsMutable().assign(padded);
      loss.setClasses(classes);
    } else if (reshape && reshape.getType().getRank() > 0 &&
               lastDim(reshape) == classes) {
      OpBuilder b(reshape);
      auto wider = ReshapeOp::create(b, reshape.getLoc(), padded,
                                     withColumns(reshape, columns));
      replaceLogits(reshape, wider);
      reshape.erase();
    } else {
      others.push_back(&use);
    }
  }
  if (others.empty())
    return;
  OpBuilder b(padded.getContext());
  b.setInsertionPointAfterValue(padded);
  Value slice =
      SliceOp::create(b, padded.getLoc(), padded,
                      GradBuilder::type(padded).getRank() - 1, 0, classes);
  for (OpOperand *use : others)
    use->set(slice);
}

namespace {
struct PadVocabulary : blutrain::impl::PadVocabularyPassBase<PadVocabulary> {
  using PadVocabularyPassBase::PadVocabularyPassBase;

  void runOnOperation() override {
    if (multiple < 0) {
      getOperation().emitError()
          << "multiple is " << int64_t(multiple) << ", expected at least 0";
      return signalPassFailure();
    }
    if (multiple == 0)
      return;
    llvm::SetVector<Operation *> products;
    getOperation().walk([&](CrossEntropyOp loss) {
      if (Operation *product = findProduct(loss.getLogits()))
        products.insert(product);
    });
    for (Operation *product : products) {
      Value logits = product->getResult(0);
      if (!cast<RankedTensorType>(logits.getType()).hasStaticShape())
        continue;
      int64_t classes = lastDim(logits);
      int64_t columns = llvm::alignTo(classes, multiple);
      if (classes % alignedClasses == 0 || columns == classes ||
          (columns - classes) * classesPerPadding > classes)
        continue;
      OpBuilder b(product);
      replaceLogits(logits, buildPadded(b, product, columns));
      product->erase();
      ++numPadded;
    }
  }
};
} // namespace
