//===- FusionViews.h - what views of a value strides express ----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CONVERSION_FUSIONVIEWS_H
#define BLUTRAIN_LIB_CONVERSION_FUSIONVIEWS_H

#include "Blurt/BlurtDialect.h"

namespace blutrain {

/// Strides, in elements, of `value` as a view of the value that it is a chain
/// of reshapes, transposes and slices of.
llvm::SmallVector<int64_t> getViewStrides(mlir::Value value);

/// Whether strides express `value` under another shape of as many elements.
bool isReshapeView(mlir::Value value, llvm::ArrayRef<int64_t> shape);

/// Whether one of the last two dims of `value` has stride 1, as a GEMM needs.
bool isMatrixView(mlir::Value value);

} // namespace blutrain

#endif // BLUTRAIN_LIB_CONVERSION_FUSIONVIEWS_H
