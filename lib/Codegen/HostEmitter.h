//===- HostEmitter.h - calls from entries to kernels ----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// The host side of a module in plan form: what is common to all targets is how
// slots become addresses and functions lose their memrefs; each target says
// what its groups and library ops become.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_HOSTEMITTER_H
#define BLUTRAIN_LIB_CODEGEN_HOSTEMITTER_H

#include "Blurt/Collective.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/TypeSwitch.h"

namespace mlir::blurt {

class HostEmitter {
public:
  explicit HostEmitter(ModuleOp module) : module(module) {}
  virtual ~HostEmitter() = default;

  ModuleOp getModule() { return module; }
  Value getPointer(Value memref) const { return pointers.lookup(memref); }
  void call(OpBuilder &builder, Location loc, StringRef callee,
            ValueRange operands);

  /// Replaces everything of the plan form in `function`; fails after a located
  /// error. Functions without any of it are left alone.
  LogicalResult convert(func::FuncOp function);

protected:
  /// Emits a group or library op at its place; fails after a located error.
  virtual LogicalResult emit(Operation *op) = 0;
  /// Stores `value` at `pointer`, both of the host function: the iteration of
  /// a loop, for the kernels that read it.
  virtual void emitStore(OpBuilder &builder, Location loc, Value value,
                         Value pointer) = 0;

  /// The address of each operand in one array on the stack, which serves all
  /// launches of the function: each has read it before the next begins.
  Value storeArguments(OpBuilder &builder, Location loc, ValueRange operands);

  Value context;
  Value arena; ///< the address of the current function's arena

private:
  void convertCall(func::CallOp call);
  void emitCollective(CollectiveOp op);
  void numberTickets(func::FuncOp function);
  LogicalResult emitWait(WaitOp op);

  ModuleOp module;
  Block *entry = nullptr;
  LLVM::AllocaOp arguments;
  int64_t numArguments = 0;
  DenseMap<Value, Value> pointers;
  DenseMap<int64_t, int32_t> tickets; ///< of the current function
};

/// Declares `name` unless it exists.
LLVM::LLVMFuncOp declareFunction(ModuleOp module, StringRef name,
                                 TypeRange operands, Type result = {});

/// A key under which operations with the same kernel meet: name, attributes
/// (without `kernel`), operand types and body.
std::string getStructureKey(Operation *op);
/// `name` with everything that a symbol cannot hold replaced.
std::string getSymbolName(StringRef prefix, StringRef name, unsigned number);
/// "layer_norm at gpt2.mlir:12:8": an op and where it was written.
std::string describeSource(Operation *op);
/// Sets the module's `blurt.plan_hash`, the digest of the plan it still is.
void setPlanHash(ModuleOp module);

/// Hands a group or library op to the emitter of its kind for `host`.
template <typename Host> LogicalResult emitFor(Operation *op, Host &host) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](GroupOp group) { return emitGroup(group, host); })
      .Case([&](GemmOp gemm) { return emitGemm(gemm, host); })
      .Case([&](ScatterAddOp add) { return emitScatterAdd(add, host); })
      .Case([&](CacheUpdateOp update) { return emitCacheUpdate(update, host); })
      .Case(
          [&](AttentionOp attention) { return emitAttention(attention, host); })
      .Case(
          [&](AttentionGradOp grad) { return emitAttentionGrad(grad, host); });
}

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_HOSTEMITTER_H
