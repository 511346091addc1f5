//===- device_products.cpp - kernels in a process that has its own memory -===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// What a compiled program calls, over the driver alone and in the context of
// the thread that calls: linked with one program into a shared object that
// device_products.py loads. It runs the program's first entry.
//
//===----------------------------------------------------------------------===//

#include "blurt/blurt.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <string>
#include <vector>

namespace {

using Function = void *;

struct alignas(64) TensorMap {
  char bytes[128];
};

struct Driver {
  int (*moduleLoad)(void **, const void *);
  int (*moduleGet)(Function *, void *, const char *);
  int (*setAttribute)(Function, int, int);
  int (*launch)(Function, unsigned, unsigned, unsigned, unsigned, unsigned,
                unsigned, unsigned, void *, void **, void **);
  int (*encode)(TensorMap *, int, uint32_t, void *, const uint64_t *,
                const uint64_t *, const uint32_t *, const uint32_t *, int, int,
                int, int);
  template <typename F>
  bool find(void *library, F &function, const char *name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    return function != nullptr;
  }
  bool load() {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return library && find(library, moduleLoad, "cuModuleLoadData") &&
           find(library, moduleGet, "cuModuleGetFunction") &&
           find(library, setAttribute, "cuFuncSetAttribute") &&
           find(library, launch, "cuLaunchKernel") &&
           find(library, encode, "cuTensorMapEncodeTiled");
  }
};

Driver driver;
std::vector<Function> functions;
std::string error;
void *stream = nullptr;
uint64_t selected = ~uint64_t(0);

const blurt_image &image() { return blurt_program_main.device->images[0]; }

int fail(const char *what, int result) {
  if (error.empty())
    error = std::string(what) + ": " + std::to_string(result);
  return 1;
}

} // namespace

extern "C" {

void blurt_launch(void *, int32_t index, void *const *args) {
  if (!error.empty() || !(selected >> index & 1))
    return;
  const blurt_device_kernel &kernel = image().kernels[index];
  std::vector<void *> parameters;
  std::vector<TensorMap> maps(kernel.num_maps);
  for (uint32_t i = 0; i != kernel.num_args; ++i)
    parameters.push_back(const_cast<void **>(args + i));
  for (uint32_t i = 0; i != kernel.num_maps; ++i) {
    const blurt_device_map &map = kernel.maps[i];
    uint64_t extents[BLURT_MAP_RANK], strides[BLURT_MAP_RANK];
    uint32_t box[BLURT_MAP_RANK], steps[BLURT_MAP_RANK];
    for (int d = 0; d != map.rank; ++d) {
      extents[d] = uint64_t(map.extents[d]);
      strides[d] = uint64_t(map.strides[d]);
      box[d] = uint32_t(map.box[d]);
      steps[d] = 1;
    }
    int dtype = map.dtype == BLURT_BF16 ? 9 : 7;
    int swizzle = map.swizzle == 128 ? 3 : map.swizzle == 64 ? 2 : 0;
    if (int result = driver.encode(&maps[i], dtype, uint32_t(map.rank),
                                   args[map.operand], extents, strides + 1, box,
                                   steps, 0, swizzle, 3, 0)) {
      fail(kernel.symbol, result);
      return;
    }
    parameters.push_back(&maps[i]);
  }
  if (int result = driver.launch(
          functions[size_t(index)], kernel.grid[0], kernel.grid[1],
          kernel.grid[2], kernel.block[0], kernel.block[1], kernel.block[2],
          kernel.shared_bytes, stream, parameters.data(), nullptr))
    fail(kernel.symbol, result);
}

void blurt_device_product(void *, int32_t, const void *, const void *, void *,
                          const void *) {
  fail("a product of the library", 0);
}

int products_open() {
  if (!driver.load())
    return fail("libcuda.so.1", 0);
  void *module = nullptr;
  if (int result = driver.moduleLoad(&module, image().data))
    return fail("cuModuleLoadData", result);
  for (int32_t i = 0; i != blurt_program_main.device->num_kernels; ++i) {
    const blurt_device_kernel &kernel = image().kernels[i];
    Function function = nullptr;
    if (int result = driver.moduleGet(&function, module, kernel.symbol))
      return fail(kernel.symbol, result);
    if (kernel.shared_bytes > 48 * 1024)
      if (int result =
              driver.setAttribute(function, 8, int(kernel.shared_bytes)))
        return fail(kernel.symbol, result);
    functions.push_back(function);
  }
  return 0;
}

/// Queues the entry on `queue` for the arena.
int products_run(void *arena, void *queue) {
  stream = queue;
  blurt_program_main.entries[0].run(nullptr, arena);
  return error.empty() ? 0 : 1;
}

/// Kernels whose bits are not set are left out.
void products_select(uint64_t kernels) { selected = kernels; }
const char *products_error() { return error.c_str(); }
uint64_t products_bytes() { return blurt_program_main.peak_bytes; }
uint64_t products_counters() {
  return blurt_program_main.device->counters_offset;
}
int products_kernels() { return blurt_program_main.device->num_kernels; }
const char *products_kernel(int i) { return image().kernels[i].symbol; }
int64_t products_offset(const char *name) {
  const blurt_entry &entry = blurt_program_main.entries[0];
  for (int32_t i = 0; i != entry.num_tensors; ++i)
    if (std::strcmp(entry.tensors[i].name, name) == 0)
      return int64_t(entry.tensors[i].offset);
  return -1;
}
}
