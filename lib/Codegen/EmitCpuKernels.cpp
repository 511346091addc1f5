//===- EmitCpuKernels.cpp - planned ops to kernels and calls --*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "HostEmitter.h"

#include "blutrain/Codegen/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/SHA256.h"

namespace mlir::blurt {
#define GEN_PASS_DEF_BLURTEMITCPUKERNELS
#include "blutrain/Codegen/Passes.h.inc"
} // namespace mlir::blurt

using namespace mlir;
using namespace mlir::blurt;

namespace {
struct EmitCpuKernels : blurt::impl::BlurtEmitCpuKernelsBase<EmitCpuKernels> {
  void runOnOperation() override;
  LogicalResult convertFunction(func::FuncOp function, HostEmitter &host);
};
} // namespace

/// The address of a slot, computed where the slot is.
static Value emitSlot(SlotOp slot, Value arena) {
  ImplicitLocOpBuilder b(slot.getLoc(), slot);
  Value offset =
      arith::ConstantOp::create(b, b.getI64IntegerAttr(slot.getOffset()));
  for (auto [iteration, step] :
       llvm::zip_equal(slot.getIterations(), slot.getSteps())) {
    Value index = arith::IndexCastOp::create(b, b.getI64Type(), iteration);
    Value scale = arith::ConstantOp::create(b, b.getI64IntegerAttr(step));
    offset = arith::AddIOp::create(b, offset,
                                   arith::MulIOp::create(b, index, scale));
  }
  return LLVM::GEPOp::create(b, arena.getType(), b.getI8Type(), arena,
                             ArrayRef<LLVM::GEPArg>{offset});
}

/// Calls that take memrefs (debug hooks) take pointers from here on.
static void convertCall(func::CallOp call, HostEmitter &host) {
  auto ptr = LLVM::LLVMPointerType::get(call.getContext());
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  for (OpOperand &operand : call->getOpOperands())
    if (Value pointer = host.getPointer(operand.get()))
      operand.set(pointer);
  if (!callee || !callee.isExternal())
    return;
  SmallVector<Type> types;
  for (Type type : callee.getArgumentTypes())
    types.push_back(isa<MemRefType>(type) ? Type(ptr) : type);
  callee.setType(
      FunctionType::get(call.getContext(), types, callee.getResultTypes()));
}

LogicalResult EmitCpuKernels::convertFunction(func::FuncOp function,
                                              HostEmitter &host) {
  auto ptr = LLVM::LLVMPointerType::get(&getContext());
  Block &entry = function.getBody().front();
  if (entry.getNumArguments() == 0 || entry.getArgument(0).getType() != ptr) {
    // Functions without a context belong to others.
    bool ours = false;
    function.walk([&](Operation *op) {
      ours |= isa_and_nonnull<BlurtDialect>(op->getDialect());
    });
    if (!ours)
      return success();
    return function.emitError("first argument is not the runtime's context, "
                              "expected !llvm.ptr");
  }

  // Memref arguments (the arena) become pointers.
  SmallVector<Type> types;
  SmallVector<unsigned> replaced;
  for (unsigned i = 0; i < entry.getNumArguments(); ++i) {
    BlockArgument argument = entry.getArgument(i);
    if (isa<MemRefType>(argument.getType())) {
      BlockArgument pointer = entry.insertArgument(i, ptr, argument.getLoc());
      host.setPointer(entry.getArgument(i + 1), pointer);
      replaced.push_back(i + 1);
      types.push_back(ptr);
      ++i;
    } else {
      types.push_back(argument.getType());
    }
  }
  host.enter(entry.getArgument(0), &entry);

  SmallVector<Operation *> done;
  WalkResult result = function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    LogicalResult converted =
        llvm::TypeSwitch<Operation *, LogicalResult>(op)
            .Case([&](SlotOp slot) {
              host.setPointer(slot,
                              emitSlot(slot, host.getPointer(slot.getArena())));
              return success();
            })
            .Case([&](GroupOp group) {
              ++numGroups;
              return emitGroup(group, host);
            })
            .Case([&](GemmOp gemm) { return emitGemm(gemm, host); })
            .Case([&](ScatterAddOp add) { return emitScatterAdd(add, host); })
            .Case([&](CacheUpdateOp update) {
              return emitCacheUpdate(update, host);
            })
            .Case([&](AttentionOp attention) {
              return emitAttention(attention, host);
            })
            .Case([&](AttentionGradOp grad) {
              return emitAttentionGrad(grad, host);
            })
            .Case([&](memref::ExtractAlignedPointerAsIndexOp extract) {
              OpBuilder b(op);
              Value address = LLVM::PtrToIntOp::create(
                  b, op->getLoc(), b.getI64Type(),
                  host.getPointer(extract.getSource()));
              extract.replaceAllUsesWith(
                  arith::IndexCastOp::create(b, op->getLoc(), b.getIndexType(),
                                             address)
                      .getResult());
              return success();
            })
            .Case([&](memref::StoreOp store) {
              // The iteration of a loop, for the kernels that read it.
              OpBuilder b(op);
              LLVM::StoreOp::create(b, op->getLoc(), store.getValue(),
                                    host.getPointer(store.getMemRef()));
              return success();
            })
            .Default([&](Operation *other) -> LogicalResult {
              if (isa_and_nonnull<BlurtDialect>(other->getDialect()))
                return other->emitOpError(
                    "is not part of the plan form, expected only slots, "
                    "groups and library ops");
              if (auto call = dyn_cast<func::CallOp>(other))
                convertCall(call, host);
              for (Value operand : other->getOperands())
                if (isa<MemRefType>(operand.getType()))
                  return other->emitOpError(
                      "uses a memref, which the kernel stage knows in slots, "
                      "groups, library ops and calls only");
              return success();
            });
    if (failed(converted))
      return WalkResult::interrupt();
    if (isa_and_nonnull<BlurtDialect>(op->getDialect()) ||
        isa<memref::ExtractAlignedPointerAsIndexOp, memref::StoreOp>(op)) {
      done.push_back(op);
      return WalkResult::skip();
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  for (Operation *op : llvm::reverse(done))
    op->erase();
  for (unsigned argument : llvm::reverse(replaced))
    entry.eraseArgument(argument);
  function.setType(
      FunctionType::get(&getContext(), types, function.getResultTypes()));
  return success();
}

void EmitCpuKernels::runOnOperation() {
  ModuleOp module = getOperation();
  // The digest that names this plan, while it is still the plan.
  if (module->hasAttr("blurt.program")) {
    std::string text;
    llvm::raw_string_ostream os(text);
    module.print(os);
    llvm::SHA256 sha;
    sha.update(text);
    module->setAttr(
        "blurt.plan_hash",
        StringAttr::get(&getContext(), llvm::toHex(sha.final(), true)));
  }
  HostEmitter host(module);
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      functions.push_back(function);
  for (func::FuncOp function : functions)
    if (failed(convertFunction(function, host)))
      return signalPassFailure();
  numKernels += host.getNumKernels();
}
