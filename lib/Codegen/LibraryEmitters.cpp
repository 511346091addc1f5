//===- LibraryEmitters.cpp - GEMM calls, scatter, cache -------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "CpuHost.h"
#include "GemmProblem.h"
#include "GroupEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::blurt;

LogicalResult blurt::emitGroup(GroupOp op, CpuHost &host) {
  const Kernel &kernel =
      host.getKernel(getStructureKey(op), op.getKernel(), op.getLoc(),
                     [&](KernelBuilder &builder, Kernel &kernel) {
                       GroupEmitter emitter(op, builder);
                       emitter.emit();
                       kernel.tasks = emitter.getNumTasks();
                       kernel.grain = emitter.getGrain();
                     });
  OpBuilder builder(op);
  host.launch(builder, op.getLoc(), kernel, op.getOperands());
  return success();
}

//===----------------------------------------------------------------------===//
// GEMM
//===----------------------------------------------------------------------===//

LogicalResult blurt::emitGemm(GemmOp op, CpuHost &host) {
  if (op.getBias())
    return op.emitOpError("has a bias, which the CPU target adds in groups");
  if (op.getTf32())
    return op.emitOpError("is tf32, which the CPU target does not have");
  if (op.getSplit())
    return op.emitOpError("is split, which the CPU target does not have");
  Type operand = getElementTypeOrSelf(op.getA().getType());
  Type element = getElementTypeOrSelf(op.getOuts()[0].getType());
  GemmProblem p = GemmProblem::get(op);
  OpBuilder builder(op);
  Location loc = op.getLoc();
  auto i32 = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getI32IntegerAttr(value));
  };
  auto i64 = [&](int64_t value) -> Value {
    return arith::ConstantOp::create(builder, loc,
                                     builder.getI64IntegerAttr(value));
  };
  Value beta = arith::ConstantOp::create(
      builder, loc,
      builder.getFloatAttr(GroupOp::getScalarType(element),
                           op.getC() ? 1.0 : 0.0));
  SmallVector<Value> arguments{i32(p.transA),
                               i32(p.transB),
                               i64(p.batch),
                               i64(p.m),
                               i64(p.n),
                               i64(p.k),
                               host.getPointer(p.aValue),
                               i64(p.a.ld),
                               i64(p.a.stride),
                               host.getPointer(p.bValue),
                               i64(p.b.ld),
                               i64(p.b.stride),
                               beta};
  if (operand.isBF16())
    arguments.push_back(i32(element.isBF16()));
  arguments.append(
      {host.getPointer(op.getOuts()[0]), i64(p.c.ld), i64(p.c.stride)});
  host.call(builder, loc,
            operand.isBF16()  ? "blurt_gemm_bf16"
            : operand.isF32() ? "blurt_gemm_f32"
                              : "blurt_gemm_f64",
            arguments);
  return success();
}

//===----------------------------------------------------------------------===//
// Scatter-add
//===----------------------------------------------------------------------===//

LogicalResult blurt::emitScatterAdd(ScatterAddOp op, CpuHost &host) {
  auto idsType = cast<MemRefType>(op.getIds().getType());
  auto updatesType = cast<MemRefType>(op.getUpdates().getType());
  auto outType = cast<MemRefType>(op.getOuts()[0].getType());
  Type element = outType.getElementType();
  if (!element.isF32() && !element.isF64())
    return op.emitOpError("has element type ")
           << element
           << ", which the CPU target cannot add up, expected f32 "
              "or f64";
  constexpr int64_t kBlock = 4 * kLanes;
  int64_t columns = outType.getDimSize(1);
  int64_t blocks = llvm::divideCeil(columns, kBlock);
  auto [idsStrides, o0] = idsType.getStridesAndOffset();
  auto [updatesStrides, o1] = updatesType.getStridesAndOffset();
  auto [outStrides, o2] = outType.getStridesAndOffset();

  auto emit = [&, idsStrides = idsStrides, updatesStrides = updatesStrides,
               outStrides = outStrides](KernelBuilder &b, Kernel &kernel) {
    kernel.tasks = blocks;
    kernel.grain = std::max<int64_t>(
        1,
        (1 << 14) / (kBlock * (idsType.getDimSize(0) + outType.getDimSize(0))));
    Value ids = b.loadArgument(0), updates = b.loadArgument(1),
          out = b.loadArgument(2);
    scf::ForOp tasks = b.loop(b.getBegin(), b.getEnd(), 1);
    b.setInsertionPoint(tasks.getBody()->getTerminator());
    Value start = b.mul(tasks.getInductionVar(), kBlock);
    Value stop = b.min(b.add(start, b.i64(kBlock)), b.i64(columns));

    /// Walks the task's columns of one row, vector by vector.
    auto forColumns = [&](llvm::function_ref<void(Value, Lanes)> body) {
      scf::ForOp loop = b.loop(start, stop, kLanes);
      b.atEnd(loop.getBody(), [&] {
        Lanes lanes;
        if (columns % kLanes != 0)
          lanes = b.lanes(b.sub(b.i64(columns), loop.getInductionVar()));
        body(loop.getInductionVar(), lanes);
      });
    };
    scf::ForOp rows = b.loop(b.i64(0), b.i64(outType.getDimSize(0)), 1);
    b.atEnd(rows.getBody(), [&] {
      Value row =
          b.advance(element, out, b.mul(rows.getInductionVar(), outStrides[0]));
      forColumns([&](Value at, Lanes lanes) {
        b.storeVector(element, b.constant(getLaneType(element), 0),
                      b.advance(element, row, b.mul(at, outStrides[1])),
                      outStrides[1], lanes);
      });
    });
    scf::ForOp names = b.loop(b.i64(0), b.i64(idsType.getDimSize(0)), 1);
    b.atEnd(names.getBody(), [&] {
      Value n = names.getInductionVar();
      Type idType = idsType.getElementType();
      Value id =
          b.loadScalar(idType, b.advance(idType, ids, b.mul(n, idsStrides[0])));
      if (idType.isInteger(32))
        id = arith::ExtSIOp::create(b, b.getI64Type(), id);
      Value row = b.advance(element, out, b.mul(id, outStrides[0]));
      Value from = b.advance(element, updates, b.mul(n, updatesStrides[0]));
      forColumns([&](Value at, Lanes lanes) {
        Value to = b.advance(element, row, b.mul(at, outStrides[1]));
        Value old = b.loadVector(element, to, outStrides[1], lanes);
        Value update = b.loadVector(
            element, b.advance(element, from, b.mul(at, updatesStrides[1])),
            updatesStrides[1], lanes);
        b.storeVector(element, arith::AddFOp::create(b, old, update), to,
                      outStrides[1], lanes);
      });
    });
  };
  const Kernel &kernel =
      host.getKernel(getStructureKey(op), "scatter_add", op.getLoc(), emit);
  OpBuilder builder(op);
  host.launch(builder, op.getLoc(), kernel,
              {op.getIds(), op.getUpdates(), op.getOuts()[0]});
  return success();
}

//===----------------------------------------------------------------------===//
// Cache update
//===----------------------------------------------------------------------===//

LogicalResult blurt::emitCacheUpdate(CacheUpdateOp op, CpuHost &host) {
  auto cacheType = cast<MemRefType>(op.getCache().getType());
  auto rowsType = cast<MemRefType>(op.getRows().getType());
  Type element = cacheType.getElementType();
  auto [cacheStrides, o0] = cacheType.getStridesAndOffset();
  auto [rowsStrides, o1] = rowsType.getStridesAndOffset();

  // The dims after the first two, neighbours merged where both sides allow.
  SmallVector<int64_t> extents{1}, toStrides{0}, fromStrides{0};
  for (int64_t dim = 2; dim < cacheType.getRank(); ++dim) {
    int64_t extent = cacheType.getDimSize(dim);
    if (extent == 1)
      continue;
    if (toStrides.back() == cacheStrides[dim] * extent &&
        fromStrides.back() == rowsStrides[dim] * extent) {
      extents.back() *= extent;
      toStrides.back() = cacheStrides[dim];
      fromStrides.back() = rowsStrides[dim];
    } else {
      extents.push_back(extent);
      toStrides.push_back(cacheStrides[dim]);
      fromStrides.push_back(rowsStrides[dim]);
    }
  }

  auto emit = [&, cacheStrides = cacheStrides,
               rowsStrides = rowsStrides](KernelBuilder &b, Kernel &kernel) {
    int64_t batch = rowsType.getDimSize(0), rows = rowsType.getDimSize(1);
    int64_t row =
        rowsType.getNumElements() / std::max<int64_t>(1, batch * rows);
    kernel.tasks = batch * rows;
    kernel.grain = std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, row));
    Value to = b.loadArgument(0), from = b.loadArgument(1);
    Value position = b.loadScalar(b.getI64Type(), b.loadArgument(2));
    scf::ForOp tasks = b.loop(b.getBegin(), b.getEnd(), 1);
    b.setInsertionPoint(tasks.getBody()->getTerminator());
    Value t = b.rem(tasks.getInductionVar(), rows);
    Value n = b.div(tasks.getInductionVar(), rows);
    Value toOffset = b.add(b.mul(n, cacheStrides[0]),
                           b.mul(b.add(position, t), cacheStrides[1]));
    Value fromOffset =
        b.add(b.mul(n, rowsStrides[0]), b.mul(t, rowsStrides[1]));
    for (unsigned dim = 0; dim + 1 < extents.size(); ++dim) {
      if (extents[dim] == 1)
        continue;
      scf::ForOp loop = b.loop(b.i64(0), b.i64(extents[dim]), 1);
      b.setInsertionPoint(loop.getBody()->getTerminator());
      Value i = loop.getInductionVar();
      toOffset = b.add(toOffset, b.mul(i, toStrides[dim]));
      fromOffset = b.add(fromOffset, b.mul(i, fromStrides[dim]));
    }
    int64_t extent = extents.back();
    int64_t toStride = toStrides.back(), fromStride = fromStrides.back();
    if (extent == 1)
      toStride = fromStride = 1;
    to = b.advance(element, to, toOffset);
    from = b.advance(element, from, fromOffset);
    if (toStride == 1 && fromStride == 1) {
      LLVM::MemcpyOp::create(b, to, from,
                             b.i64(extent * getElementBytes(element)), false);
      return;
    }
    scf::ForOp loop = b.loop(b.i64(0), b.i64(extent), 1);
    b.setInsertionPoint(loop.getBody()->getTerminator());
    Value i = loop.getInductionVar();
    Value value =
        LLVM::LoadOp::create(b, getStorageType(element),
                             b.advance(element, from, b.mul(i, fromStride)),
                             getElementBytes(element));
    LLVM::StoreOp::create(b, value, b.advance(element, to, b.mul(i, toStride)),
                          getElementBytes(element));
  };
  const Kernel &kernel =
      host.getKernel(getStructureKey(op), "cache_update", op.getLoc(), emit);
  OpBuilder builder(op);
  host.launch(builder, op.getLoc(), kernel,
              {op.getCache(), op.getRows(), op.getPosition()});
  return success();
}
