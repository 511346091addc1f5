//===- TuneFile.h - Algorithms of products in a file ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// JSON: `device`, `cublaslt` and `plan_hash` say where and for what the command
// `tune` ran, `problems` has for each product a `problem`, what makes two
// products the same to the library, and an `algorithm`, the library's own
// description in hexadecimal digits. Nothing here needs the library.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_CUDA_TUNEFILE_H
#define BLURT_LIB_CUDA_TUNEFILE_H

#include "Abi.h"
#include "blurt/Json.h"
#include "blurt/blurt.h"

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace blurt {

class TuneFile {
public:
  /// Throws Error (bad input), naming `path`, if `text` is no such file. The
  /// text outlives the object.
  TuneFile(const std::string &path, std::string_view text);

  /// "nothing" if the file does not say.
  std::string device() const { return member("device"); }
  std::string library() const { return member("cublaslt"); }
  std::optional<cuda::Algorithm> find(const blurt_device_gemm &product) const;

private:
  std::string member(std::string_view key) const;

  JsonTable members;
};

/// What makes two products the same problem to the library.
nlohmann::ordered_json productKey(const blurt_device_gemm &gemm);

std::string algorithmText(const cuda::Algorithm &algorithm);

} // namespace blurt

#endif // BLURT_LIB_CUDA_TUNEFILE_H
