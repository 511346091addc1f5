//===- Products.h - Matrix products through cuBLASLt ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// cuBLASLt thinks in columns: a row-major matrix is its transpose there, so
// C = A·B becomes Cᵀ = Bᵀ·Aᵀ and the operands change places. A bias along n
// then runs down the columns, as its epilogue has it.
//
// Algorithms are chosen without timing anything: the first that the library's
// heuristic proposes among those that fit the workspace and never add in an
// order that varies or in less than FP32.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_CUDA_PRODUCTS_H
#define BLURT_LIB_CUDA_PRODUCTS_H

#include "Abi.h"
#include "blurt/Cuda.h"

#include <string_view>
#include <vector>

namespace blurt {

class CudaProducts {
public:
  /// `workspace` is device memory of `workspaceBytes` bytes.
  CudaProducts(CudaDevice &device, const blurt_device_code &code,
               void *workspace, uint64_t workspaceBytes);
  ~CudaProducts();
  CudaProducts(const CudaProducts &) = delete;
  CudaProducts &operator=(const CudaProducts &) = delete;

  /// Takes the heuristic's choice for every product without an algorithm yet.
  void choose();
  /// Takes the algorithms of a file that `tune` wrote; returns how many.
  int take(const std::string &path, std::string_view text);

  /// What the heuristic proposes for a product, the best first.
  std::vector<cuda::Candidate> candidates(int32_t index, int most) const;
  /// Those, and what becomes of them with other tiles, stages and orders of
  /// tiles, as far as the library can run it. Sums are added in the same order
  /// as in what was proposed.
  std::vector<cuda::Candidate> tileVariants(int32_t index, int most) const;
  /// The same of `of` and clusters of blocks.
  std::vector<cuda::Candidate>
  clusterVariants(int32_t index, std::vector<cuda::Candidate> of) const;
  void setAlgorithm(int32_t index, const cuda::Algorithm &algorithm);

  /// Queues a product; returns the library's status and the function at fault.
  cuda::Status run(int32_t index, const void *a, const void *b, void *c,
                   const void *extra, const char *&function) const;

  const cuda::CublasLt &library() const { return api; }
  std::string failureText(const char *function, cuda::Status status,
                          int32_t index) const;

private:
  struct Problem {
    cuda::MatmulDesc desc = nullptr;
    /// In the library's order: our B, our A, C.
    cuda::MatrixLayout first = nullptr, second = nullptr, result = nullptr;
    cuda::Preference preference = nullptr;
    cuda::Algorithm algorithm = {};
    bool chosen = false;
  };

  bool check(int32_t index, const cuda::Algorithm &algorithm,
             cuda::Candidate &checked) const;
  template <typename... P, typename... A>
  void call(const cuda::Entry<P...> &entry, int32_t index,
            A... arguments) const;
  void build(int32_t index);
  void destroy();

  CudaDevice &device;
  const blurt_device_code &code;
  const cuda::CublasLt &api;
  cuda::Handle handle = nullptr;
  std::vector<Problem> problems;
  void *workspace;
  uint64_t workspaceBytes;
};

/// "bf16[64, 768] · bf16[768, 3072] -> f32[64, 3072]".
std::string productString(const blurt_device_gemm &gemm);

/// Arithmetic operations of one product; what it reads and writes at least.
uint64_t productFlops(const blurt_device_gemm &gemm);
uint64_t productBytes(const blurt_device_gemm &gemm);

/// Random numbers in [-1, 1), the same block over and over.
void fillRandom(CudaDevice &device, std::byte *to, uint64_t bytes,
                int32_t dtype);

} // namespace blurt

#endif // BLURT_LIB_CUDA_PRODUCTS_H
