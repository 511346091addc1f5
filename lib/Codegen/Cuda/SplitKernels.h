//===- SplitKernels.h - products of operands in pieces --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A product of the policy `fp32tc` is a series of kernels: the maxima of A's
// rows and B's columns; their scales, powers of two; the pieces of the scaled
// elements; the product of the pieces, in parts of the depth; and their sum.
//
// There are two formats. That of two fp16 pieces takes three products and holds
// an element to 22 bits if it is no less than about 2^-17 of its row's
// maximum. Where a row has many smaller ones, a flag is set, and of the second
// pair of kernels the one that makes three bf16 pieces and the one that takes
// their six products do the work, while those of the first format return. What
// is not deep has no kernels of the first format.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_CUDA_SPLITKERNELS_H
#define BLUTRAIN_LIB_CODEGEN_CUDA_SPLITKERNELS_H

#include "DeviceBuilder.h"
#include "blutrain/Analysis/SplitProducts.h"

namespace mlir::blurt {

/// Where an operand's f32 elements lie.
struct SplitSource {
  blutrain::SplitOperand operand;
  int64_t ld = 1;       ///< elements from one line of memory to the next
  int64_t stride = 0;   ///< from one batch entry to the next
  bool chunked = false; ///< lines can be read 16 bytes at a time
};

struct SplitShape {
  blutrain::SplitProduct product;
  SplitSource a, b;
  int64_t ldc = 1, strideC = 0;
  bool hasBias = false, accumulates = false;
  int64_t alignmentC = 4; ///< bytes, of the address of C
};

/// Exponent that the maximum of a row is scaled to, so that fp16 holds it and
/// what it is rounded to.
inline constexpr int32_t kScaledExponent = 14;
/// Scaled elements below two to this lose places in two fp16 pieces.
inline constexpr int32_t kSmallExponent = -3;

enum class SplitFormat { Half, Bfloat };
inline int32_t getNumPlanes(SplitFormat format) {
  return format == SplitFormat::Half ? 2 : 3;
}

/// `value` times the two pairs of factors. Of each pair one goes into a factor
/// of half the exponent of all four: no product on the way is out of range
/// whose end is not.
Value unscale(DeviceBuilder &b, Value value, Value ofRow,
              ArrayRef<Value> ofColumn);

/// What every emitter is told.
struct SplitEmission {
  gpu::GPUModuleOp module;
  Location loc;
  StringRef name;
  const SplitShape &shape;
};
/// Of operands that do not lie along the depth; there is one. Operands: A, B,
/// their maxima.
DeviceLaunch emitSplitMaxima(const SplitEmission &emission);
/// Of the same. Operands: maxima of A and B, their scales, the flag, which is
/// cleared.
DeviceLaunch emitSplitScales(const SplitEmission &emission);
/// Operands: A, B, their scales, their planes, the flag. The first such kernel
/// of a product makes the scales of what lies along the depth.
DeviceLaunch emitSplitPlanes(const SplitEmission &emission, SplitFormat format);
/// Operands: planes of A and B, A, B, their scales, the flag, the counters, C
/// or the partial products, and the bias, if there is one and no parts.
DeviceLaunch emitSplitProduct(const SplitEmission &emission,
                              SplitFormat format);
/// Operands: the partial products, C, the scales of A and B, and the bias, if
/// there is one.
DeviceLaunch emitSplitSum(const SplitEmission &emission);

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_CUDA_SPLITKERNELS_H
