//===- DeviceBuilder.h - what all device kernels share --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Device kernels are `llvm.func`s in a `gpu.module` whose parameters are the
// addresses of their operands. Bodies use scf and arith on i32, i64 and f32,
// and the LLVM and NVVM dialects for memory and everything warps do together.
//
// Floating-point arithmetic carries no fast-math flags, so ptxas contracts
// nothing: a fused multiply-add is one where it is written.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CODEGEN_CUDA_DEVICEBUILDER_H
#define BLUTRAIN_LIB_CODEGEN_CUDA_DEVICEBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <array>

namespace mlir::blurt {

/// What a tensor map of a kernel describes: blurt_device_map of blurt/blurt.h.
struct DeviceMap {
  unsigned operand = 0;
  Type element; ///< f32 or bf16
  /// Innermost first; strides are in bytes.
  SmallVector<int64_t, 5> extents, strides, box;
  int32_t swizzle = 128;
};

/// How a kernel is launched.
struct DeviceLaunch {
  std::array<int32_t, 3> grid = {1, 1, 1};
  std::array<int32_t, 3> block = {1, 1, 1};
  int32_t sharedBytes = 0;
  std::vector<DeviceMap> maps;

  /// As in blurt_device_kernel.
  int64_t bytes = 0, flops = 0;
};

/// The dynamic shared memory of the kernels of `module`, aligned to 1024 bytes.
LLVM::GlobalOp getDynamicShared(gpu::GPUModuleOp module);

class DeviceBuilder : public ImplicitLocOpBuilder {
public:
  /// LLVM's numbers of address spaces.
  enum AddressSpace : unsigned { Generic = 0, Global = 1, Shared = 3 };

  /// Creates an empty kernel `name` for blocks of `threads` in `module`; the
  /// builder then stands in its entry block, before the return. Operands whose
  /// numbers are in `outputs` are written, all others are only read; no element
  /// that is written belongs to two operands. `minBlocks` on one
  /// multiprocessor bound the registers (0: no bound). `maps` tensor maps are
  /// parameters after the operands.
  DeviceBuilder(gpu::GPUModuleOp module, Location loc, StringRef name,
                unsigned operands, ArrayRef<unsigned> outputs, int32_t threads,
                int32_t minBlocks = 0, unsigned maps = 0);

  LLVM::LLVMFuncOp getKernel() { return kernel; }
  int32_t getThreads() const { return threads; }
  /// The address of operand `i`, in global memory.
  Value operand(unsigned i);
  /// The address of tensor map `i`.
  Value map(unsigned i);
  /// Dynamic shared memory, aligned to 1024 bytes.
  Value shared();

  //===--------------------------------------------------------------------===//
  // Constants and arithmetic
  //===--------------------------------------------------------------------===//
  Value i32(int64_t value);
  Value i64(int64_t value);
  Value f32(double value);
  /// `value` as a constant of the type of `like`.
  Value constantLike(Value like, int64_t value);

  Value add(Value l, Value r) { return arith::AddIOp::create(*this, l, r); }
  Value sub(Value l, Value r) { return arith::SubIOp::create(*this, l, r); }
  Value mul(Value l, Value r) { return arith::MulIOp::create(*this, l, r); }
  Value min(Value l, Value r) { return arith::MinSIOp::create(*this, l, r); }
  Value max(Value l, Value r) { return arith::MaxSIOp::create(*this, l, r); }
  Value bitAnd(Value l, Value r) { return arith::AndIOp::create(*this, l, r); }
  Value bitXor(Value l, Value r) { return arith::XOrIOp::create(*this, l, r); }
  Value add(Value l, int64_t r);
  Value sub(int64_t l, Value r) { return sub(constantLike(r, l), r); }
  Value mul(Value l, int64_t r);
  Value min(Value l, int64_t r) { return min(l, constantLike(l, r)); }
  Value max(Value l, int64_t r) { return max(l, constantLike(l, r)); }
  Value bitAnd(Value l, int64_t r) { return bitAnd(l, constantLike(l, r)); }
  Value bitXor(Value l, int64_t r);
  Value shiftLeft(Value l, int64_t r);
  /// Quotient and remainder of `l` ≥ 0.
  Value div(Value l, int64_t r);
  Value rem(Value l, int64_t r);
  /// i32 to i64, by sign.
  Value extend(Value value);
  Value truncate(Value value);
  /// a · b in 64 bits for i32 a.
  Value wideOffset(Value a, int64_t b);
  Value compare(arith::CmpIPredicate predicate, Value l, Value r);
  Value lessThan(Value l, Value r) {
    return compare(arith::CmpIPredicate::slt, l, r);
  }
  Value lessThan(Value l, int64_t r) { return lessThan(l, constantLike(l, r)); }
  Value equal(Value l, int64_t r) {
    return compare(arith::CmpIPredicate::eq, l, constantLike(l, r));
  }
  Value select(Value condition, Value l, Value r) {
    return arith::SelectOp::create(*this, condition, l, r);
  }

  Value addF(Value l, Value r) { return arith::AddFOp::create(*this, l, r); }
  Value subF(Value l, Value r) { return arith::SubFOp::create(*this, l, r); }
  Value mulF(Value l, Value r) { return arith::MulFOp::create(*this, l, r); }
  Value divF(Value l, Value r) { return arith::DivFOp::create(*this, l, r); }
  /// The greater, or the one that is no NaN.
  Value maxF(Value l, Value r) { return arith::MaxNumFOp::create(*this, l, r); }
  Value fma(Value a, Value b, Value c) {
    return LLVM::FMAOp::create(*this, a, b, c);
  }
  Value equalF(Value l, Value r) {
    return arith::CmpFOp::create(*this, arith::CmpFPredicate::OEQ, l, r);
  }
  Value bitcast(Value value, Type type) {
    return LLVM::BitcastOp::create(*this, type, value);
  }
  /// 2^x to 2 units in the last place, subnormals flushed.
  Value exp2Approx(Value x);
  /// log2(x), off by 2^-22 in all for x in (½, 2), relatively elsewhere.
  Value log2Approx(Value x);
  /// 2^(x · factor) as accurate as `exp2Approx` for any x: the rounding of the
  /// product and of `factor` is put right to first order. NaN for infinite x.
  Value exp2Scaled(Value x, double factor);
  /// ln(x) to about a unit in the last place, for normal x; -inf for 0, and
  /// inf and NaN for themselves.
  Value log(Value x);
  /// Two values rounded to bf16, as i32; `low` at the lower address.
  Value packBF16(Value low, Value high);
  /// A bf16 in an i16 as f32.
  Value extendBF16(Value bits);
  /// f32 rounded to tf32, ties away from zero; as i32, as operands are.
  Value roundTF32(Value value);
  /// The same but for the 13 bits that tensor cores do not read, by the integer
  /// unit, which takes four times as many.
  Value roundTF32Bits(Value value);

  //===--------------------------------------------------------------------===//
  // Threads
  //===--------------------------------------------------------------------===//
  Value threadId();
  /// Number of the block along x, y or z.
  Value blockId(unsigned dim);
  void barrier();
  void warpBarrier();
  /// The value of the lane whose number differs in the bits of `mask`.
  Value shuffleXor(Value value, int32_t mask);

  //===--------------------------------------------------------------------===//
  // Control. Bodies are given the values carried and return their successors.
  //===--------------------------------------------------------------------===//
  using LoopBody =
      llvm::function_ref<SmallVector<Value>(Value index, ValueRange carried)>;
  SmallVector<Value> loop(Value begin, Value end, int64_t step,
                          ValueRange inits, LoopBody body);
  void loop(Value begin, Value end, int64_t step,
            llvm::function_ref<void(Value)> body);
  void branch(Value condition, llvm::function_ref<void()> body);
  /// `body`'s values if `condition`, else `otherwise`.
  SmallVector<Value> branch(Value condition, ValueRange otherwise,
                            llvm::function_ref<SmallVector<Value>()> body);

  //===--------------------------------------------------------------------===//
  // Memory; offsets are in bytes.
  //===--------------------------------------------------------------------===//
  Value advance(Value pointer, Value bytes);
  Value advance(Value pointer, int64_t bytes);
  Value load(Type type, Value pointer, unsigned alignment = 0);
  void store(Value value, Value pointer, unsigned alignment = 0);
  /// 16 bytes as vector<4xi32> or four f32.
  Value load16(Value pointer);
  void store16(Value vector, Value pointer);
  SmallVector<Value> loadF32x4(Value pointer);
  void storeF32x4(ArrayRef<Value> values, Value pointer);
  Value makeVector(ArrayRef<Value> values);
  Value element(Value vector, unsigned i);
  /// Starts copying `bytes` (4, 8 or 16) from global to shared memory; where
  /// `valid` is false zeros are written and nothing is read.
  void copyAsync(Value shared, Value global, int32_t bytes, Value valid = {});
  void commitCopies();
  /// Waits until at most `pending` groups of this thread's copies are left.
  void waitCopies(int32_t pending);

private:
  LLVM::LLVMFuncOp kernel;
  int32_t threads;
  SmallVector<Value> operands;
  Value sharedBase;
};

} // namespace mlir::blurt

#endif // BLUTRAIN_LIB_CODEGEN_CUDA_DEVICEBUILDER_H
