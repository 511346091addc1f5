//===- Tensor.h - values of the interpreter ---------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A tensor as the interpreter holds it: row-major, floats of every element type
// as double, integers and truth values as int64_t.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_INTERPRETER_TENSOR_H
#define BLUTRAIN_INTERPRETER_TENSOR_H

#include "mlir/IR/BuiltinTypes.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <vector>

namespace blutrain {

struct Tensor {
  Tensor() = default;
  /// Zeros.
  Tensor(llvm::ArrayRef<int64_t> shape, mlir::Type elementType);
  static Tensor scalar(mlir::Type elementType, double value);
  static Tensor scalar(mlir::Type elementType, int64_t value);

  bool isFloat() const { return llvm::isa<mlir::FloatType>(elementType); }
  int64_t rank() const { return shape.size(); }
  int64_t size() const { return isFloat() ? floats.size() : ints.size(); }
  mlir::RankedTensorType type() const {
    return mlir::RankedTensorType::get(shape, elementType);
  }

  /// Position of the element of that index.
  int64_t offset(llvm::ArrayRef<int64_t> index) const;
  /// Position of the element that `index`, of a shape that this one broadcasts
  /// to, reads: aligned at the last dim, 0 along dims of 1.
  int64_t broadcastOffset(llvm::ArrayRef<int64_t> index) const;

  double &at(llvm::ArrayRef<int64_t> index) { return floats[offset(index)]; }
  double at(llvm::ArrayRef<int64_t> index) const {
    return floats[offset(index)];
  }
  /// Element `to` becomes element `from` of another tensor of the same type of
  /// elements.
  void copyElement(int64_t to, const Tensor &other, int64_t from);

  llvm::SmallVector<int64_t> shape;
  mlir::Type elementType;
  /// The elements of a float tensor, else empty.
  std::vector<double> floats;
  /// The elements of an integer tensor, else empty.
  std::vector<int64_t> ints;
};

/// Calls `body` on each index of `shape` in row-major order: a loop nest of the
/// shape's rank.
void forEachIndex(llvm::ArrayRef<int64_t> shape,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> body);

/// Number of elements of a static shape.
int64_t elementCount(llvm::ArrayRef<int64_t> shape);

/// `value` rounded to nearest even in a float type, once.
double roundTo(mlir::Type elementType, double value);
/// `value` modulo 2^bits in an integer type; i1 is 0 or 1.
int64_t wrapTo(mlir::Type elementType, int64_t value);

} // namespace blutrain

#endif // BLUTRAIN_INTERPRETER_TENSOR_H
