//===- AttentionKernels.cpp - attention on CUDA devices -------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "AttentionBlock.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::blurt;

/// Whether rows can be accessed 16 bytes at a time.
static bool isChunked(const AttentionShape &shape, const RowStrides &strides) {
  int64_t bytes = shape.element.isBF16() ? 2 : 4;
  return shape.alignment % 16 == 0 && shape.depth * bytes % 16 == 0 &&
         llvm::all_of(ArrayRef(strides).take_front(3),
                      [&](int64_t s) { return s * bytes % 16 == 0; });
}

/// Whether those of what attention and its gradient read can.
static bool isAllChunked(const AttentionShape &shape) {
  return llvm::all_of(
      ArrayRef<const RowStrides *>{&shape.q, &shape.k, &shape.v, &shape.dO},
      [&](const RowStrides *strides) { return isChunked(shape, *strides); });
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

AttentionBlock::AttentionBlock(DeviceBuilder &b, const AttentionShape &shape,
                               Value position)
    : b(b), shape(shape), thread(b.threadId()), headBlock(b.blockId(1)),
      entry(b.blockId(2)), masked(shape.causal || position) {
  keyLimit = b.i32(shape.keys);
  if (position) {
    Value at = b.load(b.getI64Type(), position, 8);
    offset = b.truncate(b.max(b.min(at, shape.keys), -shape.queries));
    keyLimit =
        b.max(b.min(b.add(offset, shape.queries), shape.keys), int64_t(1));
  } else if (shape.causal) {
    offset = b.i32(shape.keys - shape.queries);
  }
}

GlobalRows AttentionBlock::rows(const RowStrides &strides) const {
  GlobalRows rows;
  rows.element = shape.element;
  rows.columns = int32_t(shape.depth);
  rows.stride = strides[1];
  int64_t bytes = rows.elementBytes();
  rows.chunked = shape.alignment % 16 == 0 && shape.depth * bytes % 16 == 0 &&
                 llvm::all_of(ArrayRef(strides).take_front(3),
                              [&](int64_t s) { return s * bytes % 16 == 0; });
  return rows;
}

Value AttentionBlock::base(Value operand, const RowStrides &strides,
                           Value head) const {
  int64_t bytes = shape.element.isBF16() ? 2 : 4;
  Value pointer = b.advance(operand, b.wideOffset(entry, strides[0] * bytes));
  return b.advance(pointer, b.wideOffset(head, strides[2] * bytes));
}

Value AttentionBlock::rowScalars(Value operand, Value head) const {
  Value pointer =
      b.advance(operand, b.wideOffset(entry, shape.heads * shape.queries * 4));
  return b.advance(pointer, b.wideOffset(head, shape.queries * 4));
}

Value AttentionBlock::lastKey(Value row) const {
  Value last = b.add(keyLimit, -1);
  return offset ? b.min(b.add(row, offset), last) : last;
}

AttentionBlock::Tiles AttentionBlock::keyTiles(Value first, int32_t count,
                                               int32_t size) const {
  Value last = b.min(b.add(first, count - 1), shape.queries - 1);
  Value end = b.max(b.add(lastKey(last), size), int64_t(0));
  Value full = b.max(b.add(lastKey(first), 1), int64_t(0));
  return {b.div(full, size), b.div(end, size)};
}

QueryTiles AttentionBlock::queryTiles(Value firstKey, int32_t count,
                                      int32_t size) const {
  Value zero = b.i32(0), end = b.i32(llvm::divideCeil(shape.queries, size));
  if (!masked)
    return {zero, zero, end};
  Value from = b.sub(firstKey, offset);
  Value begin = b.div(b.max(from, zero), size);
  Value whole = b.div(b.max(b.add(from, count + size - 2), zero), size);
  return {b.min(begin, end), b.min(whole, end), end};
}

void AttentionBlock::startScalars(std::array<Value, 2> from,
                                  std::array<Value, 2> to, Value query,
                                  int32_t count) const {
  assert(count <= b.getThreads() && "more values than threads");
  b.branch(b.lessThan(thread, count), [&] {
    Value at = b.add(query, thread);
    Value valid = b.lessThan(at, shape.queries);
    for (auto [source, target] : llvm::zip_equal(from, to))
      b.copyAsync(b.advance(target, b.mul(thread, 4)),
                  b.advance(source, b.wideOffset(at, 4)), 4, valid);
  });
}

void AttentionBlock::finishCopies() const {
  if (!masked)
    return;
  b.waitCopies(0);
  b.barrier();
}

SmallVector<Value> AttentionBlock::forQueryHeads(
    SmallVector<Value> carried,
    llvm::function_ref<SmallVector<Value>(Value, SmallVector<Value>)> body)
    const {
  int64_t group = shape.heads / shape.keyHeads;
  if (group == 1)
    return body(headBlock, std::move(carried));
  return b.loop(b.i32(0), b.i32(group), 1, carried,
                [&](Value index, ValueRange values) {
                  b.waitCopies(0);
                  b.barrier();
                  return body(b.add(b.mul(headBlock, group), index),
                              llvm::to_vector(values));
                });
}

void TilePipeline::prologue(DeviceBuilder &b, Value begin) const {
  if (stages == 1)
    return;
  start(begin, b.rem(begin, 2));
  b.commitCopies();
}

SmallVector<Value> TilePipeline::run(DeviceBuilder &b, Value begin,
                                     Value middle, Value end, bool maskedFirst,
                                     SmallVector<Value> carried,
                                     Body body) const {
  auto step = [&](Value index, bool masked, ValueRange values) {
    if (stages == 1) {
      Value stage = b.i32(0);
      b.barrier();
      start(index, stage);
      b.commitCopies();
      b.waitCopies(0);
      if (arrive)
        arrive(stage);
      b.barrier();
      return body(index, stage, masked, values);
    }
    Value stage = b.rem(index, 2);
    b.waitCopies(0);
    if (arrive)
      arrive(stage);
    // The tile is there for all, and all are done with the one before it.
    b.barrier();
    Value next = b.add(index, 1);
    b.branch(b.lessThan(next, end), [&] { start(next, b.sub(1, stage)); });
    b.commitCopies();
    return body(index, stage, masked, values);
  };
  for (bool second : {false, true}) {
    Value from = second ? middle : begin, to = second ? end : middle;
    carried = b.loop(from, to, 1, carried, [&](Value index, ValueRange values) {
      return step(index, second != maskedFirst, values);
    });
  }
  return carried;
}

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

bool blurt::hasMergedGradients(const AttentionShape &shape) {
  // Five products instead of seven, by a block for each key-value head: below
  // some two blocks a multiprocessor too many of them idle at the end.
  constexpr int64_t kMinBlocks = 256;
  return shape.compute == DeviceCompute::F32 &&
         shape.batch * shape.keyHeads >= kMinBlocks;
}

/// Tiles of the merged gradients in f32. The products' patches are 8 × 8 and
/// 8 × 4 with the shared memory of sm_90a, and half of that or less otherwise.
static AttentionTiles getMergedTiles(const AttentionShape &shape, bool hopper) {
  AttentionTiles tiles;
  tiles.stages = 1;
  if (shape.depth <= 32) {
    tiles.rowTiles = 4;
    return tiles;
  }
  tiles.laneRows = 2;
  tiles.minBlocks = 1;
  if (hopper)
    tiles.warps = 8;
  if (shape.depth <= 64) {
    tiles.rowTiles = 8;
    // Masks by row and several heads take registers.
    bool narrow = shape.causal && shape.heads != shape.keyHeads &&
                  (shape.keys - shape.queries) % 128 != 0;
    tiles.columns = hopper && !narrow ? 128 : 64;
  } else {
    tiles.rowTiles = 4;
    tiles.columns = hopper ? 64 : 32;
  }
  return tiles;
}

/// The fastest measured on an H200 at depths 64 and 128 of those that fit into
/// `kMaxSharedBytes` and spill on no architecture.
AttentionTiles blurt::getAttentionTiles(AttentionKernel kernel,
                                        const AttentionShape &shape) {
  bool wide = shape.depth > 64;
  // Copies of single elements take registers.
  bool chunked = isAllChunked(shape);
  bool narrow = wide || !chunked;
  bool grouped = shape.heads != shape.keyHeads;
  AttentionTiles tiles;
  switch (shape.compute) {
  case DeviceCompute::F32:
    if (kernel == AttentionKernel::GradQKV)
      return getMergedTiles(shape, /*hopper=*/false);
    if (kernel == AttentionKernel::Forward)
      tiles.rowTiles = narrow ? 4 : 8;
    else
      tiles.rowTiles = wide ? 2 : 4;
    tiles.columns = wide ? 32 : 64;
    tiles.stages = 1;
    break;
  case DeviceCompute::TF32:
    if (kernel == AttentionKernel::Forward) {
      // A position takes registers, and comes with few queries.
      tiles.rowTiles = narrow || shape.hasPosition ? 1 : 2;
      tiles.columns = wide ? 32 : 64;
    } else if (kernel == AttentionKernel::GradQ) {
      tiles.rowTiles = narrow ? 1 : 2;
      tiles.columns = 32;
      tiles.stages = wide ? 1 : 2;
    } else {
      tiles.rowTiles = narrow || grouped ? 1 : 2;
      tiles.columns = wide || tiles.rowTiles == 2 ? 16 : 32;
      tiles.stages = wide ? 1 : 2;
    }
    break;
  case DeviceCompute::BF16:
    if (kernel == AttentionKernel::Forward) {
      tiles.rowTiles = narrow ? 1 : 2;
      tiles.keepA = true;
    } else if (kernel == AttentionKernel::GradQ) {
      tiles.rowTiles = narrow ? 1 : 2;
      tiles.columns = narrow ? 64 : 32;
    } else if (wide) {
      tiles.columns = grouped || !chunked ? 16 : 32;
    }
    break;
  }
  return tiles;
}

std::optional<AttentionTiles>
blurt::getHopperTiles(AttentionKernel kernel, const AttentionShape &shape) {
  bool isForward = kernel == AttentionKernel::Forward;
  constexpr int64_t kTile = 64;
  SmallVector<const RowStrides *> operands{&shape.q, &shape.k, &shape.v};
  if (isForward)
    operands.push_back(&shape.o);
  else
    operands.append({&shape.dO, &shape.dQ, &shape.dK, &shape.dV});
  if (shape.compute == DeviceCompute::F32) {
    // Copies of single elements take registers.
    if (shape.hasPosition || !isAllChunked(shape))
      return std::nullopt;
    if (isForward && shape.depth > 64) {
      AttentionTiles tiles = getAttentionTiles(kernel, shape);
      tiles.columns = 64;
      return tiles;
    }
    if (kernel != AttentionKernel::GradQKV || shape.depth <= 32)
      return std::nullopt;
    return getMergedTiles(shape, /*hopper=*/true);
  }
  if (shape.hasPosition || (shape.depth != 64 && shape.depth != 128) ||
      shape.queries < kTile || shape.keys < kTile ||
      shape.scalarAlignment % 16 != 0)
    return std::nullopt;
  // Copies of lse and delta start at multiples of 16 bytes.
  bool mapsScalars =
      kernel == AttentionKernel::GradKV && shape.compute == DeviceCompute::BF16;
  if (mapsScalars && shape.queries % 4 != 0)
    return std::nullopt;
  // What a tensor map can hold.
  constexpr int64_t kMaxStride = int64_t(1) << 40;
  constexpr int64_t kMaxExtent = int64_t(1) << 31;
  for (const RowStrides *strides : operands)
    if (!isChunked(shape, *strides) ||
        llvm::any_of(ArrayRef(*strides).take_front(3), [&](int64_t stride) {
          return stride <= 0 || stride * 4 >= kMaxStride;
        }))
      return std::nullopt;
  if (shape.batch * shape.heads * shape.queries >= kMaxExtent)
    return std::nullopt;
  bool wide = shape.depth == 128;
  AttentionTiles tiles;
  if (shape.compute == DeviceCompute::TF32) {
    // Deeper heads do not fit into registers and shared memory.
    if (wide && !isForward)
      return std::nullopt;
    tiles.warps = 8;
    // Rows that may not exist take registers that a second block needs.
    bool whole = shape.queries % kTile == 0 && shape.keys % kTile == 0;
    tiles.minBlocks = isForward && !wide && whole ? 2 : 1;
  } else if (isForward) {
    tiles.warps = wide ? 8 : 4;
    tiles.minBlocks = wide ? 2 : 5;
  } else if (kernel == AttentionKernel::GradQ) {
    tiles.minBlocks = wide ? 2 : 4;
  } else {
    tiles.minBlocks = wide ? 2 : 3;
  }
  return tiles;
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static LogicalResult checkShape(Location loc, const AttentionShape &shape,
                                ArrayRef<const RowStrides *> operands) {
  constexpr int64_t kMaxRows = int64_t(1) << 30;
  if (shape.depth < 1 || shape.depth > 128)
    return emitError(loc) << "attention with heads of depth " << shape.depth
                          << ", expected 1 to 128 on a CUDA device";
  if (shape.queries < 1 || shape.keys < 1 || shape.queries > kMaxRows ||
      shape.keys > kMaxRows)
    return emitError(loc) << "attention of " << shape.queries << " queries to "
                          << shape.keys << " keys, expected 1 to " << kMaxRows
                          << " of each on a CUDA device";
  if (shape.heads > 65535 || shape.batch > 65535)
    return emitError(loc) << "attention with " << shape.batch << " × "
                          << shape.heads
                          << " batch entries and heads, expected at most 65535 "
                             "of each on a CUDA device";
  bool isBF16 = shape.compute == DeviceCompute::BF16;
  if (isBF16 ? !shape.element.isBF16() : !shape.element.isF32())
    return emitError(loc) << "attention of element type " << shape.element
                          << ", expected " << (isBF16 ? "bf16" : "f32");
  for (const RowStrides *strides : operands)
    if ((*strides)[3] != 1 && shape.depth != 1)
      return emitError(loc) << "attention of an operand of stride "
                            << (*strides)[3] << " along its last dim, "
                            << "expected 1";
  return success();
}

static DeviceLaunch checkLaunch(DeviceLaunch launch) {
  assert(launch.sharedBytes <= kMaxSharedBytes &&
         "tiles need more shared memory than there is");
  return launch;
}

FailureOr<DeviceLaunch>
blurt::emitAttentionForward(gpu::GPUModuleOp module, Location loc,
                            StringRef name, const AttentionShape &shape,
                            std::optional<AttentionTiles> tiles) {
  if (failed(checkShape(loc, shape, {&shape.q, &shape.k, &shape.v, &shape.o})))
    return failure();
  AttentionEmission emission{
      module, loc, name, shape,
      tiles ? *tiles : getAttentionTiles(AttentionKernel::Forward, shape)};
  return checkLaunch(shape.compute == DeviceCompute::F32
                         ? emitForwardOnCudaCores(emission)
                         : emitForwardOnTensorCores(emission));
}

static LogicalResult checkBackward(Location loc, const AttentionShape &shape) {
  if (shape.hasPosition)
    return emitError(loc, "gradient of attention at a position");
  return checkShape(loc, shape,
                    {&shape.q, &shape.k, &shape.v, &shape.o, &shape.dO,
                     &shape.dQ, &shape.dK, &shape.dV});
}

FailureOr<DeviceLaunch>
blurt::emitAttentionGradQ(gpu::GPUModuleOp module, Location loc, StringRef name,
                          const AttentionShape &shape,
                          std::optional<AttentionTiles> tiles) {
  if (failed(checkBackward(loc, shape)))
    return failure();
  AttentionEmission emission{
      module, loc, name, shape,
      tiles ? *tiles : getAttentionTiles(AttentionKernel::GradQ, shape)};
  return checkLaunch(shape.compute == DeviceCompute::F32
                         ? emitGradQOnCudaCores(emission)
                         : emitGradQOnTensorCores(emission));
}

FailureOr<DeviceLaunch>
blurt::emitAttentionGradKV(gpu::GPUModuleOp module, Location loc,
                           StringRef name, const AttentionShape &shape,
                           std::optional<AttentionTiles> tiles) {
  if (failed(checkBackward(loc, shape)))
    return failure();
  AttentionEmission emission{
      module, loc, name, shape,
      tiles ? *tiles : getAttentionTiles(AttentionKernel::GradKV, shape)};
  return checkLaunch(shape.compute == DeviceCompute::F32
                         ? emitGradKVOnCudaCores(emission)
                         : emitGradKVOnTensorCores(emission));
}

FailureOr<DeviceLaunch>
blurt::emitAttentionGradQKV(gpu::GPUModuleOp module, Location loc,
                            StringRef name, const AttentionShape &shape,
                            std::optional<AttentionTiles> tiles) {
  assert(hasMergedGradients(shape) && "gradients are kernels of their own");
  if (failed(checkBackward(loc, shape)))
    return failure();
  AttentionEmission emission{
      module, loc, name, shape,
      tiles ? *tiles : getAttentionTiles(AttentionKernel::GradQKV, shape)};
  return checkLaunch(emitGradQKVOnCudaCores(emission));
}

FailureOr<DeviceLaunch> blurt::emitAttentionOnHopper(
    AttentionKernel kernel, gpu::GPUModuleOp module, Location loc,
    StringRef name, const AttentionShape &shape, const AttentionTiles &tiles) {
  bool isForward = kernel == AttentionKernel::Forward;
  if (failed(isForward ? checkShape(loc, shape,
                                    {&shape.q, &shape.k, &shape.v, &shape.o})
                       : checkBackward(loc, shape)))
    return failure();
  AttentionEmission emission{module, loc, name, shape, tiles};
  bool isBF16 = shape.compute == DeviceCompute::BF16;
  auto *emit = &emitGradKVOnHopper;
  if (shape.compute == DeviceCompute::F32)
    emit = isForward ? &emitForwardOnCudaCores : &emitGradQKVOnCudaCores;
  else if (isForward)
    emit = isBF16 ? &emitForwardOnHopper : &emitForwardOnHopperTF32;
  else if (kernel == AttentionKernel::GradQ)
    emit = isBF16 ? &emitGradQOnHopper : &emitGradQOnHopperTF32;
  else
    emit = isBF16 ? &emitGradKVOnHopper : &emitGradKVOnHopperTF32;
  DeviceLaunch launch = emit(emission);
  assert(launch.sharedBytes <= kMaxHopperSharedBytes &&
         "tiles need more shared memory than there is");
  return launch;
}

//===----------------------------------------------------------------------===//
// Delta
//===----------------------------------------------------------------------===//

int64_t blurt::getAttentionDeltaBytes(const AttentionShape &shape) {
  return shape.batch * shape.heads * shape.queries * 4;
}

FailureOr<DeviceLaunch> blurt::emitAttentionDelta(gpu::GPUModuleOp module,
                                                  Location loc, StringRef name,
                                                  const AttentionShape &shape) {
  if (failed(checkShape(loc, shape, {&shape.o, &shape.dO})))
    return failure();
  constexpr int32_t kThreads = 256;
  DeviceBuilder b(module, loc, name, 3, {2}, kThreads);
  AttentionBlock block(b, shape, {});
  GlobalRows o = block.rows(shape.o), dO = block.rows(shape.dO);
  auto lanes = int32_t(llvm::PowerOf2Ceil(o.chunks()));
  int32_t rows = kThreads / lanes;

  Value lane = b.rem(block.thread, lanes);
  Value row = b.add(b.mul(b.blockId(0), rows), b.div(block.thread, lanes));
  Value column = b.mul(lane, o.perChunk());
  // Every lane takes part in the shuffles.
  Value inside = b.min(row, shape.queries - 1);
  auto load = [&](unsigned operand, const GlobalRows &rows,
                  const RowStrides &strides) {
    return loadColumns(b, rows,
                       block.base(b.operand(operand), strides, block.headBlock),
                       inside, column);
  };
  SmallVector<Value> left = load(0, o, shape.o), right = load(1, dO, shape.dO);
  Value sum = b.f32(0);
  for (auto [l, r] : llvm::zip_equal(left, right))
    sum = b.fma(l, r, sum);
  for (int32_t mask = 1; mask < lanes; mask *= 2)
    sum = b.addF(sum, b.shuffleXor(sum, mask));
  Value writes = b.bitAnd(b.equal(lane, 0), b.lessThan(row, shape.queries));
  b.branch(writes, [&] {
    Value to = block.rowScalars(b.operand(2), block.headBlock);
    b.store(sum, b.advance(to, b.wideOffset(row, 4)), 4);
  });

  DeviceLaunch launch;
  launch.grid = {int32_t(llvm::divideCeil(shape.queries, rows)),
                 int32_t(shape.heads), int32_t(shape.batch)};
  launch.block = {kThreads, 1, 1};
  return launch;
}
