//===- Lowering.cpp - builders of groups and their bodies -----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace blutrain;
using blurt::GroupOp;

//===----------------------------------------------------------------------===//
// Body
//===----------------------------------------------------------------------===//

static bool isFloat(Value value) { return isa<FloatType>(value.getType()); }

Value Body::constant(Type type, double value) {
  if (isa<FloatType>(type))
    return arith::ConstantOp::create(b, loc, FloatAttr::get(type, value));
  return integer(type, static_cast<int64_t>(value));
}

Value Body::integer(Type type, int64_t value) {
  return arith::ConstantOp::create(b, loc, IntegerAttr::get(type, value));
}

Value Body::constant(Attribute value) {
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return arith::ConstantOp::create(b, loc, integer);
  auto number = cast<FloatAttr>(value);
  Type type = GroupOp::getScalarType(number.getType());
  return constant(type, number.getValueAsDouble());
}

template <typename FloatOp, typename IntOp>
static Value binary(OpBuilder &b, Location loc, Value x, Value y) {
  if (isFloat(x))
    return FloatOp::create(b, loc, x, y);
  return IntOp::create(b, loc, x, y);
}

Value Body::add(Value x, Value y) {
  return binary<arith::AddFOp, arith::AddIOp>(b, loc, x, y);
}
Value Body::sub(Value x, Value y) {
  return binary<arith::SubFOp, arith::SubIOp>(b, loc, x, y);
}
Value Body::mul(Value x, Value y) {
  return binary<arith::MulFOp, arith::MulIOp>(b, loc, x, y);
}
Value Body::div(Value x, Value y) {
  return binary<arith::DivFOp, arith::DivSIOp>(b, loc, x, y);
}
Value Body::max(Value x, Value y) {
  return binary<arith::MaximumFOp, arith::MaxSIOp>(b, loc, x, y);
}
Value Body::min(Value x, Value y) {
  return binary<arith::MinimumFOp, arith::MinSIOp>(b, loc, x, y);
}

Value Body::compare(blu::ComparePredicate predicate, Value x, Value y) {
  using P = blu::ComparePredicate;
  if (isFloat(x)) {
    using F = arith::CmpFPredicate;
    F f = F::OEQ;
    switch (predicate) {
    case P::EQ:
      f = F::OEQ;
      break;
    case P::NE:
      f = F::UNE;
      break;
    case P::LT:
      f = F::OLT;
      break;
    case P::LE:
      f = F::OLE;
      break;
    case P::GT:
      f = F::OGT;
      break;
    case P::GE:
      f = F::OGE;
      break;
    }
    return arith::CmpFOp::create(b, loc, f, x, y);
  }
  using I = arith::CmpIPredicate;
  I i = I::eq;
  switch (predicate) {
  case P::EQ:
    i = I::eq;
    break;
  case P::NE:
    i = I::ne;
    break;
  case P::LT:
    i = I::slt;
    break;
  case P::LE:
    i = I::sle;
    break;
  case P::GT:
    i = I::sgt;
    break;
  case P::GE:
    i = I::sge;
    break;
  }
  return arith::CmpIOp::create(b, loc, i, x, y);
}

Value Body::select(Value condition, Value x, Value y) {
  return arith::SelectOp::create(b, loc, condition, x, y);
}

Value Body::neg(Value x) {
  if (isFloat(x))
    return arith::NegFOp::create(b, loc, x);
  return sub(integer(x.getType(), 0), x);
}
Value Body::abs(Value x) { return math::AbsFOp::create(b, loc, x); }
Value Body::exp(Value x) { return math::ExpOp::create(b, loc, x); }
Value Body::log(Value x) { return math::LogOp::create(b, loc, x); }
Value Body::sqrt(Value x) { return math::SqrtOp::create(b, loc, x); }
Value Body::rsqrt(Value x) { return div(constant(x.getType(), 1), sqrt(x)); }
Value Body::tanh(Value x) { return math::TanhOp::create(b, loc, x); }
Value Body::erfc(Value x) { return math::ErfcOp::create(b, loc, x); }
Value Body::pow(Value x, Value y) { return math::PowFOp::create(b, loc, x, y); }

Value Body::sigmoid(Value x) {
  Type type = x.getType();
  Value one = constant(type, 1);
  // e^-|x| is at most 1.
  Value z = exp(neg(abs(x)));
  Value positive = compare(blu::ComparePredicate::GE, x, constant(type, 0));
  return div(select(positive, one, z), add(one, z));
}

Value Body::bitAnd(Value x, Value y) {
  return arith::AndIOp::create(b, loc, x, y);
}
Value Body::bitXor(Value x, Value y) {
  return arith::XOrIOp::create(b, loc, x, y);
}
Value Body::shiftRight(Value x, int64_t bits) {
  return arith::ShRUIOp::create(b, loc, x, integer(x.getType(), bits));
}

Value Body::splitMix(Value x) {
  Type i64 = x.getType();
  Value z = add(x, integer(i64, int64_t(0x9e3779b97f4a7c15)));
  z = mul(bitXor(z, shiftRight(z, 30)),
          integer(i64, int64_t(0xbf58476d1ce4e5b9)));
  z = mul(bitXor(z, shiftRight(z, 27)),
          integer(i64, int64_t(0x94d049bb133111eb)));
  return bitXor(z, shiftRight(z, 31));
}

Value Body::cast(Value value, Type from, Type to) {
  Type source = value.getType(), target = GroupOp::getScalarType(to);
  if (to.isInteger(1)) {
    if (from.isInteger(1))
      return value;
    Value zero = isFloat(value) ? constant(source, 0) : integer(source, 0);
    return compare(blu::ComparePredicate::NE, value, zero);
  }
  if (source == target)
    return value;
  if (isa<FloatType>(source)) {
    if (!isa<FloatType>(target))
      return arith::FPToSIOp::create(b, loc, target, value);
    if (source.getIntOrFloatBitWidth() < target.getIntOrFloatBitWidth())
      return arith::ExtFOp::create(b, loc, target, value);
    return arith::TruncFOp::create(b, loc, target, value);
  }
  if (isa<FloatType>(target)) {
    if (from.isInteger(1))
      return arith::UIToFPOp::create(b, loc, target, value);
    return arith::SIToFPOp::create(b, loc, target, value);
  }
  if (source.getIntOrFloatBitWidth() > target.getIntOrFloatBitWidth())
    return arith::TruncIOp::create(b, loc, target, value);
  if (from.isInteger(1))
    return arith::ExtUIOp::create(b, loc, target, value);
  return arith::ExtSIOp::create(b, loc, target, value);
}

Value Body::reduceSum(Value x) {
  return blurt::ReduceOp::create(b, loc, x.getType(), blurt::ReduceKind::Sum,
                                 x);
}
Value Body::reduceMax(Value x) {
  return blurt::ReduceOp::create(b, loc, x.getType(), blurt::ReduceKind::Max,
                                 x);
}
Value Body::index(int64_t dim) {
  return blurt::IndexOp::create(b, loc, b.getI64Type(),
                                b.getI64IntegerAttr(dim));
}
Value Body::load(Value table, ArrayRef<Value> indices) {
  return blurt::LoadOp::create(b, loc, computeType(table), table, indices);
}

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

int64_t blutrain::product(ArrayRef<int64_t> extents) {
  int64_t result = 1;
  for (int64_t extent : extents)
    result *= extent;
  return result;
}

std::pair<int64_t, int64_t> blutrain::rowsOf(RankedTensorType type) {
  ArrayRef<int64_t> shape = type.getShape();
  return {product(shape.drop_back()), shape.back()};
}

/// The element that `value` holds everywhere, or null.
static Attribute getSplat(Value value) {
  while (auto reshape = value.getDefiningOp<blurt::ReshapeOp>())
    value = reshape.getSource();
  auto constant = value.getDefiningOp<blu::ConstantOp>();
  if (!constant)
    return {};
  if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
      dense && dense.isSplat())
    return dense.getSplatValue<Attribute>();
  return {};
}

//===----------------------------------------------------------------------===//
// GroupBuilder
//===----------------------------------------------------------------------===//

AffineMap GroupBuilder::map(ArrayRef<int64_t> dims) {
  MLIRContext *context = lowering.builder.getContext();
  SmallVector<AffineExpr> results;
  for (int64_t dim : dims)
    results.push_back(dim == kUnit ? getAffineConstantExpr(0, context)
                                   : getAffineDimExpr(dim, context));
  return AffineMap::get(domain.size(), 0, results, context);
}

void GroupBuilder::input(Value value, ArrayRef<int64_t> dims) {
  constants.push_back(getSplat(value));
  if (constants.back())
    return;
  inputs.push_back(value);
  inputMaps.push_back(map(dims));
}

void GroupBuilder::broadcastInput(Value value) {
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  SmallVector<int64_t> dims;
  for (auto [i, extent] : llvm::enumerate(shape)) {
    int64_t dim = domain.size() - shape.size() + i;
    dims.push_back(extent == domain[dim] ? dim : kUnit);
  }
  input(value, dims);
}

void GroupBuilder::table(Value value) { tables.push_back(value); }

void GroupBuilder::output(Type elementType, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> shape;
  for (int64_t dim : dims)
    shape.push_back(dim == kUnit ? 1 : domain[dim]);
  resultTypes.push_back(RankedTensorType::get(shape, elementType));
  outputMaps.push_back(map(dims));
}

GroupOp GroupBuilder::build(BodyFn body) {
  return GroupOp::create(
      lowering.builder, lowering.loc, kernel, domain, reduce, inputs, inputMaps,
      tables, ValueRange(), resultTypes, outputMaps,
      [&](OpBuilder &b, Location loc, ValueRange arguments) {
        Body scalars(b, loc);
        SmallVector<Value> values;
        unsigned next = 0;
        for (Attribute constant : constants)
          values.push_back(constant ? scalars.constant(constant)
                                    : arguments[next++]);
        llvm::append_range(values, arguments.drop_front(next));
        return body(scalars, values);
      });
}

//===----------------------------------------------------------------------===//
// Lowering
//===----------------------------------------------------------------------===//

Value Lowering::reshape(Value value, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, elementType(value));
  if (type == value.getType())
    return value;
  return blurt::ReshapeOp::create(builder, loc, type, value);
}

Value Lowering::transpose(Value value, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(tensorType(value).getDimSize(dim));
  return blurt::TransposeOp::create(
      builder, loc, RankedTensorType::get(shape, elementType(value)), value,
      permutation);
}

Value Lowering::slice(Value value, ArrayRef<int64_t> offsets,
                      ArrayRef<int64_t> sizes) {
  return blurt::SliceOp::create(
      builder, loc, RankedTensorType::get(sizes, elementType(value)), value,
      offsets);
}

static SmallVector<int64_t> identityDims(int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(0, rank));
}

Value Lowering::splat(RankedTensorType type, double value) {
  GroupBuilder group(*this, "fill", type.getShape());
  group.output(type.getElementType(), identityDims(type.getRank()));
  return group
      .build([&](Body &b, ArrayRef<Value>) -> SmallVector<Value> {
        return {
            b.constant(GroupOp::getScalarType(type.getElementType()), value)};
      })
      .getResult(0);
}

/// Constants of more elements that are not all equal are refused.
static constexpr int64_t kMaxConstantElements = 16;

Value Lowering::constant(ElementsAttr value) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<Attribute> elements;
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense)
    return {};
  if (dense.isSplat())
    elements.push_back(dense.getSplatValue<Attribute>());
  else if (type.getNumElements() <= kMaxConstantElements)
    llvm::append_range(elements, dense.getValues<Attribute>());
  else
    return {};
  GroupBuilder group(*this, "constant", type.getShape());
  group.output(type.getElementType(), identityDims(type.getRank()));
  return group
      .build([&](Body &b, ArrayRef<Value>) -> SmallVector<Value> {
        Value result = b.constant(elements[0]);
        if (elements.size() == 1)
          return {result};
        Type i64 = builder.getI64Type();
        Value position = b.integer(i64, 0);
        for (auto [dim, extent] : llvm::enumerate(type.getShape()))
          position =
              b.add(b.mul(position, b.integer(i64, extent)), b.index(dim));
        for (auto [i, element] : llvm::enumerate(elements))
          if (i > 0)
            result = b.select(b.compare(blu::ComparePredicate::EQ, position,
                                        b.integer(i64, i)),
                              b.constant(element), result);
        return {result};
      })
      .getResult(0);
}

Value Lowering::copy(Value value) {
  return elementwise("copy", tensorType(value), value,
                     [](Body &, ArrayRef<Value> in) { return in[0]; });
}

Value Lowering::elementwise(StringRef kernel, RankedTensorType resultType,
                            ValueRange operands,
                            function_ref<Value(Body &, ArrayRef<Value>)> body) {
  GroupBuilder group(*this, kernel, resultType.getShape());
  for (Value operand : operands)
    group.broadcastInput(operand);
  group.output(resultType.getElementType(), identityDims(resultType.getRank()));
  return group
      .build([&](Body &b, ArrayRef<Value> in) -> SmallVector<Value> {
        return {body(b, in)};
      })
      .getResult(0);
}

//===----------------------------------------------------------------------===//
// Full reductions
//===----------------------------------------------------------------------===//

/// Up to this many elements are reduced by one group.
static constexpr int64_t kSerialReduction = 16384;
/// Up to this many partial results are reduced by the second group.
static constexpr int64_t kSerialPartials = 65536;
/// Bounds on the elements that one partial result stands for.
static constexpr int64_t kMinChunk = 64, kMaxChunk = 4096;

/// How many consecutive elements of `shape` make a partial result; 0 if they
/// do not divide into such. Whole trailing dims where possible, so that
/// producers that broadcast along them can join.
static int64_t getChunk(ArrayRef<int64_t> shape) {
  int64_t chunk = 1;
  while (!shape.empty() && chunk * shape.back() <= kMaxChunk) {
    chunk *= shape.back();
    shape = shape.drop_back();
  }
  if (chunk >= kMinChunk)
    return chunk;
  if (shape.empty())
    return 0;
  for (int64_t factor = kMaxChunk / chunk; factor * chunk >= kMinChunk;
       --factor)
    if (shape.back() % factor == 0)
      return factor * chunk;
  // A dim without a suitable divisor: a partial result for all of it.
  return product(shape.drop_back()) > 1 ? chunk * shape.back() : 0;
}

SmallVector<Value> Lowering::reduceAll(StringRef kernel, blurt::ReduceKind kind,
                                       ValueRange inputs, BodyFn terms,
                                       ArrayRef<Type> elementTypes,
                                       BodyFn finish) {
  ArrayRef<int64_t> shape = tensorType(inputs[0]).getShape();
  int64_t count = product(shape);
  auto reduce = [&](Body &b, ArrayRef<Value> values) {
    SmallVector<Value> reduced;
    for (Value value : values)
      reduced.push_back(kind == blurt::ReduceKind::Sum ? b.reduceSum(value)
                                                       : b.reduceMax(value));
    return reduced;
  };

  int64_t chunk = count <= kSerialReduction ? 0 : getChunk(shape);
  if (chunk == 0 || chunk == count) {
    bool trivial = count == 1;
    GroupBuilder group(
        *this, kernel,
        trivial ? SmallVector<int64_t>{} : SmallVector<int64_t>{count},
        trivial ? SmallVector<int64_t>{} : SmallVector<int64_t>{0});
    for (Value input : inputs) {
      if (trivial)
        group.input(reshape(input, {}), {});
      else
        group.input(reshape(input, {count}), {0});
    }
    for (Type type : elementTypes)
      group.output(type, {});
    GroupOp op = group.build([&](Body &b, ArrayRef<Value> in) {
      SmallVector<Value> values = terms(b, in);
      return finish(b, trivial ? values : reduce(b, values));
    });
    return llvm::to_vector_of<Value>(op.getResults());
  }

  // The first group leaves partial results in the types they are computed in.
  int64_t parts = count / chunk;
  GroupBuilder group(*this, (kernel + "_partial").str(), {parts, chunk}, {1});
  for (Value input : inputs)
    group.input(reshape(input, {parts, chunk}), {0, 1});
  SmallVector<Type> types;
  { // Learn the types of the terms from a body that is thrown away.
    OpBuilder::InsertionGuard guard(builder);
    Block scratch;
    builder.setInsertionPointToStart(&scratch);
    SmallVector<Value> arguments;
    for (Value input : inputs)
      arguments.push_back(scratch.addArgument(computeType(input), loc));
    Body b(builder, loc);
    for (Value term : terms(b, arguments))
      types.push_back(term.getType());
  }
  for (Type type : types)
    group.output(type, {0});
  GroupOp partial = group.build(
      [&](Body &b, ArrayRef<Value> in) { return reduce(b, terms(b, in)); });
  auto same = [](Body &, ArrayRef<Value> in) { return SmallVector<Value>(in); };
  SmallVector<Value> partials = llvm::to_vector_of<Value>(partial.getResults());
  if (parts > kSerialPartials)
    return reduceAll(kernel, kind, partials, same, elementTypes, finish);

  GroupBuilder last(*this, kernel, {parts}, {0});
  for (Value value : partials)
    last.input(value, {0});
  for (Type type : elementTypes)
    last.output(type, {});
  GroupOp op = last.build(
      [&](Body &b, ArrayRef<Value> in) { return finish(b, reduce(b, in)); });
  return llvm::to_vector_of<Value>(op.getResults());
}

//===----------------------------------------------------------------------===//
// LoweringTable
//===----------------------------------------------------------------------===//

LoweringResult LoweringTable::lower(Operation *op, Lowering &lowering) const {
  auto function = functions.find(op->getName().getTypeID());
  if (function == functions.end())
    return op->emitOpError("has no conversion to blurt");
  return function->second(op, lowering);
}
