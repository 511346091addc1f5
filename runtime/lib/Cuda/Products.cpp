//===- Products.cpp - Matrix products through cuBLASLt --------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Products.h"
#include "TuneFile.h"
#include "blurt/Error.h"
#include "blurt/Program.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <optional>

using namespace blurt;

namespace {

constexpr int kProposals = 8;

cuda::DataType realType(int32_t dtype) {
  return dtype == BLURT_BF16 ? cuda::RealBf16 : cuda::RealF32;
}

} // namespace

std::string blurt::productString(const blurt_device_gemm &g) {
  auto matrix = [&](int32_t dtype, int64_t rows, int64_t columns) {
    return std::string(dtypeName(dtype)) + "[" +
           (g.batch > 1 ? std::to_string(g.batch) + ", " : "") +
           std::to_string(rows) + ", " + std::to_string(columns) + "]";
  };
  return matrix(g.dtype_ab, g.m, g.k) + (g.trans_a ? "ᵀ" : "") + " · " +
         matrix(g.dtype_ab, g.k, g.n) + (g.trans_b ? "ᵀ" : "") + " -> " +
         matrix(g.dtype_c, g.m, g.n);
}

uint64_t blurt::productFlops(const blurt_device_gemm &g) {
  return 2 * uint64_t(g.batch) * uint64_t(g.m) * uint64_t(g.n) * uint64_t(g.k);
}

uint64_t blurt::productBytes(const blurt_device_gemm &g) {
  auto matrices = [&](int64_t rows, int64_t columns, int64_t stride) {
    return uint64_t(rows) * uint64_t(columns) *
           uint64_t(stride == 0 ? 1 : g.batch);
  };
  uint64_t bytes =
      (matrices(g.m, g.k, g.stride_a) + matrices(g.k, g.n, g.stride_b)) *
      dtypeSize(g.dtype_ab);
  bytes += matrices(g.m, g.n, g.stride_c) * dtypeSize(g.dtype_c) *
           (g.accumulate ? 2 : 1);
  if (g.epilogue == BLURT_EPILOGUE_BIAS)
    bytes += uint64_t(g.n) * dtypeSize(g.dtype_extra);
  return bytes;
}

CudaProducts::CudaProducts(CudaDevice &device, const blurt_device_code &code,
                           void *workspace, uint64_t workspaceBytes)
    : device(device), code(code), api(cuda::loadCublasLt()),
      problems(size_t(code.num_gemms)), workspace(workspace),
      workspaceBytes(workspaceBytes) {
  // The library wants its workspace on a multiple of 256 bytes.
  uint64_t over = reinterpret_cast<uintptr_t>(workspace) % 256;
  if (over && workspaceBytes) {
    uint64_t skipped = std::min(256 - over, workspaceBytes);
    this->workspace = static_cast<std::byte *>(workspace) + skipped;
    this->workspaceBytes -= skipped;
  }
  try {
    call(api.Create, -1, &handle);
    for (int32_t i = 0; i < code.num_gemms; ++i)
      build(i);
  } catch (...) {
    destroy();
    throw;
  }
}

CudaProducts::~CudaProducts() { destroy(); }

void CudaProducts::destroy() {
  for (Problem &p : problems) {
    if (p.desc)
      api.MatmulDescDestroy(p.desc);
    for (cuda::MatrixLayout layout : {p.first, p.second, p.result})
      if (layout)
        api.LayoutDestroy(layout);
    if (p.preference)
      api.PreferenceDestroy(p.preference);
  }
  if (handle)
    api.Destroy(handle);
}

std::string CudaProducts::failureText(const char *function, cuda::Status status,
                                      int32_t index) const {
  std::string what;
  if (index >= 0) {
    const blurt_device_gemm &g = code.gemms[index];
    what = " (product " + productString(g) + " of " + g.source + ")";
  }
  return std::string(function) + what + " failed on " + device.description() +
         ": " + cuda::describe(api, status);
}

template <typename... P, typename... A>
void CudaProducts::call(const cuda::Entry<P...> &entry, int32_t index,
                        A... arguments) const {
  if (cuda::Status status = entry.function(arguments...))
    throw failure(failureText(entry.name, status, index));
}

void CudaProducts::build(int32_t index) {
  const blurt_device_gemm &g = code.gemms[index];
  Problem &p = problems[size_t(index)];
  call(api.MatmulDescCreate, index, &p.desc,
       g.compute == BLURT_COMPUTE_TF32 ? cuda::ComputeFastTf32
                                       : cuda::ComputeF32,
       cuda::RealF32);
  auto describe = [&](cuda::DescAttribute attribute, const auto &value) {
    call(api.MatmulDescSet, index, p.desc, attribute,
         static_cast<const void *>(&value), sizeof(value));
  };
  int32_t transposeFirst = g.trans_b ? cuda::Transpose : cuda::NoTranspose;
  int32_t transposeSecond = g.trans_a ? cuda::Transpose : cuda::NoTranspose;
  describe(cuda::DescTransA, transposeFirst);
  describe(cuda::DescTransB, transposeSecond);
  if (g.epilogue == BLURT_EPILOGUE_BIAS) {
    describe(cuda::DescEpilogue, int32_t(cuda::EpilogueBias));
    describe(cuda::DescBiasType, int32_t(realType(g.dtype_extra)));
    // Any address does until the first call.
    describe(cuda::DescBiasPointer, static_cast<const void *>(workspace));
  }
  auto layout = [&](cuda::MatrixLayout &made, int32_t dtype, int64_t rows,
                    int64_t columns, int64_t ld, int64_t stride) {
    call(api.LayoutCreate, index, &made, realType(dtype), uint64_t(rows),
         uint64_t(columns), ld);
    if (g.batch == 1)
      return;
    int32_t batch = int32_t(g.batch);
    call(api.LayoutSet, index, made, cuda::LayoutBatch,
         static_cast<const void *>(&batch), sizeof(batch));
    call(api.LayoutSet, index, made, cuda::LayoutBatchStride,
         static_cast<const void *>(&stride), sizeof(stride));
  };
  layout(p.first, g.dtype_ab, g.trans_b ? g.k : g.n, g.trans_b ? g.n : g.k,
         g.ldb, g.stride_b);
  layout(p.second, g.dtype_ab, g.trans_a ? g.m : g.k, g.trans_a ? g.k : g.m,
         g.lda, g.stride_a);
  layout(p.result, g.dtype_c, g.n, g.m, g.ldc, g.stride_c);
  call(api.PreferenceCreate, index, &p.preference);
  auto prefer = [&](cuda::PreferenceAttribute attribute, const auto &value) {
    call(api.PreferenceSet, index, p.preference, attribute,
         static_cast<const void *>(&value), sizeof(value));
  };
  prefer(cuda::PreferWorkspaceBytes, workspaceBytes);
  // In FP32 in any case.
  prefer(cuda::PreferReductions,
         g.dtype_c == BLURT_F32
             ? cuda::kReductionsInComputeType | cuda::kReductionsInPlace
             : cuda::kReductionsInComputeType);
  prefer(cuda::PreferAlignA, uint32_t(g.align_b));
  prefer(cuda::PreferAlignB, uint32_t(g.align_a));
  prefer(cuda::PreferAlignC, uint32_t(g.align_c));
  prefer(cuda::PreferAlignD, uint32_t(g.align_c));
}

std::vector<cuda::Candidate> CudaProducts::candidates(int32_t index,
                                                      int most) const {
  const Problem &p = problems[size_t(index)];
  std::vector<cuda::Candidate> proposed(static_cast<size_t>(most));
  int count = 0;
  call(api.Heuristic, index, handle, p.desc, p.first, p.second, p.result,
       p.result, p.preference, most, proposed.data(), &count);
  proposed.resize(size_t(count));
  std::erase_if(proposed, [&](const cuda::Candidate &c) {
    return c.state != 0 || c.workspaceBytes > workspaceBytes;
  });
  return proposed;
}

namespace {
/// Algorithms that the library derives from others. It says of most
/// combinations of settings that it does not have them.
class Variants {
public:
  /// Fills in what the library says of an algorithm, false if it has none such.
  using Check = std::function<bool(const cuda::Algorithm &, cuda::Candidate &)>;

  Variants(const cuda::CublasLt &api, Check check,
           std::vector<cuda::Candidate> found)
      : api(api), check(std::move(check)), found(std::move(found)) {}

  /// Each value of a setting that the algorithm knows.
  std::vector<uint32_t> list(const cuda::Algorithm &algorithm,
                             cuda::AlgorithmCapability capability) const {
    // The library refuses a buffer of another size than its list has.
    size_t bytes = 0;
    if (api.AlgoCap(&algorithm, capability, nullptr, 0, &bytes) != 0)
      bytes = 0;
    std::vector<uint32_t> ids(bytes / sizeof(uint32_t));
    if (!ids.empty() && api.AlgoCap(&algorithm, capability, ids.data(),
                                    ids.size() * sizeof(uint32_t), &bytes) != 0)
      ids.clear();
    return ids;
  }

  template <typename T>
  std::optional<cuda::Algorithm> with(cuda::Algorithm algorithm,
                                      cuda::AlgorithmAttribute attribute,
                                      T value) const {
    if (api.AlgoSet(&algorithm, attribute, &value, sizeof(value)) != 0)
      return std::nullopt;
    return algorithm;
  }

  void add(const std::optional<cuda::Algorithm> &algorithm) {
    auto isSame = [&](const cuda::Candidate &c) {
      return std::memcmp(&c.algorithm, &*algorithm, sizeof(*algorithm)) == 0;
    };
    if (!algorithm || std::any_of(found.begin(), found.end(), isSame))
      return;
    cuda::Candidate checked = {};
    if (!check(*algorithm, checked))
      return;
    checked.algorithm = *algorithm;
    found.push_back(checked);
  }

  std::vector<cuda::Candidate> take() { return std::move(found); }

private:
  const cuda::CublasLt &api;
  Check check;
  std::vector<cuda::Candidate> found;
};
} // namespace

bool CudaProducts::check(int32_t index, const cuda::Algorithm &algorithm,
                         cuda::Candidate &checked) const {
  const Problem &p = problems[size_t(index)];
  return api.AlgoCheck(handle, p.desc, p.first, p.second, p.result, p.result,
                       &algorithm, &checked) == 0 &&
         checked.state == 0 && checked.workspaceBytes <= workspaceBytes;
}

std::vector<cuda::Candidate> CudaProducts::tileVariants(int32_t index,
                                                        int most) const {
  std::vector<cuda::Candidate> proposed = candidates(index, most);
  Variants variants(
      api,
      [&](const cuda::Algorithm &algorithm, cuda::Candidate &checked) {
        return check(index, algorithm, checked);
      },
      proposed);
  // Algorithms that differ in tile and cluster alone have the same variants.
  std::vector<cuda::Algorithm> bases;
  for (const cuda::Candidate &candidate : proposed) {
    const cuda::Algorithm &algorithm = candidate.algorithm;
    for (uint32_t stages : variants.list(algorithm, cuda::CapStages))
      variants.add(variants.with(algorithm, cuda::ConfigStages, stages));
    for (uint32_t swizzle : {0u, 1u})
      variants.add(variants.with(algorithm, cuda::ConfigSwizzle, swizzle));
    std::vector<uint32_t> tiles = variants.list(algorithm, cuda::CapTiles);
    if (tiles.empty())
      continue;
    cuda::Algorithm base = algorithm;
    base = variants.with(base, cuda::ConfigTile, tiles[0]).value_or(base);
    base = variants.with(base, cuda::ConfigCluster, cuda::kFirstCluster)
               .value_or(base);
    if (std::any_of(bases.begin(), bases.end(), [&](const auto &known) {
          return std::memcmp(&known, &base, sizeof(base)) == 0;
        }))
      continue;
    bases.push_back(base);
    for (uint32_t tile : tiles)
      variants.add(variants.with(algorithm, cuda::ConfigTile, tile));
  }
  return variants.take();
}

std::vector<cuda::Candidate>
CudaProducts::clusterVariants(int32_t index,
                              std::vector<cuda::Candidate> of) const {
  std::vector<cuda::Candidate> base = of;
  Variants variants(
      api,
      [&](const cuda::Algorithm &algorithm, cuda::Candidate &checked) {
        return check(index, algorithm, checked);
      },
      std::move(of));
  for (const cuda::Candidate &candidate : base)
    for (uint16_t cluster = cuda::kFirstCluster; cluster <= cuda::kLastCluster;
         ++cluster)
      variants.add(
          variants.with(candidate.algorithm, cuda::ConfigCluster, cluster));
  return variants.take();
}

void CudaProducts::setAlgorithm(int32_t index,
                                const cuda::Algorithm &algorithm) {
  problems[size_t(index)].algorithm = algorithm;
  problems[size_t(index)].chosen = true;
}

void CudaProducts::choose() {
  for (int32_t i = 0; i < code.num_gemms; ++i) {
    if (problems[size_t(i)].chosen)
      continue;
    std::vector<cuda::Candidate> proposed = candidates(i, kProposals);
    if (proposed.empty()) {
      const blurt_device_gemm &g = code.gemms[i];
      throw failure("cuBLASLt " + cuda::cublasLtVersionString(api.version) +
                    " has no algorithm for the product " + productString(g) +
                    " of " + g.source + " in a workspace of " +
                    std::to_string(workspaceBytes) + " bytes on " +
                    device.description());
    }
    setAlgorithm(i, proposed.front().algorithm);
  }
}

int CudaProducts::take(const std::string &path, std::string_view text) {
  TuneFile file(path, text);
  auto want = [&](const char *key, const std::string &expected,
                  const std::string &got) {
    if (got != expected)
      throw badInput(path + ": " + key + ": expected '" + expected +
                     "' as on this machine, got '" + got + "'; run tune here");
  };
  want("device", device.name(), file.device());
  want("cublaslt", cuda::cublasLtVersionString(api.version), file.library());
  int taken = 0;
  for (int32_t i = 0; i < code.num_gemms; ++i) {
    std::optional<cuda::Algorithm> algorithm = file.find(code.gemms[i]);
    if (!algorithm)
      continue;
    const Problem &p = problems[size_t(i)];
    cuda::Candidate checked = {};
    cuda::Status status =
        api.AlgoCheck(handle, p.desc, p.first, p.second, p.result, p.result,
                      &*algorithm, &checked);
    if (status || checked.workspaceBytes > workspaceBytes)
      throw badInput(path + ": product " + productString(code.gemms[i]) + ": " +
                     (status ? failureText(api.AlgoCheck.name, status, i)
                             : "the algorithm needs a workspace of " +
                                   std::to_string(checked.workspaceBytes) +
                                   " bytes, this program has " +
                                   std::to_string(workspaceBytes)));
    setAlgorithm(i, *algorithm);
    ++taken;
  }
  return taken;
}

cuda::Status CudaProducts::run(int32_t index, const void *a, const void *b,
                               void *c, const void *extra,
                               const char *&function) const {
  static constexpr float zero = 0, one = 1;
  const blurt_device_gemm &g = code.gemms[index];
  const Problem &p = problems[size_t(index)];
  if (g.epilogue == BLURT_EPILOGUE_BIAS) {
    function = api.MatmulDescSet.name;
    if (cuda::Status status = api.MatmulDescSet(p.desc, cuda::DescBiasPointer,
                                                &extra, sizeof(extra)))
      return status;
  }
  function = api.Matmul.name;
  return api.Matmul(handle, p.desc, &one, b, p.first, a, p.second,
                    g.accumulate ? &one : &zero, c, p.result, c, p.result,
                    &p.algorithm, workspace, workspaceBytes, device.stream());
}
