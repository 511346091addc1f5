//===- LibraryKernels.cpp - products, scatter, cache on CUDA --*- C++ -*-===//
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
  set("dtype_extra", op.getBias() ? 1 : 0);
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
// Scatter-add
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
    blockY = wide(NVVM::BlockIdYOp::create(b, b.getI32Type()));
  }
  Value thread, blockX, blockY;
};
} // namespace

static Value isLess(KernelBuilder &b, Value lhs, Value rhs) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lhs, rhs);
}

/// Ids that a lane looks at in one go.
static constexpr int64_t kIds = 4;

/// The ids `first` … `first` + 3 as i64; those past the end are any id.
static SmallVector<Value> loadIds(KernelBuilder &b, Value ids, MemRefType type,
                                  int64_t alignment, Value first) {
  Type element = type.getElementType();
  int64_t count = type.getDimSize(0);
  auto [strides, offset] = type.getStridesAndOffset();
  Value vector;
  if (count % (32 * kIds) == 0 && strides[0] == 1)
    vector = LLVM::LoadOp::create(
        b, VectorType::get({kIds}, element), b.advance(element, ids, first),
        std::min<int64_t>(alignment, kIds * getElementBytes(element)));
  SmallVector<Value> result;
  for (int64_t i = 0; i < kIds; ++i) {
    Value id;
    if (vector) {
      id = vector::ExtractOp::create(b, vector, i);
    } else {
      Value at = b.min(b.add(first, b.i64(i)), b.i64(count - 1));
      id =
          b.loadScalar(element, b.advance(element, ids, b.mul(at, strides[0])));
    }
    if (element.isInteger(32))
      id = arith::ExtSIOp::create(b, b.getI64Type(), id);
    result.push_back(id);
  }
  return result;
}

/// A warp owns one row of the result and a block of its columns. It looks
/// through all ids, 128 at a time, and adds the updates of those that name its
/// row in ascending order.
LogicalResult blurt::emitScatterAdd(ScatterAddOp op, CudaHost &host) {
  auto idsType = cast<MemRefType>(op.getIds().getType());
  auto updatesType = cast<MemRefType>(op.getUpdates().getType());
  auto outType = cast<MemRefType>(op.getOuts()[0].getType());
  Type element = outType.getElementType();
  if (!element.isF32() && !element.isF64())
    return op.emitOpError("has element type ")
           << element
           << ", which the CUDA target cannot add up, expected f32 or f64";
  auto [idsStrides, o0] = idsType.getStridesAndOffset();
  auto [updatesStrides, o1] = updatesType.getStridesAndOffset();
  auto [outStrides, o2] = outType.getStridesAndOffset();
  int64_t rows = outType.getDimSize(0), columns = outType.getDimSize(1);
  int64_t count = idsType.getDimSize(0);

  auto alignmentOf = [&](Value value, int64_t rowStride) {
    return std::min<int64_t>(
        16, llvm::MinAlign(host.getAlignment(value),
                           rowStride * getElementBytes(element)));
  };
  int64_t alignUpdates = alignmentOf(op.getUpdates(), updatesStrides[0]);
  int64_t alignOut = alignmentOf(op.getOuts()[0], outStrides[0]);
  int64_t alignIds = std::min<int64_t>(16, host.getAlignment(op.getIds()));
  int64_t width = columns % 4 == 0 ? 4 : 1;
  int64_t vectors = columns / width;
  /// Vectors of a lane; the accumulators of a warp's block of columns.
  int64_t perLane = std::min<int64_t>(llvm::divideCeil(vectors, 32),
                                      std::max<int64_t>(1, 32 / width));
  int64_t columnBlocks = llvm::divideCeil(vectors, 32 * perLane);

  auto emit = [&, idsStrides = idsStrides, updatesStrides = updatesStrides,
               outStrides = outStrides](StringRef symbol) {
    KernelBuilder b(host.getKernels(), op.getLoc(), symbol, 3, width);
    Value ids = b.loadArgument(0), updates = b.loadArgument(1),
          out = b.loadArgument(2);
    Place place(b);
    Value lane = b.rem(place.thread, 32);
    Value row =
        b.add(b.mul(place.blockX, kThreads / 32), b.div(place.thread, 32));
    scf::IfOp isRow = b.branch(isLess(b, row, b.i64(rows)), false);
    b.setInsertionPoint(isRow.thenBlock()->getTerminator());

    SmallVector<Value> starts, valid, sums;
    for (int64_t i = 0; i < perLane; ++i) {
      Value vector =
          b.add(b.mul(place.blockY, 32 * perLane), b.add(lane, b.i64(32 * i)));
      valid.push_back(isLess(b, vector, b.i64(vectors)));
      starts.push_back(b.mul(b.min(vector, b.i64(vectors - 1)), width));
      sums.push_back(b.constant(b.laneType(element), 0));
    }
    scf::ForOp tiles = b.loop(b.i64(0), b.i64(count), 32 * kIds, sums);
    Operation *yield = tiles.getBody()->getTerminator();
    b.setInsertionPoint(yield);
    Type i32 = b.getI32Type();
    auto constant = [&](int32_t value) -> Value {
      return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
    };
    // Bit i is set if the lane's i-th id names the row.
    Value first = b.add(tiles.getInductionVar(), b.mul(lane, kIds));
    Value code = constant(0);
    SmallVector<Value> named = loadIds(b, ids, idsType, alignIds, first);
    for (auto [i, id] : llvm::enumerate(named)) {
      Value match = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, id, row);
      if (count % (32 * kIds) != 0)
        match = arith::AndIOp::create(
            b, match, isLess(b, b.add(first, b.i64(i)), b.i64(count)));
      code = arith::OrIOp::create(
          b, code,
          arith::SelectOp::create(b, match, constant(1 << i), constant(0)));
    }
    Value any =
        arith::CmpIOp::create(b, arith::CmpIPredicate::ne, code, constant(0));
    Value lanesLeft = NVVM::VoteSyncOp::create(b, i32, constant(-1), any,
                                               NVVM::VoteSyncKind::ballot);
    /// Runs `body` for each bit of `mask`, lowest first.
    auto forBits = [&](Value mask, ValueRange inits, auto body) {
      SmallVector<Value> all{mask};
      llvm::append_range(all, inits);
      auto loop = scf::WhileOp::create(
          b, ValueRange(all).getTypes(), all,
          [&](OpBuilder &nested, Location loc, ValueRange values) {
            Value zero = arith::ConstantOp::create(nested, loc,
                                                   nested.getI32IntegerAttr(0));
            Value more = arith::CmpIOp::create(
                nested, loc, arith::CmpIPredicate::ne, values[0], zero);
            scf::ConditionOp::create(nested, loc, more, values);
          },
          [&](OpBuilder &nested, Location loc, ValueRange values) {
            OpBuilder::InsertionGuard guard(b);
            b.setInsertionPoint(nested.getInsertionBlock(),
                                nested.getInsertionPoint());
            Value bit = LLVM::CountTrailingZerosOp::create(b, i32, values[0],
                                                           b.getBoolAttr(true));
            SmallVector<Value> next{arith::AndIOp::create(
                b, values[0],
                arith::SubIOp::create(b, values[0], constant(1)))};
            llvm::append_range(next, body(bit, values.drop_front()));
            scf::YieldOp::create(b, next);
          });
      return llvm::to_vector_of<Value>(loop.getResults().drop_front());
    };
    SmallVector<Value> results = forBits(
        lanesLeft, tiles.getRegionIterArgs(),
        [&](Value owner, ValueRange values) {
          Value bits = NVVM::ShflOp::create(b, i32, constant(-1), code, owner,
                                            constant(31), NVVM::ShflKind::idx,
                                            UnitAttr());
          Value base = b.add(
              tiles.getInductionVar(),
              b.mul(arith::ExtUIOp::create(b, b.getI64Type(), owner), kIds));
          return forBits(bits, values, [&](Value bit, ValueRange sums) {
            Value which =
                b.add(base, arith::ExtUIOp::create(b, b.getI64Type(), bit));
            Value from =
                b.advance(element, updates, b.mul(which, updatesStrides[0]));
            SmallVector<Value> next;
            for (int64_t i = 0; i < perLane; ++i) {
              Value update = b.loadVector(
                  element,
                  b.advance(element, from, b.mul(starts[i], updatesStrides[1])),
                  updatesStrides[1], {}, alignUpdates);
              next.push_back(arith::AddFOp::create(b, sums[i], update));
            }
            return next;
          });
        });
    yield->setOperands(results);
    b.setInsertionPoint(isRow.thenBlock()->getTerminator());
    Value to = b.advance(element, out, b.mul(row, outStrides[0]));
    for (int64_t i = 0; i < perLane; ++i) {
      scf::IfOp store = b.branch(valid[i], false);
      b.atEnd(store.thenBlock(), [&] {
        b.storeVector(element, tiles.getResult(i),
                      b.advance(element, to, b.mul(starts[i], outStrides[1])),
                      outStrides[1], {}, alignOut);
      });
    }
    DeviceLaunch launch;
    launch.grid = {int32_t(llvm::divideCeil(rows, kThreads / 32)),
                   int32_t(columnBlocks), 1};
    launch.block = {int32_t(kThreads), 1, 1};
    launch.bytes =
        getOperandBytes({op.getIds(), op.getUpdates(), op.getOuts()[0]});
    launch.flops = count * columns;
    return launch;
  };
  std::string key = getStructureKey(op) + " " + std::to_string(alignUpdates) +
                    " " + std::to_string(alignOut) + " " +
                    std::to_string(alignIds);
  int32_t kernel = host.getKernel(key, "scatter_add", op, 3, emit);
  OpBuilder builder(op);
  host.launch(builder, op.getLoc(), kernel,
              {op.getIds(), op.getUpdates(), op.getOuts()[0]});
  return success();
}

//===----------------------------------------------------------------------===//
// Cache update
//===----------------------------------------------------------------------===//

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
