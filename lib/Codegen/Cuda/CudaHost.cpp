//===- CudaHost.cpp - the host side of programs for CUDA ------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "CudaHost.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::blurt;

CudaHost::CudaHost(ModuleOp module, int64_t workspaceOffset,
                   int64_t workspaceBytes, Archs archs)
    : HostEmitter(module), workspaceOffset(workspaceOffset),
      workspaceBytes(workspaceBytes), archs(archs) {
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  kernels = gpu::GPUModuleOp::create(b, module.getLoc(), "kernels");
  hopperKernels =
      gpu::GPUModuleOp::create(b, module.getLoc(), "kernels_sm_90a");
}

static DictionaryAttr describeKernel(Builder &b, StringRef symbol,
                                     Operation *op, unsigned numArguments,
                                     const DeviceLaunch &launch) {
  SmallVector<NamedAttribute> fields{
      b.getNamedAttr("symbol", b.getStringAttr(symbol)),
      b.getNamedAttr("source", b.getStringAttr(describeSource(op))),
      b.getNamedAttr("grid", b.getDenseI32ArrayAttr(launch.grid)),
      b.getNamedAttr("block", b.getDenseI32ArrayAttr(launch.block)),
      b.getNamedAttr("shared_bytes", b.getI64IntegerAttr(launch.sharedBytes)),
      b.getNamedAttr("num_args", b.getI64IntegerAttr(numArguments)),
      b.getNamedAttr("bytes", b.getI64IntegerAttr(launch.bytes)),
      b.getNamedAttr("flops", b.getI64IntegerAttr(launch.flops))};
  SmallVector<Attribute> maps;
  for (const DeviceMap &map : launch.maps)
    maps.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("operand", b.getI64IntegerAttr(map.operand)),
         b.getNamedAttr("dtype",
                        b.getI64IntegerAttr(map.element.isBF16() ? 2 : 1)),
         b.getNamedAttr("extents", b.getDenseI64ArrayAttr(map.extents)),
         b.getNamedAttr("strides", b.getDenseI64ArrayAttr(map.strides)),
         b.getNamedAttr("box", b.getDenseI64ArrayAttr(map.box)),
         b.getNamedAttr("swizzle", b.getI64IntegerAttr(map.swizzle))}));
  if (!maps.empty())
    fields.push_back(b.getNamedAttr("maps", b.getArrayAttr(maps)));
  return b.getDictionaryAttr(fields);
}

int32_t CudaHost::getKernel(
    StringRef key, StringRef name, Operation *op, unsigned numArguments,
    llvm::function_ref<DeviceLaunch(StringRef symbol)> emit,
    llvm::function_ref<DeviceLaunch(StringRef symbol)> emitForHopper) {
  auto [it, isNew] = kernelNumbers.try_emplace(key, kernelAttrs.size());
  if (!isNew)
    return it->second;
  std::string symbol = getSymbolName("bt", name, kernelAttrs.size());
  Builder b(op->getContext());
  auto emitTo =
      [&](gpu::GPUModuleOp module,
          llvm::function_ref<DeviceLaunch(StringRef)> emit) -> DictionaryAttr {
    DeviceLaunch launch = emit(symbol);
    auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(symbol);
    if (!function) // the emitter has said why
      return {};
    function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                      b.getDenseI32ArrayAttr(launch.block));
    // Left alone, ptxas would rather spill than have a block less on a
    // processor.
    if (!function->hasAttr(NVVM::NVVMDialect::getMinctasmAttrName()))
      function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                        b.getI32IntegerAttr(1));
    return describeKernel(b, symbol, op, numArguments, launch);
  };
  DictionaryAttr forHopper, forOthers;
  if (emitForHopper && archs.hopper)
    forHopper = emitTo(hopperKernels, emitForHopper);
  if (!forHopper || archs.others)
    forOthers = emitTo(kernels, emit);
  if (!forHopper)
    forHopper = forOthers;
  if (!forOthers)
    forOthers = forHopper;
  if (forOthers) {
    kernelAttrs.push_back(forOthers);
    hopperAttrs.push_back(forHopper);
  }
  return it->second;
}

int64_t blurt::getOperandBytes(ValueRange operands) {
  int64_t bytes = 0;
  for (Value operand : operands) {
    auto type = cast<MemRefType>(operand.getType());
    bytes += type.getNumElements() * getElementBytes(type.getElementType());
  }
  return bytes;
}

void CudaHost::launch(OpBuilder &builder, Location loc, int32_t kernel,
                      ValueRange operands) {
  Value number = arith::ConstantOp::create(builder, loc,
                                           builder.getI32IntegerAttr(kernel));
  Value arguments = storeArguments(builder, loc, operands);
  call(builder, loc, "blurt_launch", {number, arguments});
}

int32_t CudaHost::getGemm(Operation *op, ArrayRef<NamedAttribute> fields) {
  Builder b(op->getContext());
  auto [it, isNew] =
      gemmNumbers.insert({b.getDictionaryAttr(fields), gemmAttrs.size()});
  if (isNew) {
    SmallVector<NamedAttribute> all(fields);
    all.push_back(
        b.getNamedAttr("source", b.getStringAttr(describeSource(op))));
    gemmAttrs.push_back(b.getDictionaryAttr(all));
  }
  return it->second;
}

static Value advance(OpBuilder &builder, Location loc, Value arena,
                     int64_t offset) {
  Value at = arith::ConstantOp::create(builder, loc,
                                       builder.getI64IntegerAttr(offset));
  return LLVM::GEPOp::create(builder, loc, arena.getType(), builder.getI8Type(),
                             arena, ArrayRef<LLVM::GEPArg>{at});
}

Value CudaHost::getWorkspace(OpBuilder &builder, Location loc, int64_t offset) {
  return advance(builder, loc, arena, workspaceOffset + offset);
}

Value CudaHost::getCounters(OpBuilder &builder, Location loc) {
  return countersOffset ? advance(builder, loc, arena, *countersOffset)
                        : Value();
}

int64_t CudaHost::getAlignment(Value memref) {
  uint64_t alignment = 256;
  auto slot = memref.getDefiningOp<SlotOp>();
  if (!slot)
    return getElementBytes(getElementTypeOrSelf(memref.getType()));
  alignment = llvm::MinAlign(alignment, slot.getOffset());
  for (int64_t step : slot.getSteps())
    alignment = llvm::MinAlign(alignment, step);
  return alignment;
}

void CudaHost::finish() {
  Builder b(getModule().getContext());
  SmallVector<NamedAttribute> fields{
      b.getNamedAttr("kernels", b.getArrayAttr(kernelAttrs)),
      b.getNamedAttr("gemms", b.getArrayAttr(gemmAttrs)),
      b.getNamedAttr("workspace_offset", b.getI64IntegerAttr(workspaceOffset)),
      b.getNamedAttr("workspace_bytes", b.getI64IntegerAttr(workspaceBytes))};
  if (countersOffset)
    fields.push_back(b.getNamedAttr("counters_offset",
                                    b.getI64IntegerAttr(*countersOffset)));
  if (hopperAttrs != kernelAttrs)
    fields.push_back(
        b.getNamedAttr("kernels_sm_90a", b.getArrayAttr(hopperAttrs)));
  getModule()->setAttr("blurt.device", b.getDictionaryAttr(fields));
  for (gpu::GPUModuleOp module : {kernels, hopperKernels})
    if (module.getBody()->empty())
      module.erase();
}

LogicalResult CudaHost::emit(Operation *op) {
  numGroups += isa<GroupOp>(op);
  return emitFor(op, *this);
}

void CudaHost::emitStore(OpBuilder &builder, Location loc, Value value,
                         Value pointer) {
  if (value.getType().isIndex())
    value =
        arith::IndexCastOp::create(builder, loc, builder.getI64Type(), value);
  call(builder, loc, "blurt_device_store_i64", {pointer, value});
}
