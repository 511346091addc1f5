//===- MathExpansion.cpp - f32 functions as polynomials -------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Codegen/MathExpansion.h"

#include "HostEmitter.h"

#include "blutrain/Codegen/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include "llvm/ADT/TypeSwitch.h"

namespace mlir::blurt {
#define GEN_PASS_DEF_BLURTEXPANDMATH
#include "blutrain/Codegen/Passes.h.inc"
} // namespace mlir::blurt

using namespace mlir;
using namespace mlir::blurt;

namespace {
/// Arithmetic on values of the shape of one example: scalars or vectors.
struct Expander {
  Expander(OpBuilder &builder, Location loc, Value like, bool device = false)
      : b(loc, builder), shape(like.getType()), device(device) {}

  Type typed(Type element) {
    if (auto vector = dyn_cast<VectorType>(shape))
      return vector.clone(element);
    return element;
  }
  Value splat(TypedAttr attr) {
    Type type = typed(attr.getType());
    if (auto vector = dyn_cast<VectorType>(type))
      attr = SplatElementsAttr::get(vector, attr);
    return arith::ConstantOp::create(b, type, attr);
  }
  Value f32(float value) { return splat(b.getF32FloatAttr(value)); }
  Value f64(double value) { return splat(b.getF64FloatAttr(value)); }
  Value i32(int32_t value) { return splat(b.getI32IntegerAttr(value)); }
  Value i64(int64_t value) { return splat(b.getI64IntegerAttr(value)); }

  Value add(Value l, Value r) { return arith::AddFOp::create(b, l, r); }
  Value sub(Value l, Value r) { return arith::SubFOp::create(b, l, r); }
  Value mul(Value l, Value r) { return arith::MulFOp::create(b, l, r); }
  Value div(Value l, Value r) { return arith::DivFOp::create(b, l, r); }
  Value fma(Value l, Value r, Value a) {
    return math::FmaOp::create(b, l, r, a);
  }
  Value abs(Value x) { return math::AbsFOp::create(b, x); }
  Value copysign(Value x, Value sign) {
    return math::CopySignOp::create(b, x, sign);
  }
  Value iadd(Value l, Value r) { return arith::AddIOp::create(b, l, r); }
  Value isub(Value l, Value r) { return arith::SubIOp::create(b, l, r); }
  Value iand(Value l, Value r) { return arith::AndIOp::create(b, l, r); }
  Value shl(Value l, Value r) { return arith::ShLIOp::create(b, l, r); }
  Value shr(Value l, Value r) { return arith::ShRSIOp::create(b, l, r); }
  Value bits(Type element, Value x) {
    return arith::BitcastOp::create(b, typed(element), x);
  }
  Value compare(arith::CmpFPredicate predicate, Value l, Value r) {
    return arith::CmpFOp::create(b, predicate, l, r);
  }
  Value select(Value condition, Value l, Value r) {
    return arith::SelectOp::create(b, condition, l, r);
  }
  /// x kept within [low, high]; NaN stays NaN.
  Value clamp(Value x, Value low, Value high) {
    x = select(compare(arith::CmpFPredicate::OLT, x, low), low, x);
    return select(compare(arith::CmpFPredicate::OGT, x, high), high, x);
  }
  /// Horner's rule by fma, highest coefficient first.
  Value polynomial(Value x, ArrayRef<float> coefficients) {
    Value result = f32(coefficients.front());
    for (float coefficient : coefficients.drop_front())
      result = fma(result, x, f32(coefficient));
    return result;
  }
  Value polynomial64(Value x, ArrayRef<double> coefficients) {
    Value result = f64(coefficients.front());
    for (double coefficient : coefficients.drop_front())
      result = fma(result, x, f64(coefficient));
    return result;
  }

  /// 2^x and 1/x by the device's instructions: within 2^-22 and one unit in the
  /// last place (PTX ISA, ex2.approx and rcp.approx), subnormals are 0.
  Value deviceExp2(Value x) {
    return lanewise("llvm.nvvm.ex2.approx.ftz.f", x);
  }
  Value deviceReciprocal(Value x) {
    return lanewise("llvm.nvvm.rcp.approx.ftz.f", x);
  }
  Value lanewise(StringRef intrinsic, Value x);

  Value exp(Value x);
  Value deviceExp(Value x);
  Value approximateExp(Value x) { return deviceExp2(mul(x, f32(1.44269504f))); }
  Value log(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value pow(Value x, Value y);

  ImplicitLocOpBuilder b;
  Type shape;
  bool device;
};
} // namespace

static constexpr float kInfinity = std::numeric_limits<float>::infinity();
static constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Value Expander::lanewise(StringRef intrinsic, Value x) {
  auto call = [&](Value lane) -> Value {
    return LLVM::CallIntrinsicOp::create(b, b.getF32Type(),
                                         b.getStringAttr(intrinsic), lane)
        .getResult(0);
  };
  auto vector = dyn_cast<VectorType>(shape);
  if (!vector)
    return call(x);
  Value result = arith::ConstantOp::create(b, vector, b.getZeroAttr(vector));
  for (int64_t lane = 0; lane < vector.getDimSize(0); ++lane)
    result = vector::InsertOp::create(
        b, call(vector::ExtractOp::create(b, x, lane)), result, lane);
  return result;
}

/// e^x = 2^t e^d with t = x log2(e) rounded and d what the rounding lost, which
/// for |x| ≤ 89 is below 2^-16, so that e^d = 1 + d to the last place.
Value Expander::deviceExp(Value x) {
  // Beyond these the result is 0 or infinite, and d would be NaN. Of a maximum
  // and a minimum here, those that keep NaN are one instruction each.
  x = arith::MaximumFOp::create(b, x, f32(-105.0f));
  x = arith::MinimumFOp::create(b, x, f32(89.0f));
  Value t = mul(x, f32(1.44269504f));
  Value lost = fma(x, f32(1.44269504f), arith::NegFOp::create(b, t));
  lost = fma(x, f32(1.92596303e-8f), lost);
  Value y = deviceExp2(t);
  return fma(mul(y, lost), f32(0.693147182f), y);
}

Value Expander::exp(Value x) {
  if (device)
    return deviceExp(x);
  // e^x = 2^n e^r with |r| ≤ ln2/2. Adding 1.5·2^23 rounds to an integer and
  // leaves it in the low bits, without a conversion that NaN would upset.
  x = clamp(x, f32(-105.0f), f32(89.0f));
  Value magic = f32(12582912.0f);
  Value shifted = fma(x, f32(1.44269504f), magic);
  Value n = sub(shifted, magic);
  Value r = fma(n, f32(-0.693359375f), x);
  r = fma(n, f32(2.12194440e-4f), r);
  Value p =
      polynomial(r, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                     4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f});
  Value y = add(fma(mul(r, r), p, r), f32(1.0f));
  // 2^n in two factors: the result may be subnormal or infinite.
  Value k = isub(bits(b.getI32Type(), shifted), i32(0x4b400000));
  Value half = shr(k, i32(1));
  auto power = [&](Value exponent) {
    return bits(b.getF32Type(), shl(iadd(exponent, i32(127)), i32(23)));
  };
  return mul(mul(y, power(half)), power(isub(k, half)));
}

Value Expander::log(Value x) {
  // x = 2^e m with m in [√½, √2).
  Value isSubnormal =
      compare(arith::CmpFPredicate::OLT, x, f32(1.17549435e-38f));
  Value scaled = select(isSubnormal, mul(x, f32(8388608.0f)), x);
  Value index = isub(bits(b.getI32Type(), scaled), i32(0x3f3504f3));
  Value exponent = shr(index, i32(23));
  Value m =
      bits(b.getF32Type(), iadd(iand(index, i32(0x7fffff)), i32(0x3f3504f3)));
  Value e = arith::SIToFPOp::create(b, typed(b.getF32Type()), exponent);
  e = select(isSubnormal, sub(e, f32(23.0f)), e);

  Value z = sub(m, f32(1.0f));
  Value zz = mul(z, z);
  Value p =
      polynomial(z, {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f,
                     -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f,
                     2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f});
  Value y = mul(mul(z, zz), p);
  y = fma(e, f32(-2.12194440e-4f), y);
  y = fma(zz, f32(-0.5f), y);
  Value result = fma(e, f32(0.693359375f), add(z, y));

  Value zero = f32(0.0f);
  result =
      select(compare(arith::CmpFPredicate::OEQ, x, f32(kInfinity)), x, result);
  result = select(compare(arith::CmpFPredicate::OEQ, x, zero), f32(-kInfinity),
                  result);
  // Negative, or NaN.
  return select(compare(arith::CmpFPredicate::ULT, x, zero), f32(kNaN), result);
}

Value Expander::tanh(Value x) {
  Value t = abs(x), s = mul(x, x);
  Value p =
      polynomial(s, {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                     1.33314422036e-1f, -3.33332819422e-1f});
  Value small = fma(mul(p, s), x, x);
  Value large;
  if (device) {
    // The error of 2^(2t log2(e)) is of no weight where it is large: tanh is 1
    // there.
    Value e = deviceExp2(mul(t, f32(2.88539008f)));
    large = fma(deviceReciprocal(add(e, f32(1.0f))), f32(-2.0f), f32(1.0f));
  } else {
    large = sub(f32(1.0f), div(f32(2.0f), add(exp(add(t, t)), f32(1.0f))));
  }
  return select(compare(arith::CmpFPredicate::OLT, t, f32(0.625f)), small,
                copysign(large, x));
}

Value Expander::erf(Value x) {
  // |x| > 0.9277: 1 - e^p(|x|); else x + x p(x²).
  Value t = abs(x), s = mul(x, x);
  Value r = fma(f32(-1.72853470e-5f), t, f32(3.83197126e-4f));
  Value u = fma(f32(-3.88396438e-3f), t, f32(2.42546219e-2f));
  r = fma(r, s, u);
  r = fma(r, t, f32(-1.06777877e-1f));
  r = fma(r, t, f32(-6.34846687e-1f));
  r = fma(r, t, f32(-1.28717512e-1f));
  r = sub(mul(r, t), t);
  Value large = copysign(sub(f32(1.0f), exp(r)), x);
  Value p = polynomial(s, {-5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f,
                           1.12819925e-1f, -3.76125336e-1f, 1.28379166e-1f});
  Value small = fma(p, x, x);
  return select(compare(arith::CmpFPredicate::OGT, t, f32(0.927734375f)), large,
                small);
}

Value Expander::pow(Value x, Value y) {
  // In f64: |y log|x|| stays below 2^10 where it matters, and 2^-40 of error
  // there is far below the f32 result's last place.
  Type wide = typed(b.getF64Type());
  Value a = arith::ExtFOp::create(b, wide, abs(x));
  Value w = arith::ExtFOp::create(b, wide, y);
  Value index = isub(bits(b.getI64Type(), a), i64(0x3fe6a09e667f3bcd));
  Value m = bits(b.getF64Type(), iadd(iand(index, i64(0xfffffffffffff)),
                                      i64(0x3fe6a09e667f3bcd)));
  // The exponent fits 32 bits, which vectors convert to f64 more cheaply.
  Value narrow =
      arith::TruncIOp::create(b, typed(b.getI32Type()), shr(index, i64(52)));
  Value e = arith::SIToFPOp::create(b, wide, narrow);
  Value s = div(sub(m, f64(1.0)), add(m, f64(1.0)));
  Value ss = mul(s, s);
  Value p = polynomial64(ss, {1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9,
                              1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0});
  Value log = fma(e, f64(0.693147180559945309417), mul(add(s, s), p));
  constexpr double inf = std::numeric_limits<double>::infinity();
  log = select(compare(arith::CmpFPredicate::OEQ, a, f64(inf)), f64(inf), log);
  log = select(compare(arith::CmpFPredicate::OEQ, a, f64(0)), f64(-inf), log);

  Value t = clamp(mul(w, log), f64(-200.0), f64(200.0));
  Value magic = f64(6755399441055744.0);
  Value shifted = fma(t, f64(1.44269504088896340736), magic);
  Value n = sub(shifted, magic);
  Value r = fma(n, f64(-0.693147180559945309417), t);
  Value q =
      polynomial64(r, {1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040,
                       1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0});
  Value k = isub(bits(b.getI64Type(), shifted), i64(0x4338000000000000));
  Value power = bits(b.getF64Type(), shl(iadd(k, i64(1023)), i64(52)));
  Value result =
      arith::TruncFOp::create(b, typed(b.getF32Type()), mul(q, power));

  // Signs: a negative base has a power only if y is an integer.
  Value zero = f32(0.0f);
  Value truncated = math::TruncOp::create(b, y);
  Value isInteger = compare(arith::CmpFPredicate::OEQ, truncated, y);
  Value halfY = mul(y, f32(0.5f));
  Value halfTruncated = math::TruncOp::create(b, halfY);
  Value halfInteger = compare(arith::CmpFPredicate::OEQ, halfTruncated, halfY);
  Value signedResult = select(halfInteger, result, copysign(result, x));
  Value isPositive = compare(arith::CmpFPredicate::UGT, x, zero);
  result = select(
      isPositive, result,
      select(
          isInteger, signedResult,
          select(compare(arith::CmpFPredicate::OEQ, x, zero), result,
                 select(compare(arith::CmpFPredicate::OEQ, x, f32(-kInfinity)),
                        result, f32(kNaN)))));
  // (-1)^±inf and 1^y and x^0 are 1.
  Value isOne = compare(arith::CmpFPredicate::OEQ, x, f32(1.0f));
  Value isMinusOne = compare(arith::CmpFPredicate::OEQ, x, f32(-1.0f));
  Value isInfinite = compare(arith::CmpFPredicate::OEQ, abs(y), f32(kInfinity));
  Value one = f32(1.0f);
  result =
      select(arith::AndIOp::create(b, isMinusOne, isInfinite), one, result);
  // NaN in either, unless the base is 1 or the exponent 0.
  result = select(compare(arith::CmpFPredicate::UNO, x, y), add(x, y), result);
  result = select(isOne, one, result);
  return select(compare(arith::CmpFPredicate::OEQ, y, zero), one, result);
}

Value blurt::expandExp(OpBuilder &builder, Location loc, Value x, bool device,
                       bool approximate) {
  Expander expander(builder, loc, x, device);
  return device && approximate ? expander.approximateExp(x) : expander.exp(x);
}
Value blurt::expandLog(OpBuilder &builder, Location loc, Value x) {
  return Expander(builder, loc, x).log(x);
}
Value blurt::expandTanh(OpBuilder &builder, Location loc, Value x,
                        bool device) {
  return Expander(builder, loc, x, device).tanh(x);
}
Value blurt::expandErf(OpBuilder &builder, Location loc, Value x, bool device) {
  return Expander(builder, loc, x, device).erf(x);
}
Value blurt::expandPow(OpBuilder &builder, Location loc, Value x, Value y) {
  return Expander(builder, loc, x).pow(x, y);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// The libm function (of doubles) for ops that are neither expanded nor
/// instructions of the target.
static StringRef getLibmName(Operation *op) {
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([](math::ExpOp) { return "exp"; })
      .Case([](math::Exp2Op) { return "exp2"; })
      .Case([](math::ExpM1Op) { return "expm1"; })
      .Case([](math::LogOp) { return "log"; })
      .Case([](math::Log2Op) { return "log2"; })
      .Case([](math::Log10Op) { return "log10"; })
      .Case([](math::Log1pOp) { return "log1p"; })
      .Case([](math::TanhOp) { return "tanh"; })
      .Case([](math::SinhOp) { return "sinh"; })
      .Case([](math::CoshOp) { return "cosh"; })
      .Case([](math::ErfOp) { return "erf"; })
      .Case([](math::ErfcOp) { return "erfc"; })
      .Case([](math::PowFOp) { return "pow"; })
      .Case([](math::SinOp) { return "sin"; })
      .Case([](math::CosOp) { return "cos"; })
      .Case([](math::TanOp) { return "tan"; })
      .Case([](math::AsinOp) { return "asin"; })
      .Case([](math::AcosOp) { return "acos"; })
      .Case([](math::AtanOp) { return "atan"; })
      .Case([](math::Atan2Op) { return "atan2"; })
      .Case([](math::AsinhOp) { return "asinh"; })
      .Case([](math::AcoshOp) { return "acosh"; })
      .Case([](math::AtanhOp) { return "atanh"; })
      .Case([](math::CbrtOp) { return "cbrt"; })
      .Default([](Operation *) { return StringRef(); });
}

/// One call of `function` for each lane.
static Value callLibm(ModuleOp module, Operation *op, StringRef function) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  Type type = op->getResult(0).getType();
  Type element = getElementTypeOrSelf(type);
  std::string name = function.str() + (element.isF32() ? "f" : "");
  SmallVector<Type> types(op->getNumOperands(), element);
  LLVM::LLVMFuncOp callee = declareFunction(module, name, types, element);
  auto vector = dyn_cast<VectorType>(type);
  if (!vector)
    return LLVM::CallOp::create(b, callee, op->getOperands()).getResult();
  Value result = arith::ConstantOp::create(b, vector, b.getZeroAttr(vector));
  for (int64_t lane = 0; lane < vector.getDimSize(0); ++lane) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(vector::ExtractOp::create(b, operand, lane));
    Value piece = LLVM::CallOp::create(b, callee, operands).getResult();
    result = vector::InsertOp::create(b, piece, result, lane);
  }
  return result;
}

/// a / (e^b + c) with c ≥ 1, as in a sigmoid, is a times the device's
/// reciprocal: the divisor is neither 0 nor subnormal, where that is off.
static void expandDivision(arith::DivFOp op) {
  if (!getElementTypeOrSelf(op.getType()).isF32())
    return;
  auto sum = op.getRhs().getDefiningOp<arith::AddFOp>();
  if (!sum)
    return;
  for (auto [exp, constant] : {std::pair(sum.getLhs(), sum.getRhs()),
                               std::pair(sum.getRhs(), sum.getLhs())}) {
    APFloat value(0.0f);
    if (!exp.getDefiningOp<math::ExpOp>() ||
        !matchPattern(constant, m_ConstantFloat(&value)) ||
        value.convertToFloat() < 1)
      continue;
    OpBuilder b(op);
    Expander e(b, op.getLoc(), op.getLhs(), /*device=*/true);
    op.replaceAllUsesWith(e.mul(op.getLhs(), e.deviceReciprocal(op.getRhs())));
    op.erase();
    return;
  }
}

/// A vector is rounded to bf16 two lanes an instruction. LLVM would convert
/// lane by lane, at a quarter of the rate, where the lanes are widened again,
/// and take pairs apart to select between roundings.
static void expandRounding(arith::TruncFOp op) {
  auto type = dyn_cast<VectorType>(op.getType());
  if (!type || !type.getElementType().isBF16() ||
      type.getNumElements() % 2 != 0 ||
      !getElementTypeOrSelf(op.getIn().getType()).isF32())
    return;
  ImplicitLocOpBuilder b(op.getLoc(), op);
  auto pair = VectorType::get(2, type.getElementType());
  Value result = arith::ConstantOp::create(b, type, b.getZeroAttr(type));
  for (int64_t lane = 0; lane < type.getNumElements(); lane += 2) {
    // The first operand becomes the upper half.
    Value high = vector::ExtractOp::create(b, op.getIn(), lane + 1);
    Value low = vector::ExtractOp::create(b, op.getIn(), lane);
    Value both = LLVM::CallIntrinsicOp::create(
                     b, pair, b.getStringAttr("llvm.nvvm.ff2bf16x2.rn"),
                     ValueRange{high, low})
                     .getResult(0);
    result = vector::InsertStridedSliceOp::create(
        b, both, result, ArrayRef<int64_t>{lane}, ArrayRef<int64_t>{1});
  }
  op.replaceAllUsesWith(result);
  op.erase();
}

namespace {
struct ExpandMath : blurt::impl::BlurtExpandMathBase<ExpandMath> {
  using BlurtExpandMathBase::BlurtExpandMathBase;

  void runOnOperation() override {
    if (device) {
      getOperation().walk([](arith::DivFOp op) { expandDivision(op); });
      getOperation().walk([](arith::TruncFOp op) { expandRounding(op); });
    }
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) {
      if (isa_and_nonnull<math::MathDialect>(op->getDialect()))
        ops.push_back(op);
    });
    for (Operation *op : ops)
      if (Value value = expand(op)) {
        op->replaceAllUsesWith(ValueRange{value});
        op->erase();
      }
  }

  Value expand(Operation *op) {
    OpBuilder b(op);
    Location loc = op->getLoc();
    Type element = getElementTypeOrSelf(op->getResult(0).getType());
    if (auto rsqrt = dyn_cast<math::RsqrtOp>(op)) {
      Expander e(b, loc, rsqrt.getOperand());
      Value one = e.splat(b.getFloatAttr(element, 1.0));
      return e.div(one, math::SqrtOp::create(b, loc, rsqrt.getOperand()));
    }
    if (element.isF32()) {
      Value result =
          llvm::TypeSwitch<Operation *, Value>(op)
              .Case([&](math::ExpOp exp) {
                bool approximate = bitEnumContainsAll(
                    exp.getFastmath(), arith::FastMathFlags::afn);
                return expandExp(b, loc, exp.getOperand(), device, approximate);
              })
              .Case([&](math::LogOp log) {
                return expandLog(b, loc, log.getOperand());
              })
              .Case([&](math::TanhOp tanh) {
                return expandTanh(b, loc, tanh.getOperand(), device);
              })
              .Case([&](math::ErfOp erf) {
                return expandErf(b, loc, erf.getOperand(), device);
              })
              .Case([&](math::PowFOp pow) {
                return expandPow(b, loc, pow.getLhs(), pow.getRhs());
              })
              .Default([](Operation *) { return Value(); });
      if (result)
        return result;
    }
    StringRef name = getLibmName(op);
    if (!name.empty() && (element.isF32() || element.isF64()))
      return callLibm(getOperation(), op, name);
    return {};
  }
};
} // namespace
