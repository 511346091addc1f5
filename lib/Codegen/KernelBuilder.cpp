//===- KernelBuilder.cpp - what all kernel emitters share -----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "Blurt/BlurtDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mlir::blurt;

Type blurt::getStorageType(Type element) {
  if (element.isInteger(1))
    return IntegerType::get(element.getContext(), 8);
  if (element.isBF16())
    return IntegerType::get(element.getContext(), 16);
  return element;
}

VectorType blurt::getLaneType(Type type) {
  return VectorType::get({kLanes}, type);
}

/// `type`, or a vector of it if `like` is a vector.
Type KernelBuilder::shapeLike(Type type, Value like) {
  return isa<VectorType>(like.getType()) ? Type(laneType(type)) : type;
}

KernelBuilder::KernelBuilder(ModuleOp module, Location loc, StringRef name)
    : ImplicitLocOpBuilder(loc, module.getContext()) {
  setInsertionPointToEnd(module.getBody());
  auto ptr = LLVM::LLVMPointerType::get(getContext());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(getContext()),
                                          {ptr, getI64Type(), getI64Type()});
  kernel = LLVM::LLVMFuncOp::create(*this, name, type, LLVM::Linkage::Internal);
  Block *entry = kernel.addEntryBlock(*this);
  setInsertionPointToStart(entry);
  auto ret = LLVM::ReturnOp::create(*this, ValueRange());
  setInsertionPoint(ret);
}

KernelBuilder::KernelBuilder(Operation *module, Location loc, StringRef name,
                             unsigned numOperands, int64_t width)
    : ImplicitLocOpBuilder(loc, module->getContext()), width(width),
      device(true) {
  setInsertionPointToEnd(&module->getRegion(0).front());
  auto ptr = LLVM::LLVMPointerType::get(getContext());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(getContext()),
                                          SmallVector<Type>(numOperands, ptr));
  kernel = LLVM::LLVMFuncOp::create(*this, name, type);
  kernel->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), getUnitAttr());
  setInsertionPointToStart(kernel.addEntryBlock(*this));
  auto ret = LLVM::ReturnOp::create(*this, ValueRange());
  setInsertionPoint(ret);
}

Value KernelBuilder::loadArgument(unsigned i) {
  if (device)
    return kernel.getArgument(i);
  auto ptr = LLVM::LLVMPointerType::get(getContext());
  Value slot = LLVM::GEPOp::create(*this, ptr, ptr, kernel.getArgument(0),
                                   ArrayRef<LLVM::GEPArg>{int32_t(i)});
  auto load = LLVM::LoadOp::create(*this, ptr, slot, 8);
  load.setInvariant(true);
  return load;
}

Value KernelBuilder::stackBuffer(Type type, int64_t count) {
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPointToStart(&kernel.getBody().front());
  auto ptr = LLVM::LLVMPointerType::get(getContext());
  return LLVM::AllocaOp::create(*this, ptr, getStorageType(type), i64(count),
                                64);
}

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

Value KernelBuilder::i64(int64_t value) {
  return arith::ConstantOp::create(*this, getI64IntegerAttr(value));
}

static std::optional<int64_t> getConstant(Value value) {
  APInt constant;
  if (matchPattern(value, m_ConstantInt(&constant)))
    return constant.getSExtValue();
  return std::nullopt;
}

Value KernelBuilder::add(Value lhs, Value rhs) {
  auto l = getConstant(lhs), r = getConstant(rhs);
  if (l && r)
    return i64(*l + *r);
  if (r && *r == 0)
    return lhs;
  if (l && *l == 0)
    return rhs;
  return arith::AddIOp::create(*this, lhs, rhs,
                               arith::IntegerOverflowFlags::nsw);
}

Value KernelBuilder::sub(Value lhs, Value rhs) {
  auto l = getConstant(lhs), r = getConstant(rhs);
  if (l && r)
    return i64(*l - *r);
  if (r && *r == 0)
    return lhs;
  return arith::SubIOp::create(*this, lhs, rhs,
                               arith::IntegerOverflowFlags::nsw);
}

Value KernelBuilder::mul(Value lhs, Value rhs) {
  if (auto r = getConstant(rhs))
    return mul(lhs, *r);
  return arith::MulIOp::create(*this, lhs, rhs,
                               arith::IntegerOverflowFlags::nsw);
}

Value KernelBuilder::mul(Value lhs, int64_t rhs) {
  if (rhs == 1)
    return lhs;
  if (auto l = getConstant(lhs))
    return i64(*l * rhs);
  return arith::MulIOp::create(*this, lhs, i64(rhs),
                               arith::IntegerOverflowFlags::nsw);
}

// Indices are never negative, and unsigned division is the cheaper one.
Value KernelBuilder::div(Value lhs, int64_t rhs) {
  if (rhs == 1)
    return lhs;
  if (auto l = getConstant(lhs))
    return i64(*l / rhs);
  return arith::DivUIOp::create(*this, lhs, i64(rhs));
}

Value KernelBuilder::rem(Value lhs, int64_t rhs) {
  if (rhs == 1)
    return i64(0);
  if (auto l = getConstant(lhs))
    return i64(*l % rhs);
  return arith::RemUIOp::create(*this, lhs, i64(rhs));
}

Value KernelBuilder::min(Value lhs, Value rhs) {
  auto l = getConstant(lhs), r = getConstant(rhs);
  if (l && r)
    return i64(std::min(*l, *r));
  return arith::MinSIOp::create(*this, lhs, rhs);
}

Value KernelBuilder::max(Value lhs, Value rhs) {
  auto l = getConstant(lhs), r = getConstant(rhs);
  if (l && r)
    return i64(std::max(*l, *r));
  return arith::MaxSIOp::create(*this, lhs, rhs);
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

scf::ForOp KernelBuilder::loop(Value begin, Value end, int64_t step,
                               ValueRange inits) {
  auto loop = scf::ForOp::create(*this, begin, end, i64(step), inits);
  if (!inits.empty()) {
    OpBuilder::InsertionGuard guard(*this);
    setInsertionPointToEnd(loop.getBody());
    scf::YieldOp::create(*this, loop.getRegionIterArgs());
  }
  return loop;
}

scf::IfOp KernelBuilder::branch(Value condition, bool withElse) {
  return scf::IfOp::create(*this, condition, withElse);
}

void KernelBuilder::atEnd(Block *block, llvm::function_ref<void()> body) {
  OpBuilder::InsertionGuard guard(*this);
  setInsertionPoint(block->getTerminator());
  body();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Value KernelBuilder::advance(Type element, Value pointer, Value count) {
  if (auto constant = getConstant(count))
    return advance(element, pointer, *constant);
  return LLVM::GEPOp::create(*this, pointer.getType(), getStorageType(element),
                             pointer, ArrayRef<LLVM::GEPArg>{count},
                             LLVM::GEPNoWrapFlags::inbounds);
}

Value KernelBuilder::advance(Type element, Value pointer, int64_t count) {
  if (count == 0)
    return pointer;
  return LLVM::GEPOp::create(*this, pointer.getType(), getStorageType(element),
                             pointer, ArrayRef<LLVM::GEPArg>{i64(count)},
                             LLVM::GEPNoWrapFlags::inbounds);
}

Value KernelBuilder::extend(Type element, Value raw) {
  if (element.isInteger(1)) {
    Value zero = arith::ConstantOp::create(*this, raw.getType(),
                                           getZeroAttr(raw.getType()));
    return arith::CmpIOp::create(*this, arith::CmpIPredicate::ne, raw, zero);
  }
  if (element.isBF16() && device && isa<VectorType>(raw.getType()) &&
      width % 2 == 0) {
    // Two to a word.
    auto words = VectorType::get({width / 2}, getI32Type());
    Value pairs = LLVM::BitcastOp::create(*this, words, raw);
    Value low = arith::ShLIOp::create(*this, pairs, constant(words, 16));
    Value mask = arith::ConstantOp::create(
        *this, words, DenseElementsAttr::get(words, APInt(32, 0xffff0000)));
    Value high = arith::AndIOp::create(*this, pairs, mask);
    return arith::BitcastOp::create(
        *this, laneType(getF32Type()),
        vector::InterleaveOp::create(*this, low, high));
  }
  if (element.isBF16()) {
    Type wide = shapeLike(getI32Type(), raw);
    Value bits = arith::ExtUIOp::create(*this, wide, raw);
    bits = arith::ShLIOp::create(*this, bits, constant(wide, 16));
    return arith::BitcastOp::create(*this, shapeLike(getF32Type(), raw), bits);
  }
  return raw;
}

Value KernelBuilder::truncate(Type element, Value value) {
  if (element.isInteger(1))
    return arith::ExtUIOp::create(*this, shapeLike(getI8Type(), value), value);
  if (element.isBF16() && device) {
    Value narrow =
        arith::TruncFOp::create(*this, shapeLike(element, value), value);
    return arith::BitcastOp::create(*this, shapeLike(getIntegerType(16), value),
                                    narrow);
  }
  if (element.isBF16()) {
    // Round to nearest even; a NaN keeps its upper bits and becomes quiet.
    Type wide = shapeLike(getI32Type(), value);
    Value bits = arith::BitcastOp::create(*this, wide, value);
    Value upper = arith::ShRUIOp::create(*this, bits, constant(wide, 16));
    Value odd = arith::AndIOp::create(*this, upper, constant(wide, 1));
    Value bias = arith::AddIOp::create(*this, odd, constant(wide, 0x7fff));
    Value rounded = arith::AddIOp::create(*this, bits, bias);
    rounded = arith::ShRUIOp::create(*this, rounded, constant(wide, 16));
    Value quiet = arith::OrIOp::create(*this, upper, constant(wide, 0x40));
    Value isNan =
        arith::CmpFOp::create(*this, arith::CmpFPredicate::UNO, value, value);
    rounded = arith::SelectOp::create(*this, isNan, quiet, rounded);
    return arith::TruncIOp::create(*this, shapeLike(getIntegerType(16), value),
                                   rounded);
  }
  return value;
}

Value KernelBuilder::loadScalar(Type element, Value pointer) {
  Value raw = LLVM::LoadOp::create(*this, getStorageType(element), pointer,
                                   getElementBytes(element));
  return extend(element, raw);
}

void KernelBuilder::storeScalar(Type element, Value value, Value pointer) {
  LLVM::StoreOp::create(*this, truncate(element, value), pointer,
                        getElementBytes(element));
}

/// Targets have masked accesses for 4 and 8 byte elements; others would be
/// torn into branches.
static bool hasMaskedAccess(Type element) {
  return getElementBytes(element) >= 4;
}

Value KernelBuilder::loadVector(Type element, Value pointer, int64_t stride,
                                const Lanes &lanes, int64_t alignment) {
  if (alignment == 0)
    alignment = getElementBytes(element);
  if (stride == 0)
    return splat(loadScalar(element, pointer));
  Type scalar = GroupOp::getScalarType(element);
  if (stride == 1 && !lanes.mask)
    return extend(element,
                  LLVM::LoadOp::create(*this, laneType(getStorageType(element)),
                                       pointer, alignment));
  if (stride == 1 && hasMaskedAccess(element)) {
    VectorType type = laneType(element);
    Value fill = constant(type, isa<FloatType>(element) ? 0 : 1);
    return LLVM::MaskedLoadOp::create(*this, type, pointer, lanes.mask, fill,
                                      getElementBytes(element));
  }
  return gather(scalar, lanes, /*unroll=*/true, [&](Value lane) {
    return loadScalar(element, advance(element, pointer, mul(lane, stride)));
  });
}

void KernelBuilder::storeVector(Type element, Value value, Value pointer,
                                int64_t stride, const Lanes &lanes,
                                int64_t alignment) {
  if (alignment == 0)
    alignment = getElementBytes(element);
  Value raw = truncate(element, value);
  if (stride == 1 && !lanes.mask) {
    LLVM::StoreOp::create(*this, raw, pointer, alignment);
    return;
  }
  if (stride == 1 && hasMaskedAccess(element)) {
    LLVM::MaskedStoreOp::create(*this, raw, pointer, lanes.mask,
                                getElementBytes(element));
    return;
  }
  Type storage = getStorageType(element);
  if (!lanes.mask) {
    for (int64_t lane = 0; lane < width; ++lane) {
      Value piece = vector::ExtractOp::create(*this, raw, lane);
      LLVM::StoreOp::create(*this, piece,
                            advance(element, pointer, lane * stride),
                            getElementBytes(element));
    }
    return;
  }
  Value buffer = stackBuffer(element, width);
  LLVM::StoreOp::create(*this, raw, buffer, 64);
  scf::ForOp lane = loop(i64(0), lanes.count, 1);
  atEnd(lane.getBody(), [&] {
    Value i = lane.getInductionVar();
    Value piece = LLVM::LoadOp::create(
        *this, storage, advance(element, buffer, i), getElementBytes(element));
    LLVM::StoreOp::create(*this, piece,
                          advance(element, pointer, mul(i, stride)),
                          getElementBytes(element));
  });
}

Value KernelBuilder::gather(Type scalar, const Lanes &lanes, bool unroll,
                            llvm::function_ref<Value(Value)> body) {
  VectorType type = laneType(scalar);
  Value fill = constant(type, isa<FloatType>(scalar) ? 0 : 1);
  // A device has no stack worth the name.
  if (!lanes.mask && (unroll || device)) {
    Value result = fill;
    for (int64_t lane = 0; lane < width; ++lane)
      result = vector::InsertOp::create(*this, body(i64(lane)), result, lane);
    return result;
  }
  Value buffer = stackBuffer(scalar, width);
  bool isBool = scalar.isInteger(1);
  auto widen = [&](Value value) -> Value {
    return isBool ? truncate(scalar, value) : value;
  };
  if (lanes.mask)
    LLVM::StoreOp::create(*this, widen(fill), buffer, 64);
  scf::ForOp lane = loop(i64(0), lanes.mask ? lanes.count : i64(width), 1);
  atEnd(lane.getBody(), [&] {
    Value piece = body(lane.getInductionVar());
    LLVM::StoreOp::create(*this, widen(piece),
                          advance(scalar, buffer, lane.getInductionVar()),
                          getElementBytes(scalar));
  });
  Value raw =
      LLVM::LoadOp::create(*this, laneType(getStorageType(scalar)), buffer, 64);
  return isBool ? extend(scalar, raw) : raw;
}

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

Value KernelBuilder::splat(Value scalar) {
  if (isa<VectorType>(scalar.getType()))
    return scalar;
  return vector::BroadcastOp::create(*this, laneType(scalar.getType()), scalar);
}

Value KernelBuilder::constant(Type type, double value) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr attr;
  if (auto floatType = dyn_cast<FloatType>(element))
    attr = FloatAttr::get(floatType, value);
  else
    attr = IntegerAttr::get(element, int64_t(value));
  if (auto vector = dyn_cast<VectorType>(type))
    attr = SplatElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(*this, type, attr);
}

Value KernelBuilder::iota() {
  SmallVector<int64_t> values;
  for (int64_t lane = 0; lane < width; ++lane)
    values.push_back(lane);
  VectorType type = laneType(getI64Type());
  return arith::ConstantOp::create(
      *this, type,
      cast<TypedAttr>(
          Attribute(DenseElementsAttr::get<int64_t>(type, values))));
}

Lanes KernelBuilder::lanes(Value count) {
  auto constantCount = getConstant(count);
  if (constantCount && *constantCount >= width)
    return {};
  count = min(count, i64(width));
  // Compared as i32: masks of 4-byte lanes are the common case.
  SmallVector<int32_t> values;
  for (int32_t lane = 0; lane < width; ++lane)
    values.push_back(lane);
  VectorType type = laneType(getI32Type());
  Value lane = arith::ConstantOp::create(
      *this, type,
      cast<TypedAttr>(
          Attribute(DenseElementsAttr::get<int32_t>(type, values))));
  Value narrow = arith::TruncIOp::create(*this, getI32Type(), count);
  Value mask = arith::CmpIOp::create(*this, arith::CmpIPredicate::slt, lane,
                                     splat(narrow));
  return {mask, count};
}

Value KernelBuilder::horizontal(
    Value vector, llvm::function_ref<Value(Value, Value)> combine) {
  for (int64_t half = width / 2; half >= 1; half /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t lane = 0; lane < half; ++lane) {
      low.push_back(lane);
      high.push_back(lane + half);
    }
    vector = combine(vector::ShuffleOp::create(*this, vector, vector, low),
                     vector::ShuffleOp::create(*this, vector, vector, high));
  }
  return vector::ExtractOp::create(*this, vector, 0);
}
