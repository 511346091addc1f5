//===- Code.cpp - A program's kernels and products on a GPU ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Abi.h"
#include "Items.h"
#include "Products.h"
#include "blurt/Context.h"
#include "blurt/Cuda.h"
#include "blurt/Error.h"
#include "blurt/File.h"
#include "blurt/Random.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace blurt;

bool blurt::environmentFlag(const char *name) {
  const char *value = std::getenv(name);
  return value && *value && std::strcmp(value, "0") != 0;
}

std::string blurt::imageName(const blurt_image &image) {
  if (image.kind == BLURT_IMAGE_PTX)
    return "compute_" + std::to_string(image.arch);
  return "sm_" + std::to_string(image.arch) + (image.specific ? "a" : "");
}

const blurt_image &blurt::chooseImage(const blurt_device_code &code,
                                      int capability, bool forcePtx,
                                      const std::string &device) {
  const blurt_image *best = nullptr;
  // Higher is better; 0 does not fit.
  auto rank = [&](const blurt_image &image) {
    if (image.kind == BLURT_IMAGE_PTX)
      return image.arch <= capability ? image.arch : 0;
    if (forcePtx)
      return 0;
    if (image.specific)
      return image.arch == capability ? 3000 : 0;
    bool fits = image.arch / 10 == capability / 10 && image.arch <= capability;
    return fits ? 1000 + image.arch : 0;
  };
  std::string have;
  for (int32_t i = 0; i < code.num_images; ++i) {
    const blurt_image &image = code.images[i];
    have += (i ? ", " : "") + imageName(image);
    if (rank(image) > (best ? rank(*best) : 0))
      best = &image;
  }
  if (!best)
    throw failure(
        "expected device code for " + device + (forcePtx ? " as PTX" : "") +
        ", got " + (have.empty() ? "none" : have) +
        "; compile the model with --arch sm_" + std::to_string(capability));
  return *best;
}

CudaCode::CudaCode(CudaDevice &device, const blurt_program &program)
    : device(device), table(program), code(*program.device) {
  const cuda::Driver &api = device.driver();
  waitEach = environmentFlag("BLURT_SYNC");
  // A program may be made of products alone.
  if (code.num_kernels == 0)
    return;
  chosen =
      &chooseImage(code, device.capability(),
                   environmentFlag("BLURT_FORCE_PTX"), device.description());
  std::array<char, 8192> log = {};
  cuda::JitOption options[] = {cuda::ErrorLog, cuda::ErrorLogBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size() - 1)};
  int result = api.ModuleLoadDataEx(&module, chosen->data, 2, options, values);
  if (result)
    throw failure(device.failureText(api.ModuleLoadDataEx.name, result,
                                     "the kernels of '" +
                                         std::string(program.name) + "' for " +
                                         imageName(*chosen)) +
                  (log[0] ? "\n" + std::string(log.data()) : ""));
  functions.resize(size_t(code.num_kernels));
  uint32_t mostMaps = 0;
  for (int32_t i = 0; i < code.num_kernels; ++i) {
    const blurt_device_kernel &kernel = kernelOf(i);
    cuda::Function &function = functions[size_t(i)];
    const std::string what = itemText(i);
    device.call(api.ModuleGetFunction, what, &function, module, kernel.symbol);
    device.call(api.FuncLoad, what, function);
    mostMaps = std::max(mostMaps, kernel.num_maps);
    int shared = 0, threads = 0;
    device.call(api.FuncGetAttribute, what, &shared, cuda::StaticSharedBytes,
                function);
    device.call(api.FuncGetAttribute, what, &threads, cuda::MaxThreadsPerBlock,
                function);
    uint64_t block =
        uint64_t(kernel.block[0]) * kernel.block[1] * kernel.block[2];
    if (block > uint64_t(threads))
      throw failure(what + ": expected at most " + std::to_string(threads) +
                    " threads a block on " + device.description() + ", got " +
                    std::to_string(block));
    uint64_t all = uint64_t(shared) + kernel.shared_bytes;
    if (all > device.maxShared())
      throw failure(what + ": expected at most " +
                    std::to_string(device.maxShared()) +
                    " bytes of shared memory a block on " +
                    device.description() + ", got " + std::to_string(all));
    // What is above this, a kernel has to ask for.
    constexpr uint64_t plainLimit = 48 * 1024;
    if (all > plainLimit)
      device.call(api.FuncSetAttribute, what, function,
                  cuda::MaxDynamicSharedBytes, int(kernel.shared_bytes));
  }
  maps.resize(mostMaps);
  device.book("kernels (" + imageName(*chosen) + ")");
}

CudaCode::~CudaCode() {
  products.reset();
  for (CudaDevice::Event event : marks)
    device.destroyEvent(event);
  for (const Sent &it : sent)
    for (CudaDevice::Event event : {it.begin, it.end})
      device.destroyEvent(event);
  if (module)
    device.driver().ModuleUnload(module);
}

void CudaCode::prepareProducts(void *workspace, const std::string &tune) {
  if (code.num_gemms) {
    products = std::make_unique<CudaProducts>(device, code, workspace,
                                              code.workspace_bytes);
    device.book(library());
  }
  if (!tune.empty()) {
    MappedFile file(tune);
    std::string_view text = file.text();
    char digest[17];
    std::snprintf(digest, sizeof(digest), "%016llx",
                  static_cast<unsigned long long>(hashName(text)));
    fileHash = digest;
    int taken = products ? products->take(tune, text) : 0;
    if (taken < code.num_gemms)
      std::fprintf(stderr,
                   "note: %s: has %d of %d products; the others take the "
                   "library's choice\n",
                   tune.c_str(), taken, int(code.num_gemms));
  }
  if (products)
    products->choose();
}

std::string CudaCode::library() const {
  if (!products)
    return "";
  return "cuBLASLt " + cuda::cublasLtVersionString(products->library().version);
}

std::string CudaCode::itemText(int32_t item) const {
  if (item >= 0) {
    const blurt_device_kernel &kernel = kernelOf(item);
    return std::string("kernel '") + kernel.symbol + "' of " + kernel.source;
  }
  if (item < -code.num_gemms)
    return describe(item).name;
  const blurt_device_gemm &g = code.gemms[-1 - item];
  return "product " + productString(g) + " of " + g.source;
}

void CudaCode::keep(const std::string &error) noexcept {
  if (!firstError)
    firstError = error;
}

void CudaCode::rethrow() {
  if (!firstError)
    return;
  std::string error = *firstError;
  firstError.reset();
  throw failure(error);
}

bool CudaCode::queued(int result, const char *call, int32_t item) noexcept {
  if (result) {
    keep(device.failureText(call, result, itemText(item)));
    return false;
  }
  if (waitEach)
    if (int late = device.driver().StreamSynchronize(device.stream())) {
      keep(device.failureText("cuStreamSynchronize", late, itemText(item)));
      return false;
    }
  if (capturing) {
    cuda::CaptureStatus status = cuda::CaptureNone;
    const cuda::Driver &api = device.driver();
    int late = api.StreamIsCapturing(device.stream(), &status);
    if (late || status != cuda::CaptureActive) {
      keep(device.failureText(call, late ? late : cuda::CaptureInvalidated,
                              itemText(item)));
      return false;
    }
  }
  if (timing)
    mark(item);
  return true;
}

/// Writes the tensor map of `map` for the tensor at `address`.
static int encode(const cuda::Driver &api, const blurt_device_map &map,
                  void *address, cuda::TensorMap &to) {
  uint64_t extents[BLURT_MAP_RANK], strides[BLURT_MAP_RANK];
  uint32_t box[BLURT_MAP_RANK], steps[BLURT_MAP_RANK];
  for (int32_t d = 0; d < map.rank; ++d) {
    extents[d] = uint64_t(map.extents[d]);
    strides[d] = uint64_t(map.strides[d]);
    box[d] = uint32_t(map.box[d]);
    steps[d] = 1;
  }
  return api.TensorMapEncodeTiled(
      &to, map.dtype == BLURT_BF16 ? cuda::MapBf16 : cuda::MapF32,
      uint32_t(map.rank), address, extents, strides + 1, box, steps,
      cuda::MapInterleaveNone,
      map.swizzle == 128  ? cuda::MapSwizzle128
      : map.swizzle == 64 ? cuda::MapSwizzle64
                          : cuda::MapSwizzleNone,
      cuda::MapPromotionL2At256, cuda::MapFillZeros);
}

void CudaCode::launch(int32_t index, void *const *args) noexcept {
  if (firstError)
    return;
  const blurt_device_kernel &kernel = kernelOf(index);
  const cuda::Driver &api = device.driver();
  // The driver takes the addresses of the parameters.
  constexpr uint32_t few = 32;
  void *fewParameters[few];
  std::vector<void *> manyParameters;
  void **parameters = fewParameters;
  if (kernel.num_args + kernel.num_maps > few) {
    manyParameters.resize(kernel.num_args + kernel.num_maps);
    parameters = manyParameters.data();
  }
  for (uint32_t i = 0; i < kernel.num_args; ++i)
    parameters[i] = const_cast<void **>(args + i);
  for (uint32_t i = 0; i < kernel.num_maps; ++i) {
    const blurt_device_map &map = kernel.maps[i];
    if (int result = encode(api, map, args[map.operand], maps[i])) {
      queued(result, api.TensorMapEncodeTiled.name, index);
      return;
    }
    parameters[kernel.num_args + i] = &maps[i];
  }
  int result = api.LaunchKernel(
      functions[size_t(index)], kernel.grid[0], kernel.grid[1], kernel.grid[2],
      kernel.block[0], kernel.block[1], kernel.block[2], kernel.shared_bytes,
      device.stream(), parameters, nullptr);
  queued(result, api.LaunchKernel.name, index);
}

void CudaCode::product(int32_t index, const void *a, const void *b, void *c,
                       const void *extra) noexcept {
  if (firstError)
    return;
  const char *function = nullptr;
  if (cuda::Status status = products->run(index, a, b, c, extra, function))
    return keep(products->failureText(function, status, index));
  queued(0, function, -1 - index);
}

void CudaCode::storeI64(void *to, int64_t value) noexcept {
  if (firstError)
    return;
  // Two stores of half the value: the driver's memset is the one store that
  // takes its value along, also into a graph.
  const cuda::Driver &api = device.driver();
  auto address = reinterpret_cast<cuda::Address>(to);
  auto bits = static_cast<uint64_t>(value);
  for (unsigned half : {0u, 1u})
    if (int result = api.MemsetD32Async(address + 4 * half,
                                        uint32_t(bits >> (32 * half)), 1,
                                        device.stream())) {
      queued(result, api.MemsetD32Async.name, kStore);
      return;
    }
  queued(0, api.MemsetD32Async.name, kStore);
}

void blurt_launch(void *ctx, int32_t index, void *const *args) {
  static_cast<Context *>(ctx)->code()->launch(index, args);
}

void blurt_device_product(void *ctx, int32_t index, const void *a,
                          const void *b, void *c, const void *extra) {
  static_cast<Context *>(ctx)->code()->product(index, a, b, c, extra);
}

void blurt_device_store_i64(void *ctx, void *to, int64_t value) {
  static_cast<Context *>(ctx)->code()->storeI64(to, value);
}
