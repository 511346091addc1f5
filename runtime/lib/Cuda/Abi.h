//===- Abi.h - What the runtime uses of CUDA's binary interface -*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// The driver and cuBLASLt are opened when a program for CUDA starts, so that
// the runtime builds and runs without a toolkit. Only what is called here is
// declared, with the numbers that the libraries' binary interfaces fix.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_CUDA_ABI_H
#define BLURT_LIB_CUDA_ABI_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace blurt::cuda {

/// 0 is success in both libraries.
using Result = int;
using Status = int;
/// An address of the device.
using Address = unsigned long long;
using DeviceId = int;

using Context = struct ContextObject *;
using Module = struct ModuleObject *;
using Function = struct FunctionObject *;
using Stream = struct StreamObject *;
using Event = struct EventObject *;
using Graph = struct GraphObject *;
using GraphExec = struct GraphExecObject *;

enum : Result {
  OutOfMemory = 2,
  NoDevice = 100,
  NotFound = 500,
  CaptureInvalidated = 901
};

enum DeviceAttribute : int {
  MaxSharedPerBlock = 8,
  CapabilityMajor = 75,
  CapabilityMinor = 76,
  MaxSharedPerBlockOptIn = 97
};

enum FunctionAttribute : int {
  MaxThreadsPerBlock = 0,
  StaticSharedBytes = 1,
  MaxDynamicSharedBytes = 8
};

/// A tensor map, which kernels take by value.
struct alignas(64) TensorMap {
  uint64_t words[16];
};
enum TensorMapType : int { MapF32 = 7, MapBf16 = 9 };
enum TensorMapInterleave : int { MapInterleaveNone = 0 };
enum TensorMapSwizzle : int {
  MapSwizzleNone = 0,
  MapSwizzle64 = 2,
  MapSwizzle128 = 3
};
enum TensorMapPromotion : int { MapPromotionL2At256 = 3 };
enum TensorMapFill : int { MapFillZeros = 0 };

enum JitOption : int { ErrorLog = 5, ErrorLogBytes = 6 };

/// A relaxed capture leaves other calls alone that do not touch its stream.
enum CaptureMode : int { CaptureRelaxed = 2 };
enum CaptureStatus : int { CaptureNone = 0, CaptureActive = 1 };

constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventBlockingWait = 1, kEventNoTime = 2;
constexpr unsigned kHostMapped = 2;

using Handle = struct HandleObject *;
using MatmulDesc = struct MatmulDescObject *;
using MatrixLayout = struct MatrixLayoutObject *;
using Preference = struct PreferenceObject *;

struct Algorithm {
  uint64_t words[8];
};

/// What a heuristic proposes.
struct Candidate {
  Algorithm algorithm;
  size_t workspaceBytes;
  Status state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(Candidate) == 96);

enum DataType : int { RealF32 = 0, RealBf16 = 14 };
enum ComputeType : int { ComputeF32 = 68, ComputeFastTf32 = 77 };
enum Operation : int { NoTranspose = 0, Transpose = 1 };
enum Epilogue : int { EpilogueNone = 1, EpilogueBias = 4 };

enum DescAttribute : int {
  DescTransA = 3,
  DescTransB = 4,
  DescEpilogue = 7,
  DescBiasPointer = 8,
  DescBiasType = 26
};

enum LayoutAttribute : int { LayoutBatch = 5, LayoutBatchStride = 6 };

/// What an algorithm can do: lists of uint32_t.
enum AlgorithmCapability : int { CapTiles = 6, CapStages = 13 };
/// How it is configured. Clusters are of uint16_t, the others of uint32_t.
enum AlgorithmAttribute : int {
  ConfigTile = 1,
  ConfigSwizzle = 4,
  ConfigStages = 6,
  ConfigCluster = 8
};
/// The library's numbers of cluster shapes with extents of powers of two, from
/// 1 × 1 to 1 × 16.
constexpr uint16_t kFirstCluster = 2, kLastCluster = 16;

enum PreferenceAttribute : int {
  PreferWorkspaceBytes = 1,
  PreferReductions = 3,
  PreferAlignA = 5,
  PreferAlignB = 6,
  PreferAlignC = 7,
  PreferAlignD = 8
};

/// Sums of a split K, added in order: in the workspace, in the compute type, or
/// in the output itself, in its type, one part after the other. Without
/// splitting always allowed.
constexpr uint32_t kReductionsInComputeType = 2;
constexpr uint32_t kReductionsInPlace = 1;

// Name in the table, name in the library, parameters.
#define BLURT_CUDA_DRIVER(F)                                                   \
  F(Init, "cuInit", unsigned)                                                  \
  F(DriverGetVersion, "cuDriverGetVersion", int *)                             \
  F(DeviceGetCount, "cuDeviceGetCount", int *)                                 \
  F(DeviceGet, "cuDeviceGet", DeviceId *, int)                                 \
  F(DeviceGetName, "cuDeviceGetName", char *, int, DeviceId)                   \
  F(DeviceGetAttribute, "cuDeviceGetAttribute", int *, DeviceAttribute,        \
    DeviceId)                                                                  \
  F(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", Context *, DeviceId)         \
  F(PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", DeviceId)               \
  F(CtxSetCurrent, "cuCtxSetCurrent", Context)                                 \
  F(ModuleLoadDataEx, "cuModuleLoadDataEx", Module *, const void *, unsigned,  \
    JitOption *, void **)                                                      \
  F(ModuleUnload, "cuModuleUnload", Module)                                    \
  F(ModuleGetFunction, "cuModuleGetFunction", Function *, Module,              \
    const char *)                                                              \
  F(FuncLoad, "cuFuncLoad", Function)                                          \
  F(FuncGetAttribute, "cuFuncGetAttribute", int *, FunctionAttribute,          \
    Function)                                                                  \
  F(FuncSetAttribute, "cuFuncSetAttribute", Function, FunctionAttribute, int)  \
  F(LaunchKernel, "cuLaunchKernel", Function, unsigned, unsigned, unsigned,    \
    unsigned, unsigned, unsigned, unsigned, Stream, void **, void **)          \
  F(TensorMapEncodeTiled, "cuTensorMapEncodeTiled", TensorMap *,               \
    TensorMapType, uint32_t, void *, const uint64_t *, const uint64_t *,       \
    const uint32_t *, const uint32_t *, TensorMapInterleave, TensorMapSwizzle, \
    TensorMapPromotion, TensorMapFill)                                         \
  F(StreamCreate, "cuStreamCreate", Stream *, unsigned)                        \
  F(StreamCreateWithPriority, "cuStreamCreateWithPriority", Stream *,          \
    unsigned, int)                                                             \
  F(StreamPriorities, "cuCtxGetStreamPriorityRange", int *, int *)             \
  F(StreamWaitEvent, "cuStreamWaitEvent", Stream, Event, unsigned)             \
  F(StreamDestroy, "cuStreamDestroy_v2", Stream)                               \
  F(StreamSynchronize, "cuStreamSynchronize", Stream)                          \
  F(StreamBeginCapture, "cuStreamBeginCapture_v2", Stream, CaptureMode)        \
  F(StreamEndCapture, "cuStreamEndCapture", Stream, Graph *)                   \
  F(StreamIsCapturing, "cuStreamIsCapturing", Stream, CaptureStatus *)         \
  F(GraphInstantiate, "cuGraphInstantiateWithFlags", GraphExec *, Graph,       \
    unsigned long long)                                                        \
  F(GraphUpload, "cuGraphUpload", GraphExec, Stream)                           \
  F(GraphLaunch, "cuGraphLaunch", GraphExec, Stream)                           \
  F(GraphDestroy, "cuGraphDestroy", Graph)                                     \
  F(GraphExecDestroy, "cuGraphExecDestroy", GraphExec)                         \
  F(EventCreate, "cuEventCreate", Event *, unsigned)                           \
  F(EventDestroy, "cuEventDestroy_v2", Event)                                  \
  F(EventRecord, "cuEventRecord", Event, Stream)                               \
  F(EventSynchronize, "cuEventSynchronize", Event)                             \
  F(EventElapsedTime, "cuEventElapsedTime", float *, Event, Event)             \
  F(MemAlloc, "cuMemAlloc_v2", Address *, size_t)                              \
  F(MemFree, "cuMemFree_v2", Address)                                          \
  F(MemGetInfo, "cuMemGetInfo_v2", size_t *, size_t *)                         \
  F(MemHostAlloc, "cuMemHostAlloc", void **, size_t, unsigned)                 \
  F(MemFreeHost, "cuMemFreeHost", void *)                                      \
  F(MemcpyAsync, "cuMemcpyAsync", Address, Address, size_t, Stream)            \
  F(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", Address, const void *, size_t,    \
    Stream)                                                                    \
  F(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", void *, Address, size_t, Stream)  \
  F(MemsetD8Async, "cuMemsetD8Async", Address, unsigned char, size_t, Stream)  \
  F(MemsetD32Async, "cuMemsetD32Async", Address, unsigned, size_t, Stream)     \
  F(GetErrorName, "cuGetErrorName", Result, const char **)                     \
  F(GetErrorString, "cuGetErrorString", Result, const char **)

#define BLURT_CUBLASLT(F)                                                      \
  F(Create, "cublasLtCreate", Handle *)                                        \
  F(Destroy, "cublasLtDestroy", Handle)                                        \
  F(MatmulDescCreate, "cublasLtMatmulDescCreate", MatmulDesc *, ComputeType,   \
    DataType)                                                                  \
  F(MatmulDescDestroy, "cublasLtMatmulDescDestroy", MatmulDesc)                \
  F(MatmulDescSet, "cublasLtMatmulDescSetAttribute", MatmulDesc,               \
    DescAttribute, const void *, size_t)                                       \
  F(LayoutCreate, "cublasLtMatrixLayoutCreate", MatrixLayout *, DataType,      \
    uint64_t, uint64_t, int64_t)                                               \
  F(LayoutDestroy, "cublasLtMatrixLayoutDestroy", MatrixLayout)                \
  F(LayoutSet, "cublasLtMatrixLayoutSetAttribute", MatrixLayout,               \
    LayoutAttribute, const void *, size_t)                                     \
  F(PreferenceCreate, "cublasLtMatmulPreferenceCreate", Preference *)          \
  F(PreferenceDestroy, "cublasLtMatmulPreferenceDestroy", Preference)          \
  F(PreferenceSet, "cublasLtMatmulPreferenceSetAttribute", Preference,         \
    PreferenceAttribute, const void *, size_t)                                 \
  F(Heuristic, "cublasLtMatmulAlgoGetHeuristic", Handle, MatmulDesc,           \
    MatrixLayout, MatrixLayout, MatrixLayout, MatrixLayout, Preference, int,   \
    Candidate *, int *)                                                        \
  F(AlgoCheck, "cublasLtMatmulAlgoCheck", Handle, MatmulDesc, MatrixLayout,    \
    MatrixLayout, MatrixLayout, MatrixLayout, const Algorithm *, Candidate *)  \
  F(AlgoCap, "cublasLtMatmulAlgoCapGetAttribute", const Algorithm *,           \
    AlgorithmCapability, void *, size_t, size_t *)                             \
  F(AlgoSet, "cublasLtMatmulAlgoConfigSetAttribute", Algorithm *,              \
    AlgorithmAttribute, const void *, size_t)                                  \
  F(Matmul, "cublasLtMatmul", Handle, MatmulDesc, const void *, const void *,  \
    MatrixLayout, const void *, MatrixLayout, const void *, const void *,      \
    MatrixLayout, void *, MatrixLayout, const Algorithm *, void *, size_t,     \
    Stream)

/// A function of a library, found by name.
template <typename... Parameters> struct Entry {
  const char *name;
  int (*function)(Parameters...) = nullptr;
  int operator()(Parameters... arguments) const {
    return function(arguments...);
  }
};

struct Driver {
#define BLURT_ENTRY(field, name, ...) Entry<__VA_ARGS__> field{name};
  BLURT_CUDA_DRIVER(BLURT_ENTRY)
  int version = 0; ///< 13020 for 13.2
};

struct CublasLt {
  BLURT_CUBLASLT(BLURT_ENTRY)
#undef BLURT_ENTRY
  size_t (*GetVersion)() = nullptr;
  const char *(*GetStatusName)(Status) = nullptr;
  const char *(*GetStatusString)(Status) = nullptr;
  uint64_t version = 0; ///< 130002 for 13.0.2
};

/// The driver, opened and initialised on first use. Throws Error (run-time
/// failure) if it is missing, lacks a function, or is older than
/// `requiredVersion`.
const Driver &loadDriver(int requiredVersion);
/// cuBLASLt, opened on first use. Throws Error in the same way.
const CublasLt &loadCublasLt();

/// "13.2" of 13020.
std::string driverVersionString(int version);
/// "13.0.2" of 130002.
std::string cublasLtVersionString(uint64_t version);

/// "CUDA_ERROR_INVALID_VALUE: invalid argument".
std::string describe(const Driver &driver, Result result);
std::string describe(const CublasLt &library, Status status);

} // namespace blurt::cuda

#endif // BLURT_LIB_CUDA_ABI_H
