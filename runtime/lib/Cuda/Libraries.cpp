//===- Libraries.cpp - The driver and cuBLASLt, found at start ------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Abi.h"
#include "blurt/Error.h"

#include <cstdlib>
#include <dlfcn.h>
#include <optional>
#include <vector>

using namespace blurt;
using namespace blurt::cuda;

namespace {

constexpr uint64_t kLeastCublasLt = 120000;

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// What could be opened under which name, or why nothing could.
struct Search {
  void *library = nullptr;
  std::string path;
  std::string tried;

  bool open(const std::string &candidate) {
    library = ::dlopen(candidate.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library) {
      path = candidate;
      return true;
    }
    const char *why = ::dlerror();
    tried += "\n  " + std::string(why ? why : candidate.c_str());
    return false;
  }
};

void *symbol(const Search &search, const char *name, const char *needed) {
  if (void *address = ::dlsym(search.library, name))
    return address;
  throw failure(search.path + ": expected a function '" + name + "'; " +
                needed + " is needed");
}

constexpr const char *kDriverNeeded =
    "an NVIDIA driver for CUDA 13.0 or later (R580)";
constexpr const char *kCublasNeeded = "cuBLASLt 12 or later";

template <typename Function>
void resolve(const Search &search, Function *&function, const char *name,
             const char *needed) {
  function = reinterpret_cast<Function *>(symbol(search, name, needed));
}

Search findDriver() {
  Search search;
  std::string named = environment("BLURT_LIBCUDA");
  if (!search.open(named.empty() ? "libcuda.so.1" : named))
    throw failure(
        std::string("cannot load the CUDA driver library libcuda.so.1: ") +
        kDriverNeeded +
        " is needed, and is looked for where the system's loader looks "
        "(LD_LIBRARY_PATH, ldconfig) or in the file that BLURT_LIBCUDA "
        "names:" +
        search.tried);
  return search;
}

Search findCublasLt() {
  Search search;
  std::string named = environment("BLURT_CUBLASLT");
  if (!named.empty()) {
    search.open(named);
    return search;
  }
  std::vector<std::string> folders = {"/usr/local/cuda/lib64",
                                      "/usr/local/cuda/targets/x86_64-linux/"
                                      "lib"};
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (std::string home = environment(variable); !home.empty()) {
      folders.push_back(home + "/lib64");
      folders.push_back(home + "/lib");
    }
  for (const char *name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    if (search.open(name))
      return search;
    for (const std::string &folder : folders)
      if (search.open(folder + "/" + name))
        return search;
  }
  return search;
}

CublasLt openCublasLt() {
  Search search = findCublasLt();
  if (!search.library)
    throw failure(
        std::string("cannot load libcublasLt.so.13 or libcublasLt.so.12: ") +
        kCublasNeeded +
        " is needed; set BLURT_CUBLASLT to the file, or LD_LIBRARY_PATH or "
        "CUDA_HOME to where it lies; tried:" +
        search.tried);
  CublasLt library;
  resolve(search, library.GetVersion, "cublasLtGetVersion", kCublasNeeded);
  library.version = library.GetVersion();
  if (library.version < kLeastCublasLt)
    throw failure(search.path + ": expected cuBLASLt " +
                  cublasLtVersionString(kLeastCublasLt) + " or later, got " +
                  cublasLtVersionString(library.version));
#define BLURT_RESOLVE(field, name, ...)                                        \
  resolve(search, library.field.function, name, kCublasNeeded);
  BLURT_CUBLASLT(BLURT_RESOLVE)
#undef BLURT_RESOLVE
  resolve(search, library.GetStatusName, "cublasLtGetStatusName",
          kCublasNeeded);
  resolve(search, library.GetStatusString, "cublasLtGetStatusString",
          kCublasNeeded);
  return library;
}

} // namespace

std::string cuda::driverVersionString(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

std::string cuda::cublasLtVersionString(uint64_t version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

const Driver &cuda::loadDriver(int requiredVersion) {
  static Search search = findDriver();
  static Driver driver;
  if (driver.Init.function)
    return driver;
  // The version comes first: an old driver lacks functions.
  resolve(search, driver.DriverGetVersion.function,
          driver.DriverGetVersion.name, kDriverNeeded);
  if (Result result = driver.DriverGetVersion(&driver.version))
    throw failure(search.path + ": cuDriverGetVersion failed with error " +
                  std::to_string(result));
  if (driver.version < requiredVersion)
    throw failure(search.path + ": expected an NVIDIA driver for CUDA " +
                  driverVersionString(requiredVersion) +
                  " or later, got one for CUDA " +
                  driverVersionString(driver.version));
#define BLURT_RESOLVE(field, name, ...)                                        \
  resolve(search, driver.field.function, name, kDriverNeeded);
  BLURT_CUDA_DRIVER(BLURT_RESOLVE)
#undef BLURT_RESOLVE
  if (Result result = driver.Init(0))
    throw failure("cuInit failed: " + describe(driver, result) +
                  (result == NoDevice
                       ? "; an NVIDIA GPU is needed "
                         "(CUDA_VISIBLE_DEVICES is '" +
                             environment("CUDA_VISIBLE_DEVICES") + "')"
                       : ""));
  return driver;
}

const CublasLt &cuda::loadCublasLt() {
  static CublasLt library = openCublasLt();
  return library;
}

std::string cuda::describe(const Driver &driver, Result result) {
  const char *name = nullptr, *text = nullptr;
  if (driver.GetErrorName(result, &name) || !name)
    return "error " + std::to_string(result);
  driver.GetErrorString(result, &text);
  return std::string(name) + (text ? std::string(": ") + text : "");
}

std::string cuda::describe(const CublasLt &library, Status status) {
  const char *name = library.GetStatusName(status);
  const char *text = library.GetStatusString(status);
  if (!name)
    return "status " + std::to_string(status);
  return std::string(name) +
         (text && text != std::string(name) ? std::string(": ") + text : "");
}
