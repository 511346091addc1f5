//===- LibraryKernels.cpp - products, cache, attention on CUDA -*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "AttentionKernels.h"
#include "CudaHost.h"
#include "GemmProblem.h"
#include "KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::blurt;

static constexpr int64_t kThreads = 256;

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// blurt_dtype of `type`, or failure.
static FailureOr<int64_t> getDtype(Type type) {
  if (type.isF32())
    return 1;
  if (type.isBF16())
    return 2;
  return failure();
}

LogicalResult blurt::emitGemm(GemmOp op, CudaHost &host) {
  if (op.getSplit())
    return emitSplitGemm(op, host);
  Value out = op.getOuts()[0];
  Type elementA = getElementTypeOrSelf(op.getA().getType());
  Type elementC = getElementTypeOrSelf(out.getType());
  FailureOr<int64_t> dtypeA = getDtype(elementA), dtypeC = getDtype(elementC);
  if (failed(dtypeA) || failed(dtypeC))
    return op.emitOpError("multiplies ")
           << elementA << " into " << elementC
           << ", which the CUDA target cannot, expected f32 or bf16";
  GemmProblem p = GemmProblem::get(op);
  if (op.getBias() && p.c.transposed)
    return op.emitOpError("has a bias along rows of the stored output, which "
                          "the library does not add");
  int64_t compute = elementA.isBF16() ? 2 : op.getTf32() ? 1 : 0;
  Builder b(op.getContext());
  SmallVector<NamedAttribute> fields;
  auto set = [&](StringRef name, int64_t value) {
    fields.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(value)));
  };
  set("compute", compute);
  set("epilogue", op.getBias() ? 1 : 0);
  set("dtype_ab", *dtypeA);
  set("dtype_c", *dtypeC);
  set("dtype_extra", op.getBias() ? *dtypeC : 0);
  set("trans_a", p.transA);
  set("trans_b", p.transB);
  set("accumulate", op.getC() ? 1 : 0);
  set("batch", p.batch);
  set("m", p.m);
  set("n", p.n);
  set("k", p.k);
  set("lda", p.a.ld);
  set("ldb", p.b.ld);
  set("ldc", p.c.ld);
  set("stride_a", p.a.stride);
  set("stride_b", p.b.stride);
  set("stride_c", p.c.stride);
  set("align_a", host.getAlignment(p.aValue));
  set("align_b", host.getAlignment(p.bValue));
  set("align_c", host.getAlignment(out));
  int32_t number = host.getGemm(op, fields);

  OpBuilder builder(op);
  Location loc = op.getLoc();
  Value index = arith::ConstantOp::create(builder, loc,
                                          builder.getI32IntegerAttr(number));
  Value none = LLVM::ZeroOp::create(
      builder, loc, LLVM::LLVMPointerType::get(builder.getContext()));
  host.call(builder, loc, "blurt_device_product",
            {index, host.getPointer(p.aValue), host.getPointer(p.bValue),
             host.getPointer(out),
             op.getBias() ? host.getPointer(op.getBias()) : none});
  return success();
}

//===----------------------------------------------------------------------===//
// Cache update
//===----------------------------------------------------------------------===//

namespace {
/// The thread's place, as i64.
struct Place {
  explicit Place(KernelBuilder &b) {
    auto wide = [&](Value number) -> Value {
      return arith::ExtUIOp::create(b, b.getI64Type(), number);
    };
    thread = wide(NVVM::ThreadIdXOp::create(b, b.getI32Type()));
    blockX = wide(NVVM::BlockIdXOp::create(b, b.getI32Type()));
  }
  Value thread, blockX;
};
} // namespace

/// A thread copies one element after another.
LogicalResult blurt::emitCacheUpdate(CacheUpdateOp op, CudaHost &host) {
  auto cacheType = cast<MemRefType>(op.getCache().getType());
  auto rowsType = cast<MemRefType>(op.getRows().getType());
  Type storage = getStorageType(cacheType.getElementType());
  auto [cacheStrides, o0] = cacheType.getStridesAndOffset();
  auto [rowsStrides, o1] = rowsType.getStridesAndOffset();
  int64_t total = rowsType.getNumElements();
  int64_t blocks =
      std::clamp<int64_t>(llvm::divideCeil(total, kThreads), 1, 4096);

  auto emit = [&, cacheStrides = cacheStrides,
               rowsStrides = rowsStrides](StringRef symbol) {
    KernelBuilder b(host.getKernels(), op.getLoc(), symbol, 3, 1);
    Value to = b.loadArgument(0), from = b.loadArgument(1);
    Value position = b.loadScalar(b.getI64Type(), b.loadArgument(2));
    Place place(b);
    Value first = b.add(b.mul(place.blockX, kThreads), place.thread);
    scf::ForOp loop = b.loop(first, b.i64(total), blocks * kThreads);
    b.setInsertionPoint(loop.getBody()->getTerminator());
    Value rest = loop.getInductionVar();
    Value toOffset = b.mul(position, cacheStrides[1]);
    Value fromOffset = b.i64(0);
    for (int64_t dim = rowsType.getRank() - 1; dim >= 0; --dim) {
      int64_t extent = rowsType.getDimSize(dim);
      Value at = dim == 0 ? rest : b.rem(rest, extent);
      rest = b.div(rest, extent);
      toOffset = b.add(toOffset, b.mul(at, cacheStrides[dim]));
      fromOffset = b.add(fromOffset, b.mul(at, rowsStrides[dim]));
    }
    int64_t bytes = getElementBytes(cacheType.getElementType());
    Value value = LLVM::LoadOp::create(
        b, storage, b.advance(storage, from, fromOffset), bytes);
    LLVM::StoreOp::create(b, value, b.advance(storage, to, toOffset), bytes);
    DeviceLaunch launch;
    launch.grid = {int32_t(blocks), 1, 1};
    launch.block = {int32_t(kThreads), 1, 1};
    launch.bytes = 2 * getOperandBytes(op.getRows());
    return launch;
  };
  int32_t kernel =
      host.getKernel(getStructureKey(op), "cache_update", op, 3, emit);
  OpBuilder builder(op);
  host.launch(builder, op.getLoc(), kernel,
              {op.getCache(), op.getRows(), op.getPosition()});
  return success();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

static RowStrides getRowStrides(Value value) {
  auto [strides, offset] =
      cast<MemRefType>(value.getType()).getStridesAndOffset();
  return {strides[0], strides[1], strides[2], strides[3]};
}

template <typename Op> static AttentionShape getShape(Op op, CudaHost &host) {
  auto q = cast<MemRefType>(op.getQ().getType());
  auto k = cast<MemRefType>(op.getK().getType());
  AttentionShape shape;
  shape.batch = q.getDimSize(0);
  shape.queries = q.getDimSize(1);
  shape.heads = q.getDimSize(2);
  shape.depth = q.getDimSize(3);
  shape.keys = k.getDimSize(1);
  shape.keyHeads = k.getDimSize(2);
  shape.q = getRowStrides(op.getQ());
  shape.k = getRowStrides(op.getK());
  shape.v = getRowStrides(op.getV());
  shape.causal = op.getCausal();
  shape.scale = op.getScale().convertToDouble();
  shape.element = q.getElementType();
  shape.compute = shape.element.isBF16() ? DeviceCompute::BF16
                  : op.getTf32()         ? DeviceCompute::TF32
                                         : DeviceCompute::F32;
  return shape;
}

/// The bytes that divide the addresses of all of `values`.
static int64_t getCommonAlignment(CudaHost &host, ValueRange values) {
  int64_t alignment = 16;
  for (Value value : values)
    alignment = std::min(alignment, host.getAlignment(value));
  return alignment;
}

static LogicalResult checkElement(Operation *op, Type element) {
  if (element.isF32() || element.isBF16())
    return success();
  return op->emitOpError("has element type ")
         << element
         << ", which the CUDA target cannot attend to, expected f32 "
            "or bf16";
}

/// Operations of one product of all queries with all keys, or of the half that
/// a causal one needs. With a position, how many keys there are is not known.
static int64_t getProductFlops(const AttentionShape &shape) {
  int64_t flops =
      2 * shape.batch * shape.heads * shape.queries * shape.keys * shape.depth;
  return shape.causal && !shape.hasPosition ? flops / 2 : flops;
}

using EmitKernel = llvm::function_ref<FailureOr<DeviceLaunch>(StringRef)>;

/// The number of the kernel that `emit` makes, or failure after its error; and
/// of its form for sm_90a, by `kernel`, if it has one.
static FailureOr<int32_t> getKernel(CudaHost &host, const std::string &key,
                                    StringRef name, Operation *op,
                                    unsigned numArguments, int64_t bytes,
                                    int64_t flops, const AttentionShape &shape,
                                    std::optional<AttentionKernel> kernel,
                                    EmitKernel emit) {
  bool ok = true;
  auto checked = [&](FailureOr<DeviceLaunch> launch) {
    ok &= succeeded(launch);
    if (failed(launch))
      return DeviceLaunch();
    launch->bytes = bytes;
    launch->flops = flops;
    return *launch;
  };
  auto plain = [&](StringRef symbol) { return checked(emit(symbol)); };
  std::optional<AttentionTiles> tiles;
  if (kernel)
    tiles = getHopperTiles(*kernel, shape);
  auto forHopper = [&](StringRef symbol) {
    return checked(emitAttentionOnHopper(*kernel, host.getHopperKernels(),
                                         op->getLoc(), symbol, shape, *tiles));
  };
  int32_t number =
      tiles ? host.getKernel(key, name, op, numArguments, plain, forHopper)
            : host.getKernel(key, name, op, numArguments, plain);
  if (!ok)
    return failure();
  return number;
}

LogicalResult blurt::emitAttention(AttentionOp op, CudaHost &host) {
  AttentionShape shape = getShape(op, host);
  if (failed(checkElement(op, shape.element)))
    return failure();
  Value o = op.getOuts()[0], lse = op.getOuts()[1];
  shape.o = getRowStrides(o);
  shape.hasPosition = bool(op.getPosition());
  shape.alignment =
      getCommonAlignment(host, {op.getQ(), op.getK(), op.getV(), o});
  SmallVector<Value> operands{op.getQ(), op.getK(), op.getV()};
  if (shape.hasPosition)
    operands.push_back(op.getPosition());
  llvm::append_range(operands, ValueRange{o, lse});
  std::string key = getStructureKey(op) + " " + std::to_string(shape.alignment);
  FailureOr<int32_t> kernel =
      getKernel(host, key, "attention", op, operands.size(),
                getOperandBytes(operands), 2 * getProductFlops(shape), shape,
                AttentionKernel::Forward, [&](StringRef symbol) {
                  return emitAttentionForward(host.getKernels(), op.getLoc(),
                                              symbol, shape);
                });
  if (failed(kernel))
    return failure();
  OpBuilder builder(op);
  host.launch(builder, op.getLoc(), *kernel, operands);
  return success();
}

LogicalResult blurt::emitAttentionGrad(AttentionGradOp op, CudaHost &host) {
  AttentionShape shape = getShape(op, host);
  if (failed(checkElement(op, shape.element)))
    return failure();
  Value dQ = op.getOuts()[0], dK = op.getOuts()[1], dV = op.getOuts()[2];
  shape.o = getRowStrides(op.getO());
  shape.dO = getRowStrides(op.getDO());
  shape.dQ = getRowStrides(dQ);
  shape.dK = getRowStrides(dK);
  shape.dV = getRowStrides(dV);
  shape.alignment =
      getCommonAlignment(host, {op.getQ(), op.getK(), op.getV(), op.getO(),
                                op.getDO(), dQ, dK, dV});
  if (getAttentionDeltaBytes(shape) > host.getWorkspaceBytes())
    return op.emitOpError("needs a workspace of ")
           << getAttentionDeltaBytes(shape) << " bytes, the plan has "
           << host.getWorkspaceBytes();
  OpBuilder builder(op);
  Value delta = host.getWorkspace(builder, op.getLoc());
  shape.scalarAlignment = std::min<int64_t>(
      getCommonAlignment(host, op.getLse()), host.getWorkspaceAlignment());
  std::string key = getStructureKey(op) + " " +
                    std::to_string(shape.alignment) + " " +
                    std::to_string(shape.scalarAlignment);
  auto launch = [&](StringRef name, std::optional<AttentionKernel> kernel,
                    ArrayRef<Value> operands, int64_t flops,
                    EmitKernel emit) -> LogicalResult {
    int64_t bytes = getAttentionDeltaBytes(shape);
    for (Value operand : operands)
      if (operand != delta)
        bytes += getOperandBytes(operand);
    FailureOr<int32_t> number =
        getKernel(host, key + name.str(), name, op, operands.size(), bytes,
                  flops, shape, kernel, emit);
    if (failed(number))
      return failure();
    host.launch(builder, op.getLoc(), *number, operands);
    return success();
  };
  gpu::GPUModuleOp module = host.getKernels();
  Location loc = op.getLoc();
  SmallVector<Value> read{op.getQ(),   op.getK(),  op.getV(),
                          op.getLse(), op.getDO(), delta};
  auto with = [&](ArrayRef<Value> written) {
    SmallVector<Value> all(read);
    llvm::append_range(all, written);
    return all;
  };
  // Five products by the usual count; kernels of their own compute the scores
  // anew.
  int64_t product = getProductFlops(shape);
  int64_t rowFlops =
      2 * shape.batch * shape.heads * shape.queries * shape.depth;
  if (failed(launch("attention_delta", std::nullopt,
                    {op.getO(), op.getDO(), delta}, rowFlops,
                    [&](StringRef symbol) {
                      return emitAttentionDelta(module, loc, symbol, shape);
                    })))
    return failure();
  if (hasMergedGradients(shape))
    return launch("attention_grad", AttentionKernel::GradQKV,
                  with({dQ, dK, dV}), 5 * product, [&](StringRef symbol) {
                    return emitAttentionGradQKV(module, loc, symbol, shape);
                  });
  return failure(
      failed(launch("attention_grad_q", AttentionKernel::GradQ, with({dQ}),
                    3 * product,
                    [&](StringRef symbol) {
                      return emitAttentionGradQ(module, loc, symbol, shape);
                    })) ||
      failed(launch("attention_grad_kv", AttentionKernel::GradKV,
                    with({dK, dV}), 4 * product, [&](StringRef symbol) {
                      return emitAttentionGradKV(module, loc, symbol, shape);
                    })));
}
