//===- FusionViews.cpp - folding views ------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "FusionViews.h"
#include "blutrain/Conversion/Passes.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace blutrain {
#define GEN_PASS_DEF_CANONICALIZEVIEWS
#include "blutrain/Conversion/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace blutrain;
using blurt::GroupOp;

//===----------------------------------------------------------------------===//
// Strides
//===----------------------------------------------------------------------===//

static SmallVector<int64_t> contiguousStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (int64_t i = shape.size() - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Strides under `newShape`, or none if it cuts through a jump.
static std::optional<SmallVector<int64_t>>
reshapeStrides(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
               ArrayRef<int64_t> newShape) {
  // Runs of dims that lie as one, from the innermost.
  struct Run {
    int64_t extent, stride;
  };
  SmallVector<Run> runs;
  for (int64_t i = shape.size() - 1; i >= 0; --i) {
    if (shape[i] == 1)
      continue;
    if (!runs.empty() && strides[i] == runs.back().stride * runs.back().extent)
      runs.back().extent *= shape[i];
    else
      runs.push_back({shape[i], strides[i]});
  }
  SmallVector<int64_t> result(newShape.size(), 1);
  size_t run = 0;
  int64_t left = runs.empty() ? 1 : runs[0].extent;
  for (int64_t i = newShape.size() - 1; i >= 0; --i) {
    if (newShape[i] == 1)
      continue;
    if (left == 1 && run + 1 < runs.size())
      left = runs[++run].extent;
    if (runs.empty() || left % newShape[i] != 0)
      return std::nullopt;
    result[i] = runs[run].stride * (runs[run].extent / left);
    left /= newShape[i];
  }
  return result;
}

SmallVector<int64_t> blutrain::getViewStrides(Value value) {
  if (auto transpose = value.getDefiningOp<blurt::TransposeOp>()) {
    SmallVector<int64_t> source = getViewStrides(transpose.getSource());
    SmallVector<int64_t> strides;
    for (int64_t dim : transpose.getPermutation())
      strides.push_back(source[dim]);
    return strides;
  }
  if (auto slice = value.getDefiningOp<blurt::SliceOp>())
    return getViewStrides(slice.getSource());
  if (auto reshape = value.getDefiningOp<blurt::ReshapeOp>())
    if (auto strides =
            reshapeStrides(shapeOf(reshape.getSource()),
                           getViewStrides(reshape.getSource()), shapeOf(value)))
      return *strides;
  return contiguousStrides(shapeOf(value));
}

bool blutrain::isReshapeView(Value value, ArrayRef<int64_t> shape) {
  return reshapeStrides(shapeOf(value), getViewStrides(value), shape)
      .has_value();
}

bool blutrain::isMatrixView(Value value) {
  SmallVector<int64_t> strides = getViewStrides(value);
  ArrayRef<int64_t> shape = shapeOf(value);
  for (size_t i = shape.size() - 2; i < shape.size(); ++i)
    if (strides[i] == 1 || shape[i] == 1)
      return true;
  return false;
}

//===----------------------------------------------------------------------===//
// Views of views
//===----------------------------------------------------------------------===//

namespace {
struct FoldTranspose : OpRewritePattern<blurt::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(blurt::TransposeOp op,
                                PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> permutation = op.getPermutation();
    if (auto inner = op.getSource().getDefiningOp<blurt::TransposeOp>()) {
      SmallVector<int64_t> composed;
      for (int64_t dim : permutation)
        composed.push_back(inner.getPermutation()[dim]);
      rewriter.replaceOpWithNewOp<blurt::TransposeOp>(
          op, op.getType(), inner.getSource(), composed);
      return success();
    }
    // Dims of extent 1 may move freely.
    int64_t previous = -1;
    for (int64_t dim : permutation) {
      if (shapeOf(op.getSource())[dim] == 1)
        continue;
      if (dim < previous)
        return failure();
      previous = dim;
    }
    if (op.getType() == op.getSource().getType())
      rewriter.replaceOp(op, op.getSource());
    else
      rewriter.replaceOpWithNewOp<blurt::ReshapeOp>(op, op.getType(),
                                                    op.getSource());
    return success();
  }
};

struct FoldSlice : OpRewritePattern<blurt::SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(blurt::SliceOp op,
                                PatternRewriter &rewriter) const override {
    if (op.getType() == op.getSource().getType()) {
      rewriter.replaceOp(op, op.getSource());
      return success();
    }
    auto inner = op.getSource().getDefiningOp<blurt::SliceOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> offsets;
    for (auto [a, b] : llvm::zip_equal(op.getOffsets(), inner.getOffsets()))
      offsets.push_back(a + b);
    rewriter.replaceOpWithNewOp<blurt::SliceOp>(op, op.getType(),
                                                inner.getSource(), offsets);
    return success();
  }
};

struct FoldReshape : OpRewritePattern<blurt::ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(blurt::ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    Value source = op.getSource();
    if (op.getType() == source.getType()) {
      rewriter.replaceOp(op, source);
      return success();
    }
    auto inner = source.getDefiningOp<blurt::ReshapeOp>();
    if (!inner)
      return failure();
    rewriter.replaceOpWithNewOp<blurt::ReshapeOp>(op, op.getType(),
                                                  inner.getSource());
    return success();
  }
};

//===----------------------------------------------------------------------===//
// Views at the borders of groups
//===----------------------------------------------------------------------===//

/// The group reads what is transposed through another map.
struct FoldTransposeIntoInput : OpRewritePattern<GroupOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(GroupOp op,
                                PatternRewriter &rewriter) const override {
    bool changed = false;
    SmallVector<AffineMap> maps;
    SmallVector<Value> inputs(op.getInputs());
    for (unsigned i = 0; i < inputs.size(); ++i) {
      AffineMap map = op.getInputMap(i);
      if (auto transpose = inputs[i].getDefiningOp<blurt::TransposeOp>()) {
        SmallVector<AffineExpr> results(map.getNumResults());
        for (auto [to, from] : llvm::enumerate(transpose.getPermutation()))
          results[from] = map.getResult(to);
        map = AffineMap::get(map.getNumDims(), 0, results, op.getContext());
        inputs[i] = transpose.getSource();
        changed = true;
      }
      maps.push_back(map);
    }
    if (!changed)
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getInputsMutable().assign(inputs);
      op.setInputMapsAttr(rewriter.getAffineMapArrayAttr(maps));
    });
    return success();
  }
};

/// A group whose result is only read transposed writes it that way.
struct FoldTransposeIntoOutput : OpRewritePattern<blurt::TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(blurt::TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto result = dyn_cast<OpResult>(op.getSource());
    auto group = op.getSource().getDefiningOp<GroupOp>();
    if (!group || !result.hasOneUse() || group->getBlock() != op->getBlock())
      return failure();
    // A GEMM reads a transposed matrix as well as a plain one.
    if (llvm::any_of(op->getUsers(),
                     [](Operation *user) { return isa<blurt::GemmOp>(user); }))
      return failure();
    unsigned number = result.getResultNumber();
    SmallVector<AffineMap> maps;
    for (unsigned i = 0; i < group.getNumResults(); ++i)
      maps.push_back(group.getOutputMap(i));
    SmallVector<AffineExpr> results;
    for (int64_t dim : op.getPermutation())
      results.push_back(maps[number].getResult(dim));
    maps[number] =
        AffineMap::get(maps[number].getNumDims(), 0, results, op.getContext());
    rewriter.modifyOpInPlace(group, [&] {
      group.setOutputMapsAttr(rewriter.getAffineMapArrayAttr(maps));
      result.setType(op.getType());
    });
    rewriter.replaceOp(op, result);
    return success();
  }
};

struct CanonicalizeViews
    : public blutrain::impl::CanonicalizeViewsBase<CanonicalizeViews> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FoldTranspose, FoldSlice, FoldReshape, FoldTransposeIntoInput,
                 FoldTransposeIntoOutput>(&getContext());
    auto count = [&] {
      int64_t views = 0;
      getOperation()->walk([&](Operation *op) {
        views += isa<blurt::ReshapeOp, blurt::TransposeOp, blurt::SliceOp>(op);
      });
      return views;
    };
    int64_t before = count();
    GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    config.enableConstantCSE(false);
    if (failed(
            applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      return signalPassFailure();
    numFolded += before - count();
  }
};
} // namespace
