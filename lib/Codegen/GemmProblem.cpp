//===- GemmProblem.cpp - a product as BLAS libraries see it ---*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "GemmProblem.h"

using namespace mlir;
using namespace mlir::blurt;

static StoredMatrix getMatrix(Value value) {
  auto type = cast<MemRefType>(value.getType());
  auto [strides, offset] = type.getStridesAndOffset();
  unsigned first = type.getRank() - 2;
  StoredMatrix matrix;
  matrix.rows = type.getDimSize(first);
  matrix.columns = type.getDimSize(first + 1);
  int64_t rowStride = strides[first], columnStride = strides[first + 1];
  // An extent of 1 makes its stride meaningless.
  if (columnStride == 1 || matrix.columns == 1) {
    if (matrix.columns == 1 && matrix.rows > 1 && rowStride == 1)
      matrix.ld = 1;
    else
      matrix.ld = matrix.rows == 1 ? matrix.columns : rowStride;
  } else {
    matrix.transposed = true;
    matrix.ld = matrix.columns == 1 ? matrix.rows : columnStride;
  }
  matrix.ld =
      std::max(matrix.ld, matrix.transposed ? matrix.rows : matrix.columns);
  if (type.getRank() == 3 && type.getDimSize(0) != 1) {
    matrix.batch = type.getDimSize(0);
    matrix.stride = strides[0];
  }
  return matrix;
}

GemmProblem GemmProblem::get(GemmOp op) {
  GemmProblem p;
  p.a = getMatrix(op.getA());
  p.b = getMatrix(op.getB());
  p.c = getMatrix(op.getOuts()[0]);
  p.aValue = op.getA();
  p.bValue = op.getB();
  p.transA = op.getTransA() != p.a.transposed;
  p.transB = op.getTransB() != p.b.transposed;
  p.m = op.getTransA() ? p.a.columns : p.a.rows;
  p.k = op.getTransA() ? p.a.rows : p.a.columns;
  p.n = op.getTransB() ? p.b.rows : p.b.columns;
  p.batch = p.c.batch;

  // A batch of row blocks with one right-hand side is one tall product.
  if (p.batch > 1 && p.b.batch == 1 && p.a.batch == p.batch && !p.transA &&
      !p.c.transposed && p.a.stride == p.m * p.a.ld &&
      p.c.stride == p.m * p.c.ld) {
    p.m *= p.batch;
    p.batch = 1;
  }
  if (p.c.transposed) {
    // C' = op(B)' op(A)'.
    std::swap(p.a, p.b);
    std::swap(p.aValue, p.bValue);
    std::swap(p.transA, p.transB);
    p.transA = !p.transA;
    p.transB = !p.transB;
    std::swap(p.m, p.n);
  }
  if (p.batch == 1)
    p.a.stride = p.b.stride = p.c.stride = 0;
  return p;
}
