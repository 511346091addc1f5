//===- ArenaView.cpp - strided boxes of bytes inside a storage ------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Analysis/ArenaView.h"

#include "Blurt/BlurtDialect.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace blutrain;
using llvm::ArrayRef;
using llvm::SmallVector;

static SmallVector<int64_t, 4> rowMajorStrides(ArrayRef<int64_t> shape,
                                               int64_t elementBytes) {
  SmallVector<int64_t, 4> strides(shape.size());
  int64_t stride = elementBytes;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape[i];
  }
  return strides;
}

ArenaView ArenaView::contiguous(unsigned storage, mlir::ShapedType type) {
  ArenaView view;
  view.storage = storage;
  view.elementBytes = mlir::blurt::getElementBytes(type.getElementType());
  view.shape.assign(type.getShape().begin(), type.getShape().end());
  view.strides = rowMajorStrides(view.shape, view.elementBytes);
  return view;
}

ArenaView ArenaView::padded(unsigned storage, mlir::ShapedType type,
                            int64_t alignment) {
  ArenaView view = contiguous(storage, type);
  if (view.shape.empty())
    return view;
  int64_t step =
      llvm::alignTo(view.shape.back() * view.elementBytes, alignment);
  for (size_t i = view.shape.size() - 1; i-- > 0;) {
    view.strides[i] = step;
    step *= view.shape[i];
  }
  return view;
}

bool ArenaView::isContiguous() const {
  SmallVector<int64_t, 4> packed = rowMajorStrides(shape, elementBytes);
  return llvm::all_of(llvm::seq<size_t>(0, shape.size()), [&](size_t i) {
    return shape[i] == 1 || strides[i] == packed[i];
  });
}

ArenaView ArenaView::transposed(ArrayRef<int64_t> permutation) const {
  ArenaView result = *this;
  for (auto [i, dim] : llvm::enumerate(permutation)) {
    result.shape[i] = shape[dim];
    result.strides[i] = strides[dim];
  }
  return result;
}

ArenaView ArenaView::untransposed(ArrayRef<int64_t> permutation) const {
  ArenaView result = *this;
  for (auto [i, dim] : llvm::enumerate(permutation)) {
    result.shape[dim] = shape[i];
    result.strides[dim] = strides[i];
  }
  return result;
}

ArenaView ArenaView::sliced(ArrayRef<int64_t> offsets,
                            ArrayRef<int64_t> sizes) const {
  ArenaView result = *this;
  result.shape.assign(sizes.begin(), sizes.end());
  for (auto [begin, stride] : llvm::zip_equal(offsets, strides))
    result.offset += begin * stride;
  return result;
}

std::optional<ArenaView> ArenaView::reshaped(ArrayRef<int64_t> newShape) const {
  // Extents and strides without dims of extent 1.
  SmallVector<int64_t, 4> oldShape, oldStrides;
  for (auto [extent, stride] : llvm::zip_equal(shape, strides))
    if (extent != 1) {
      oldShape.push_back(extent);
      oldStrides.push_back(stride);
    }
  ArenaView result = *this;
  result.shape.assign(newShape.begin(), newShape.end());
  result.strides.assign(newShape.size(), 0);
  // Match the shortest groups of dims with equal products; each old group must
  // be one contiguous run of its innermost stride.
  size_t oldPos = 0, newPos = 0;
  while (oldPos < oldShape.size()) {
    size_t oldEnd = oldPos + 1, newEnd = newPos;
    int64_t oldSize = oldShape[oldPos], newSize = 1;
    while (oldSize != newSize) {
      if (newSize < oldSize) {
        if (newEnd == newShape.size())
          return std::nullopt;
        newSize *= newShape[newEnd++];
      } else {
        if (oldEnd == oldShape.size())
          return std::nullopt;
        oldSize *= oldShape[oldEnd++];
      }
    }
    for (size_t i = oldPos; i + 1 < oldEnd; ++i)
      if (oldStrides[i] != oldStrides[i + 1] * oldShape[i + 1])
        return std::nullopt;
    int64_t stride = oldStrides[oldEnd - 1];
    for (size_t i = newEnd; i-- > newPos;) {
      result.strides[i] = stride;
      stride *= newShape[i];
    }
    oldPos = oldEnd;
    newPos = newEnd;
  }
  // What is left has extent 1.
  for (size_t i = newShape.size(); i-- > newPos;)
    result.strides[i] = elementBytes;
  return result;
}

ArenaView ArenaView::element(mlir::blurt::LoopOp loop) const {
  ArenaView result = element(0);
  result.terms.push_back(
      {loop.getOperation(), static_cast<int64_t>(loop.getCount()), strides[0]});
  return result;
}

ArenaView ArenaView::ringElement(mlir::blurt::LoopOp loop) const {
  ArenaView result = element(0);
  result.terms.push_back(
      {loop.getOperation(), shape[0], strides[0], /*isRing=*/true});
  return result;
}

ArenaView ArenaView::leading(int64_t first, int64_t count) const {
  ArenaView result = *this;
  result.offset += first * strides[0];
  result.shape[0] = count;
  return result;
}

ArenaView ArenaView::element(int64_t index) const {
  ArenaView result = leading(index, 1);
  result.shape.erase(result.shape.begin());
  result.strides.erase(result.strides.begin());
  return result;
}

bool ArenaView::samePlace(const ArenaView &other) const {
  if (storage != other.storage || offset != other.offset ||
      elementBytes != other.elementBytes || terms != other.terms ||
      shape != other.shape)
    return false;
  return llvm::all_of(llvm::seq<size_t>(0, shape.size()), [&](size_t i) {
    return shape[i] == 1 || strides[i] == other.strides[i];
  });
}

std::pair<int64_t, int64_t> ArenaView::getBaseRange() const {
  int64_t last = offset;
  for (auto [extent, stride] : llvm::zip_equal(shape, strides))
    last += (extent - 1) * stride;
  return {offset, last + elementBytes};
}

std::pair<int64_t, int64_t> ArenaView::getByteRange() const {
  auto [begin, end] = getBaseRange();
  for (const Term &term : terms)
    end += (term.count - 1) * term.step;
  return {begin, end};
}

bool ArenaView::disjointModulo(const ArenaView &other, int64_t modulus) const {
  // Both views, seen modulo `modulus`, are one run of bytes each if every
  // stride is either a multiple or stays within.
  auto inner = [&](const ArenaView &view) -> int64_t {
    int64_t span = view.elementBytes;
    auto add = [&](int64_t extent, int64_t stride) {
      if (extent == 1 || stride % modulus == 0)
        return;
      span += (extent - 1) * stride;
    };
    for (auto [extent, stride] : llvm::zip_equal(view.shape, view.strides))
      add(extent, stride);
    for (const Term &term : view.terms)
      add(term.count, term.step);
    return span;
  };
  int64_t mine = inner(*this), theirs = inner(other);
  int64_t from = offset % modulus, to = other.offset % modulus;
  // Neither may wrap around.
  if (from + mine > modulus || to + theirs > modulus)
    return false;
  return from + mine <= to || to + theirs <= from;
}

bool ArenaView::disjoint(const ArenaView &other) const {
  if (storage != other.storage)
    return true;
  auto apart = [](std::pair<int64_t, int64_t> a,
                  std::pair<int64_t, int64_t> b) {
    return a.second <= b.first || b.second <= a.first;
  };
  if (apart(getByteRange(), other.getByteRange()))
    return true;
  if (terms == other.terms && apart(getBaseRange(), other.getBaseRange()))
    return true;
  for (const ArenaView *view : {this, &other}) {
    for (auto [extent, stride] : llvm::zip_equal(view->shape, view->strides))
      if (extent != 1 && disjointModulo(other, stride))
        return true;
    for (const Term &term : view->terms)
      if (disjointModulo(other, term.step))
        return true;
  }
  return false;
}

bool ArenaView::within(const ArenaView &other) const {
  if (storage != other.storage || terms != other.terms)
    return false;
  if (samePlace(other))
    return true;
  auto [begin, end] = getBaseRange();
  auto [otherBegin, otherEnd] = other.getBaseRange();
  return other.isContiguous() && otherBegin <= begin && end <= otherEnd;
}
