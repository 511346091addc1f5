//===- DeviceBuilder.cpp - what all device kernels share ------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "DeviceBuilder.h"

#include "llvm/Support/MathExtras.h"

#include <cmath>

using namespace mlir;
using namespace mlir::blurt;

static constexpr llvm::StringLiteral kSharedName = "smem";

LLVM::GlobalOp blurt::getDynamicShared(gpu::GPUModuleOp module) {
  if (auto global = module.lookupSymbol<LLVM::GlobalOp>(kSharedName))
    return global;
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), 0);
  return LLVM::GlobalOp::create(builder, module.getLoc(), type,
                                /*isConstant=*/false, LLVM::Linkage::External,
                                kSharedName, Attribute(), /*alignment=*/1024,
                                DeviceBuilder::Shared);
}

DeviceBuilder::DeviceBuilder(gpu::GPUModuleOp module, Location loc,
                             StringRef name, unsigned count,
                             ArrayRef<unsigned> outputs, int32_t threads,
                             int32_t minBlocks, unsigned maps)
    : ImplicitLocOpBuilder(loc, module.getContext()), threads(threads) {
  LLVM::GlobalOp smem = getDynamicShared(module);
  setInsertionPointToEnd(module.getBody());
  auto generic = LLVM::LLVMPointerType::get(getContext());
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(getContext()),
                                  SmallVector<Type>(count + maps, generic));
  kernel = LLVM::LLVMFuncOp::create(*this, name, type);
  kernel->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), getUnitAttr());
  kernel->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                  getDenseI32ArrayAttr({threads, 1, 1}));
  if (minBlocks > 0)
    kernel->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                    getI32IntegerAttr(minBlocks));
  for (unsigned i = 0; i != count; ++i) {
    kernel.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                      getUnitAttr());
    if (!llvm::is_contained(outputs, i))
      kernel.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(),
                        getUnitAttr());
  }
  auto mapType = LLVM::LLVMArrayType::get(getI8Type(), 128);
  for (unsigned i = count; i != count + maps; ++i) {
    kernel.setArgAttr(i, LLVM::LLVMDialect::getByValAttrName(),
                      TypeAttr::get(mapType));
    kernel.setArgAttr(i, NVVM::NVVMDialect::getGridConstantAttrName(),
                      getUnitAttr());
    kernel.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                      getI64IntegerAttr(64));
  }
  Block *entry = kernel.addEntryBlock(*this);
  setInsertionPointToStart(entry);
  auto global = LLVM::LLVMPointerType::get(getContext(), Global);
  for (BlockArgument argument : entry->getArguments().take_front(count))
    operands.push_back(LLVM::AddrSpaceCastOp::create(*this, global, argument));
  sharedBase = LLVM::AddressOfOp::create(*this, smem);
  auto ret = LLVM::ReturnOp::create(*this, ValueRange());
  setInsertionPoint(ret);
}

Value DeviceBuilder::operand(unsigned i) { return operands[i]; }
Value DeviceBuilder::map(unsigned i) {
  return kernel.getArgument(operands.size() + i);
}
Value DeviceBuilder::shared() { return sharedBase; }

//===----------------------------------------------------------------------===//
// Constants and arithmetic
//===----------------------------------------------------------------------===//

Value DeviceBuilder::i32(int64_t value) {
  return arith::ConstantOp::create(*this, getI32IntegerAttr(value));
}
Value DeviceBuilder::i64(int64_t value) {
  return arith::ConstantOp::create(*this, getI64IntegerAttr(value));
}
Value DeviceBuilder::f32(double value) {
  return arith::ConstantOp::create(*this, getF32FloatAttr(value));
}
Value DeviceBuilder::constantLike(Value like, int64_t value) {
  return arith::ConstantOp::create(*this,
                                   getIntegerAttr(like.getType(), value));
}
Value DeviceBuilder::add(Value l, int64_t r) {
  return r == 0 ? l : add(l, constantLike(l, r));
}
Value DeviceBuilder::mul(Value l, int64_t r) {
  return r == 1 ? l : mul(l, constantLike(l, r));
}
Value DeviceBuilder::bitXor(Value l, int64_t r) {
  return r == 0 ? l : bitXor(l, constantLike(l, r));
}
Value DeviceBuilder::shiftLeft(Value l, int64_t r) {
  return r == 0 ? l
                : Value(arith::ShLIOp::create(*this, l, constantLike(l, r)));
}
Value DeviceBuilder::div(Value l, int64_t r) {
  return r == 1 ? l
                : Value(arith::DivUIOp::create(*this, l, constantLike(l, r)));
}
Value DeviceBuilder::rem(Value l, int64_t r) {
  return arith::RemUIOp::create(*this, l, constantLike(l, r));
}
Value DeviceBuilder::extend(Value value) {
  return arith::ExtSIOp::create(*this, getI64Type(), value);
}
Value DeviceBuilder::truncate(Value value) {
  return arith::TruncIOp::create(*this, getI32Type(), value);
}
Value DeviceBuilder::wideOffset(Value a, int64_t b) {
  return mul(extend(a), b);
}
Value DeviceBuilder::compare(arith::CmpIPredicate predicate, Value l, Value r) {
  return arith::CmpIOp::create(*this, predicate, l, r);
}

Value DeviceBuilder::exp2Approx(Value x) {
  return LLVM::CallIntrinsicOp::create(
             *this, getF32Type(), getStringAttr("llvm.nvvm.ex2.approx.ftz.f32"),
             ValueRange(x))
      .getResult(0);
}

Value DeviceBuilder::log2Approx(Value x) {
  return LLVM::CallIntrinsicOp::create(
             *this, getF32Type(), getStringAttr("llvm.nvvm.lg2.approx.ftz.f"),
             ValueRange(x))
      .getResult(0);
}

Value DeviceBuilder::exp2Scaled(Value x, double factor) {
  float high = float(factor);
  float low = float(factor - double(high));
  // t + r = x · factor to about 48 bits; 2^(t+r) = 2^t + 2^t · r · ln 2.
  Value t = mulF(x, f32(high));
  Value r = fma(x, f32(high), arith::NegFOp::create(*this, t));
  r = fma(x, f32(low), r);
  Value e = exp2Approx(t);
  return fma(e, mulF(r, f32(M_LN2)), e);
}

Value DeviceBuilder::log(Value x) {
  // Cephes' logf: x = 2^e · (1 + f) with 1 + f in [√½, √2), and
  // ln(1 + f) = f - f²/2 + f³ · p(f).
  Type i32Type = getI32Type(), f32Type = getF32Type();
  Value bits = bitcast(x, i32Type);
  constexpr int64_t kSqrtHalf = 0x3F3504F3;
  Value shifted = sub(bits, i32(kSqrtHalf));
  Value exponent = arith::ShRSIOp::create(*this, shifted, i32(23));
  Value mantissa = add(bitAnd(shifted, 0x007FFFFF), i32(kSqrtHalf));
  Value f = subF(bitcast(mantissa, f32Type), f32(1));
  Value e = arith::SIToFPOp::create(*this, f32Type, exponent);
  static constexpr double kCoefficients[] = {
      7.0376836292e-2,  -1.1514610310e-1, 1.1676998740e-1,
      -1.2420140846e-1, 1.4249322787e-1,  -1.6668057665e-1,
      2.0000714765e-1,  -2.4999993993e-1, 3.3333331174e-1};
  Value p = f32(kCoefficients[0]);
  for (double coefficient : ArrayRef(kCoefficients).drop_front())
    p = fma(p, f, f32(coefficient));
  Value square = mulF(f, f);
  Value y = mulF(mulF(f, square), p);
  y = fma(e, f32(-2.12194440e-4), y);
  y = fma(square, f32(-0.5), y);
  y = fma(e, f32(0.693359375), addF(f, y));
  y = select(equalF(x, f32(0)), f32(-HUGE_VAL), y);
  Value finite =
      arith::CmpFOp::create(*this, arith::CmpFPredicate::OLT, x, f32(HUGE_VAL));
  return select(finite, y, x);
}

Value DeviceBuilder::packBF16(Value low, Value high) {
  Value pair = NVVM::ConvertF32x2ToBF16x2Op::create(
      *this, VectorType::get({2}, getBF16Type()), high, low,
      /*random_bits=*/Value(), NVVM::FPRoundingMode::RN);
  return bitcast(pair, getI32Type());
}

Value DeviceBuilder::extendBF16(Value bits) {
  Value wide = arith::ExtUIOp::create(*this, getI32Type(), bits);
  return bitcast(shiftLeft(wide, 16), getF32Type());
}

Value DeviceBuilder::roundTF32(Value value) {
  return NVVM::ConvertFloatToTF32Op::create(*this, getI32Type(), value,
                                            NVVM::FPRoundingMode::RNA);
}

Value DeviceBuilder::roundTF32Bits(Value value) {
  Value bits = bitcast(value, getI32Type());
  Value magnitude = LLVM::FAbsOp::create(*this, value);
  Value finite = arith::CmpFOp::create(*this, arith::CmpFPredicate::OLT,
                                       magnitude, f32(HUGE_VAL));
  // Half of the last place that is kept. It would make a NaN of all ones zero.
  return select(finite, add(bits, 0x1000), bits);
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

Value DeviceBuilder::threadId() {
  return NVVM::ThreadIdXOp::create(*this, getI32Type());
}

Value DeviceBuilder::blockId(unsigned dim) {
  if (dim == 0)
    return NVVM::BlockIdXOp::create(*this, getI32Type());
  if (dim == 1)
    return NVVM::BlockIdYOp::create(*this, getI32Type());
  return NVVM::BlockIdZOp::create(*this, getI32Type());
}

void DeviceBuilder::barrier() { NVVM::Barrier0Op::create(*this); }
void DeviceBuilder::warpBarrier() { NVVM::SyncWarpOp::create(*this, i32(-1)); }

Value DeviceBuilder::shuffleXor(Value value, int32_t mask) {
  return NVVM::ShflOp::create(*this, value.getType(), i32(-1), value, i32(mask),
                              i32(31), NVVM::ShflKind::bfly, UnitAttr());
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

SmallVector<Value> DeviceBuilder::loop(Value begin, Value end, int64_t step,
                                       ValueRange inits, LoopBody body) {
  auto op = scf::ForOp::create(
      *this, begin, end, constantLike(begin, step), inits,
      [&](OpBuilder &, Location, Value index, ValueRange carried) {
        OpBuilder::InsertionGuard guard(*this);
        setInsertionPointToEnd(index.getParentBlock());
        scf::YieldOp::create(*this, body(index, carried));
      });
  return SmallVector<Value>(op.getResults());
}

void DeviceBuilder::loop(Value begin, Value end, int64_t step,
                         llvm::function_ref<void(Value)> body) {
  loop(begin, end, step, ValueRange(), [&](Value index, ValueRange) {
    body(index);
    return SmallVector<Value>();
  });
}

void DeviceBuilder::branch(Value condition, llvm::function_ref<void()> body) {
  auto op = scf::IfOp::create(*this, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(op.thenBlock());
  body();
}

SmallVector<Value>
DeviceBuilder::branch(Value condition, ValueRange otherwise,
                      llvm::function_ref<SmallVector<Value>()> body) {
  auto op = scf::IfOp::create(*this, otherwise.getTypes(), condition,
                              /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPointToStart(op.thenBlock());
    scf::YieldOp::create(*this, body());
    setInsertionPointToStart(op.elseBlock());
    scf::YieldOp::create(*this, otherwise);
  }
  return SmallVector<Value>(op.getResults());
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value DeviceBuilder::advance(Value pointer, Value bytes) {
  return LLVM::GEPOp::create(*this, pointer.getType(), getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{bytes});
}

Value DeviceBuilder::advance(Value pointer, int64_t bytes) {
  if (bytes == 0)
    return pointer;
  // What a GEP holds of a constant.
  if (!llvm::isInt<29>(bytes))
    return advance(pointer, i64(bytes));
  return LLVM::GEPOp::create(*this, pointer.getType(), getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{int32_t(bytes)});
}

Value DeviceBuilder::load(Type type, Value pointer, unsigned alignment) {
  return LLVM::LoadOp::create(*this, type, pointer, alignment);
}

void DeviceBuilder::store(Value value, Value pointer, unsigned alignment) {
  LLVM::StoreOp::create(*this, value, pointer, alignment);
}

Value DeviceBuilder::load16(Value pointer) {
  return load(VectorType::get({4}, getI32Type()), pointer, 16);
}

void DeviceBuilder::store16(Value vector, Value pointer) {
  store(vector, pointer, 16);
}

SmallVector<Value> DeviceBuilder::loadF32x4(Value pointer) {
  Value vector = load(VectorType::get({4}, getF32Type()), pointer, 16);
  SmallVector<Value> values;
  for (unsigned i = 0; i != 4; ++i)
    values.push_back(element(vector, i));
  return values;
}

void DeviceBuilder::storeF32x4(ArrayRef<Value> values, Value pointer) {
  store(makeVector(values), pointer, 16);
}

Value DeviceBuilder::makeVector(ArrayRef<Value> values) {
  auto type = VectorType::get({int64_t(values.size())}, values[0].getType());
  Value vector = LLVM::PoisonOp::create(*this, type);
  for (auto [i, value] : llvm::enumerate(values))
    vector = LLVM::InsertElementOp::create(*this, vector, value, i32(i));
  return vector;
}

Value DeviceBuilder::element(Value vector, unsigned i) {
  return LLVM::ExtractElementOp::create(*this, vector, i32(i));
}

void DeviceBuilder::copyAsync(Value shared, Value global, int32_t bytes,
                              Value valid) {
  Value size;
  if (valid)
    size = select(valid, i32(bytes), i32(0));
  NVVM::CpAsyncOp::create(*this, shared, global, uint32_t(bytes),
                          bytes == 16 ? NVVM::LoadCacheModifierKind::CG
                                      : NVVM::LoadCacheModifierKind::CA,
                          size);
}

void DeviceBuilder::commitCopies() {
  NVVM::CpAsyncCommitGroupOp::create(*this);
}
void DeviceBuilder::waitCopies(int32_t pending) {
  NVVM::CpAsyncWaitGroupOp::create(*this, uint32_t(pending));
}
