//===- TensorFile.h - safetensors without exceptions ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// The runtime's reader and writer throw; compiler code does not. This wraps
// them. Plain C++: the implementation is compiled with exceptions.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_INTERPRETER_TENSORFILE_H
#define BLUTRAIN_INTERPRETER_TENSORFILE_H

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace blutrain {

/// A tensor as it lies in a file: little-endian, row-major.
struct StoredTensor {
  std::string dtype; ///< as spelled in the file: F64, I32, …
  std::vector<int64_t> shape;
  std::vector<char> bytes;
};

using StoredTensors = std::map<std::string, StoredTensor>;

/// Reads all tensors of a file. Returns an empty string, or what is wrong with
/// the file, which it names.
std::string readTensorFile(const std::string &path, StoredTensors &tensors);

/// Writes tensors in order; the file appears complete or not at all. Returns an
/// empty string, or what went wrong.
std::string writeTensorFile(
    const std::string &path,
    const std::vector<std::pair<std::string, StoredTensor>> &tensors);

} // namespace blutrain

#endif // BLUTRAIN_INTERPRETER_TENSORFILE_H
