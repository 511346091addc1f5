//===- Tensor.cpp - values of the interpreter -----------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Interpreter/Tensor.h"

using namespace mlir;
using namespace blutrain;

int64_t blutrain::elementCount(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

Tensor::Tensor(ArrayRef<int64_t> shape, Type elementType)
    : shape(shape), elementType(elementType) {
  if (isFloat())
    floats.resize(elementCount(shape));
  else
    ints.resize(elementCount(shape));
}

Tensor Tensor::scalar(Type elementType, double value) {
  Tensor tensor({}, elementType);
  tensor.floats[0] = value;
  return tensor;
}

Tensor Tensor::scalar(Type elementType, int64_t value) {
  Tensor tensor({}, elementType);
  tensor.ints[0] = value;
  return tensor;
}

int64_t Tensor::offset(ArrayRef<int64_t> index) const {
  assert(index.size() == shape.size());
  int64_t position = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    position = position * shape[i] + index[i];
  return position;
}

int64_t Tensor::broadcastOffset(ArrayRef<int64_t> index) const {
  assert(index.size() >= shape.size());
  index = index.take_back(shape.size());
  int64_t position = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    position = position * shape[i] + (shape[i] == 1 ? 0 : index[i]);
  return position;
}

void Tensor::copyElement(int64_t to, const Tensor &other, int64_t from) {
  if (isFloat())
    floats[to] = other.floats[from];
  else
    ints[to] = other.ints[from];
}

void blutrain::forEachIndex(ArrayRef<int64_t> shape,
                            function_ref<void(ArrayRef<int64_t>)> body) {
  if (elementCount(shape) == 0)
    return;
  SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    body(index);
    // Count up, the last dim first.
    int64_t dim = shape.size() - 1;
    while (dim >= 0 && ++index[dim] == shape[dim])
      index[dim--] = 0;
    if (dim < 0)
      return;
  }
}

double blutrain::roundTo(Type elementType, double value) {
  auto type = cast<FloatType>(elementType);
  if (type.isF64())
    return value;
  if (type.isF32())
    return float(value);
  APFloat number(value);
  bool losesInfo;
  number.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  return number.convertToDouble();
}

int64_t blutrain::wrapTo(Type elementType, int64_t value) {
  if (elementType.isInteger(1))
    return value & 1;
  if (elementType.isInteger(32))
    return int32_t(value);
  return value;
}
