//===- GemmProblem.h - a product as BLAS libraries see it -----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_GEMMPROBLEM_H
#define BLUTRAIN_LIB_CODEGEN_GEMMPROBLEM_H

#include "Blurt/BlurtDialect.h"

namespace mlir::blurt {

/// A stored matrix: row-major rows × columns, or transposed.
struct StoredMatrix {
  bool transposed = false;
  int64_t rows, columns; ///< of the memref's dims, before `transposed`
  int64_t ld = 1;        ///< elements between rows as stored
  int64_t batch = 1, stride = 0;
};

/// C[b] = op(A[b]) · op(B[b]) with C row-major m×n, A and B stored row-major
/// and transposed where the flags say so.
struct GemmProblem {
  bool transA, transB;
  int64_t batch, m, n, k;
  StoredMatrix a, b, c; ///< strides are 0 if there is no batch
  Value aValue, bValue; ///< the memrefs of A and B, in this order

  /// `op` is in memref form.
  static GemmProblem get(GemmOp op);
};

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_GEMMPROBLEM_H
