//===- AttentionKernels.h - attention on CUDA devices ---------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Kernels of `blurt.attention` and `blurt.attention_grad` after
// FlashAttention-2 (Dao 2023): scores exist only as tiles in registers. The
// backward pass is kernels without atomics, so that every sum has one order:
// delta; dq by tiles of queries; dk and dv by tiles of keys, over the query
// heads of a key-value head in ascending order. Where there are enough heads to
// fill a device, all three gradients in f32 are one kernel instead, which
// computes the scores once.
//
// A query that sees no key gives zeros and an lse of -inf, and takes no part
// in gradients.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_CUDA_ATTENTIONKERNELS_H
#define BLUTRAIN_LIB_CODEGEN_CUDA_ATTENTIONKERNELS_H

#include "TensorCore.h"

namespace mlir::blurt {

/// Shared memory of a block, which every supported architecture has.
inline constexpr int32_t kMaxSharedBytes = 96 * 1024;
/// The same on sm_90a.
inline constexpr int32_t kMaxHopperSharedBytes = 227 * 1024;

/// Strides in elements of a B×T×H×D operand.
using RowStrides = std::array<int64_t, 4>;

struct AttentionShape {
  int64_t batch = 1, queries = 1, keys = 1, heads = 1, keyHeads = 1, depth = 1;
  RowStrides q{}, k{}, v{}, o{}, dO{}, dQ{}, dK{}, dV{};
  bool causal = false;
  bool hasPosition = false;
  double scale = 1;
  Type element;
  DeviceCompute compute = DeviceCompute::F32;
  /// Bytes to which the addresses of the B×T×H×D operands are aligned.
  int64_t alignment = 16;
  /// The same of lse and delta.
  int64_t scalarAlignment = 16;
};

/// How a kernel is cut up.
struct AttentionTiles {
  int32_t warps = 4;
  /// Rows of a block: 16 · rowTiles a warp on tensor cores, laneRows · rowTiles
  /// on CUDA cores.
  int32_t rowTiles = 1;
  /// Rows of the tiles it walks.
  int32_t columns = 64;
  int32_t stages = 2; ///< tiles in shared memory, on tensor cores
  bool keepA = false; ///< q lies in registers
  int32_t minBlocks = 2;
  int32_t laneRows = 4; ///< rows that a warp's lanes have at a time, 2 or 4
};

enum class AttentionKernel { Forward, GradQ, GradKV, GradQKV };

/// The tiles that a kernel uses, from shape and types alone.
AttentionTiles getAttentionTiles(AttentionKernel kernel,
                                 const AttentionShape &shape);

/// Operands q, k, v, [position,] o, lse.
FailureOr<DeviceLaunch>
emitAttentionForward(gpu::GPUModuleOp module, Location loc, StringRef name,
                     const AttentionShape &shape,
                     std::optional<AttentionTiles> tiles = std::nullopt);

/// Bytes of delta, the workspace of the backward pass: B×H×T of f32.
int64_t getAttentionDeltaBytes(const AttentionShape &shape);

/// delta = Σ do · o of each row. Operands o, do, delta.
FailureOr<DeviceLaunch> emitAttentionDelta(gpu::GPUModuleOp module,
                                           Location loc, StringRef name,
                                           const AttentionShape &shape);

/// Operands q, k, v, lse, do, delta, dq.
FailureOr<DeviceLaunch>
emitAttentionGradQ(gpu::GPUModuleOp module, Location loc, StringRef name,
                   const AttentionShape &shape,
                   std::optional<AttentionTiles> tiles = std::nullopt);

/// Operands q, k, v, lse, do, delta, dk, dv.
FailureOr<DeviceLaunch>
emitAttentionGradKV(gpu::GPUModuleOp module, Location loc, StringRef name,
                    const AttentionShape &shape,
                    std::optional<AttentionTiles> tiles = std::nullopt);

/// Whether the gradients are one kernel, instead of one for dq and one for dk
/// and dv.
bool hasMergedGradients(const AttentionShape &shape);

/// Operands q, k, v, lse, do, delta, dq, dk, dv.
FailureOr<DeviceLaunch>
emitAttentionGradQKV(gpu::GPUModuleOp module, Location loc, StringRef name,
                     const AttentionShape &shape,
                     std::optional<AttentionTiles> tiles = std::nullopt);

/// The tiles of a kernel's form for sm_90a, or none where it has no such form:
/// then sm_90a takes the one that all architectures share. By wgmma it is there
/// for bf16 at depth 64 and 128 and for tf32 at depth 64, and 128 in the
/// forward pass; from a tile of queries and of keys on, without a position, if
/// rows can be copied by 16 bytes and tensor maps can describe them. In f32 the
/// merged gradients have larger tiles.
std::optional<AttentionTiles> getHopperTiles(AttentionKernel kernel,
                                             const AttentionShape &shape);

/// The kernel for sm_90a, over the operands of the others of its kind.
FailureOr<DeviceLaunch> emitAttentionOnHopper(AttentionKernel kernel,
                                              gpu::GPUModuleOp module,
                                              Location loc, StringRef name,
                                              const AttentionShape &shape,
                                              const AttentionTiles &tiles);

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_CUDA_ATTENTIONKERNELS_H
