//===- KernelBuilder.h - what all kernel emitters share -------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Kernels are `llvm.func`s with the signature of `blurt_kernel` whose bodies
// use scf, arith, math and vector for control and arithmetic, and the LLVM
// dialect for memory. On the CPU all vectors have 16 lanes whatever the element
// type, so that the lane in which an element is added does not depend on what
// else a kernel computes; LLVM splits them into registers of the target. On a
// device the width is chosen for each kernel, by its domain alone.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_KERNELBUILDER_H
#define BLUTRAIN_LIB_CODEGEN_KERNELBUILDER_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mlir::blurt {

/// Lanes of every vector in a kernel for the CPU.
inline constexpr int64_t kLanes = 16;

/// Where the lanes of a vector are valid: all of them, or the first `count`.
struct Lanes {
  Value mask;  ///< vector<16xi1>, null if all lanes are valid
  Value count; ///< i64, null if all lanes are valid
};

class KernelBuilder : public ImplicitLocOpBuilder {
public:
  /// Creates an empty kernel `name` in `module`; the builder then stands in
  /// the entry block, before its return.
  KernelBuilder(ModuleOp module, Location loc, StringRef name);
  /// Creates an empty device kernel in `module`, a gpu.module, with the
  /// addresses of `numOperands` operands as its parameters and vectors of
  /// `width` lanes.
  KernelBuilder(Operation *module, Location loc, StringRef name,
                unsigned numOperands, int64_t width);

  /// Lanes of every vector.
  int64_t getWidth() const { return width; }
  bool isDevice() const { return device; }

  LLVM::LLVMFuncOp getKernel() { return kernel; }
  Value getBegin() { return kernel.getArgument(1); }
  Value getEnd() { return kernel.getArgument(2); }
  /// The address of operand `i`.
  Value loadArgument(unsigned i);
  /// `count` elements of `type` on the stack, 64-byte aligned.
  Value stackBuffer(Type type, int64_t count);

  //===--------------------------------------------------------------------===//
  // Integers
  //===--------------------------------------------------------------------===//
  Value i64(int64_t value);
  Value add(Value lhs, Value rhs);
  Value sub(Value lhs, Value rhs);
  Value mul(Value lhs, Value rhs);
  Value mul(Value lhs, int64_t rhs);
  Value div(Value lhs, int64_t rhs);
  Value rem(Value lhs, int64_t rhs);
  Value min(Value lhs, Value rhs);
  Value max(Value lhs, Value rhs);

  //===--------------------------------------------------------------------===//
  // Control
  //===--------------------------------------------------------------------===//
  /// A loop over i64 whose yield returns its arguments until it is changed.
  /// The builder stays where it is; bodies are filled through `atEnd`.
  scf::ForOp loop(Value begin, Value end, int64_t step, ValueRange inits = {});
  /// An `if` without results.
  scf::IfOp branch(Value condition, bool withElse);
  /// Runs `body` with the builder before the terminator of `block`.
  void atEnd(Block *block, llvm::function_ref<void()> body);

  //===--------------------------------------------------------------------===//
  // Memory. `element` is the type in memory; values have the scalar type that
  // stands for it in bodies (f32 for bf16).
  //===--------------------------------------------------------------------===//
  Value advance(Type element, Value pointer, Value count);
  Value advance(Type element, Value pointer, int64_t count);
  Value loadScalar(Type element, Value pointer);
  void storeScalar(Type element, Value value, Value pointer);
  /// Elements at `stride` elements from each other; lanes that are not
  /// valid hold 0 (floats) or 1 (integers).
  /// `alignment` bytes divide the pointer; 0 stands for the element's size.
  Value loadVector(Type element, Value pointer, int64_t stride,
                   const Lanes &lanes = {}, int64_t alignment = 0);
  void storeVector(Type element, Value value, Value pointer, int64_t stride,
                   const Lanes &lanes = {}, int64_t alignment = 0);
  /// Fills a vector lane by lane; `body` gets the lane and returns its value.
  /// Unrolled if all lanes are valid and `unroll` is set, else a loop through
  /// the stack.
  Value gather(Type scalar, const Lanes &lanes, bool unroll,
               llvm::function_ref<Value(Value)> body);

  //===--------------------------------------------------------------------===//
  // Vectors
  //===--------------------------------------------------------------------===//
  Value splat(Value scalar);
  Value constant(Type type, double value);
  VectorType laneType(Type type) { return VectorType::get({width}, type); }
  /// The numbers of the lanes, as i64.
  Value iota();
  /// The first `count` lanes, all of them if there are not so many.
  Lanes lanes(Value count);
  /// All lanes combined in a fixed tree.
  Value horizontal(Value vector,
                   llvm::function_ref<Value(Value, Value)> combine);

  /// What lies in memory as the type that stands for it in bodies.
  Value extend(Type element, Value raw);

private:
  Value truncate(Type element, Value value);

  Type shapeLike(Type type, Value like);

  LLVM::LLVMFuncOp kernel;
  int64_t width = kLanes;
  bool device = false;
};

/// The type in which elements of `element` lie in memory.
Type getStorageType(Type element);
/// `type` or a vector of 16 of it.
VectorType getLaneType(Type type);

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_KERNELBUILDER_H
