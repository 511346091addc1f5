//===- GroupBody.cpp - the body of a group at a point ------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "GroupBody.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace mlir::blurt;

/// Bodies of more operations than this are not unrolled.
static constexpr unsigned kHeavyBody = 16;
GroupBody::GroupBody(GroupOp group, KernelBuilder &builder)
    : group(group), plan(GroupPlan::compute(group)), b(builder) {
  unsigned cost = 0;
  for (Operation &op : *group.getBodyBlock())
    cost += isa<math::MathDialect>(op.getDialect()) ? 8 : 1;
  heavy = cost > kHeavyBody;
  coordinates.resize(plan.extents.size());
  findRounded();
}

void GroupBody::setCoordinates(ArrayRef<unsigned> dims, Value linear) {
  int64_t inner = 1;
  for (unsigned dim : llvm::reverse(dims)) {
    Value coordinate = b.div(linear, inner);
    if (dim != dims.front())
      coordinate = b.rem(coordinate, plan.extents[dim]);
    coordinates[dim] = coordinate;
    inner *= plan.extents[dim];
  }
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// How the lanes of a vector lie in one operand.
namespace {
struct LaneAccess {
  bool gather = false; ///< every lane has a position of its own
  int64_t stride = 0;  ///< otherwise: elements between lanes
  int64_t inner = 1;   ///< elements of the vector dims over which that holds
};
} // namespace

static LaneAccess getLaneAccess(const GroupPlan &plan, const Operand &operand,
                                int64_t width) {
  LaneAccess access;
  ArrayRef<unsigned> dims = plan.vectorDims;
  if (dims.empty())
    return access;
  access.stride = operand.strides[dims.back()];
  access.inner = plan.extents[dims.back()];
  unsigned dim = dims.size() - 1;
  while (dim > 0 && operand.strides[dims[dim - 1]] ==
                        operand.strides[dims[dim]] * plan.extents[dims[dim]])
    access.inner *= plan.extents[dims[--dim]];
  access.gather = dim != 0 && access.inner % width != 0;
  return access;
}

/// Elements from the operand's position at the start of the vector dims to
/// that of their linear index `start`.
Value GroupBody::vectorOffset(const Operand &operand, Value start) {
  LaneAccess access = getLaneAccess(plan, operand, b.getWidth());
  if (access.inner == plan.vectorPoints)
    return b.mul(start, access.stride);
  Value offset = b.mul(b.rem(start, access.inner), access.stride);
  if (access.gather)
    offset = b.i64(0);
  int64_t inner = 1;
  for (unsigned dim : llvm::reverse(plan.vectorDims)) {
    if ((access.gather || inner >= access.inner) && operand.strides[dim] != 0) {
      Value coordinate = b.rem(b.div(start, inner), plan.extents[dim]);
      offset = b.add(offset, b.mul(coordinate, operand.strides[dim]));
    }
    inner *= plan.extents[dim];
  }
  return offset;
}

Value GroupBody::pointerTo(const Operand &operand, Varies varies,
                           Point &point) {
  Scope &scope = *point.scopes[varies];
  if (Value known = scope.pointers.lookup(&operand))
    return known;
  Value pointer;
  auto addDims = [&](ArrayRef<unsigned> dims) {
    b.setInsertionPoint(scope.anchor);
    Value offset = b.i64(0);
    for (unsigned dim : dims)
      if (operand.strides[dim] != 0)
        offset = b.add(offset, b.mul(coordinates[dim], operand.strides[dim]));
    pointer = b.advance(operand.element, pointer, offset);
  };
  switch (varies) {
  case kUniform:
    pointer = arguments[operand.argument];
    addDims(plan.taskDims);
    break;
  case kLoop:
    pointer = pointerTo(operand, kUniform, point);
    addDims(plan.loopDims);
    break;
  case kVector:
  case kBoth:
    pointer = pointerTo(operand, varies == kBoth ? kLoop : kUniform, point);
    if (!getLaneAccess(plan, operand, b.getWidth()).gather) {
      b.setInsertionPoint(scope.anchor);
      pointer = b.advance(operand.element, pointer,
                          vectorOffset(operand, point.vectorStart));
    }
    break;
  }
  scope.pointers[&operand] = pointer;
  return pointer;
}

Value GroupBody::loadLanes(const Operand &operand, Value pointer,
                           Point &point) {
  LaneAccess access = getLaneAccess(plan, operand, b.getWidth());
  if (!access.gather)
    return b.loadVector(operand.element, pointer, access.stride, point.lanes,
                        operand.alignment);
  Type scalar = GroupOp::getScalarType(operand.element);
  return b.gather(scalar, point.lanes, /*unroll=*/false, [&](Value lane) {
    Value offset = vectorOffset(operand, b.add(point.vectorStart, lane));
    return b.loadScalar(operand.element,
                        b.advance(operand.element, pointer, offset));
  });
}

void GroupBody::storeLanes(const Operand &operand, Value value, Value pointer,
                           Point &point) {
  LaneAccess access = getLaneAccess(plan, operand, b.getWidth());
  if (!access.gather)
    return b.storeVector(operand.element, value, pointer, access.stride,
                         point.lanes, operand.alignment);
  if (b.isDevice()) {
    for (int64_t lane = 0; lane < b.getWidth(); ++lane) {
      Value piece = vector::ExtractOp::create(b, value, lane);
      Value offset =
          vectorOffset(operand, b.add(point.vectorStart, b.i64(lane)));
      b.storeScalar(operand.element, piece,
                    b.advance(operand.element, pointer, offset));
    }
    return;
  }
  // A store lane by lane, rare enough for a loop.
  Value count = point.lanes.count ? point.lanes.count : b.i64(b.getWidth());
  scf::ForOp loop = b.loop(b.i64(0), count, 1);
  b.atEnd(loop.getBody(), [&] {
    Value lane = loop.getInductionVar();
    Value index = arith::IndexCastOp::create(b, b.getIndexType(), lane);
    Value piece = vector::ExtractOp::create(b, value, OpFoldResult(index));
    Value offset = vectorOffset(operand, b.add(point.vectorStart, lane));
    b.storeScalar(operand.element, piece,
                  b.advance(operand.element, pointer, offset));
  });
}

Value GroupBody::loadInput(unsigned i, Varies varies, Point &point) {
  const Operand &operand = plan.inputs[i];
  BlockArgument argument = group.getBodyBlock()->getArgument(i);
  if (plan.isGlobal(argument)) {
    b.setInsertionPoint(global.anchor);
    return b.loadScalar(operand.element, arguments[operand.argument]);
  }
  Value pointer = pointerTo(operand, varies, point);
  b.setInsertionPoint(point.scopes[varies]->anchor);
  if (varies & kVector)
    return loadLanes(operand, pointer, point);
  return b.loadScalar(operand.element, pointer);
}

//===----------------------------------------------------------------------===//
// Values of the body
//===----------------------------------------------------------------------===//

Value GroupBody::emitIndex(IndexOp index, Point &point) {
  int walked = plan.walked[index.getDim()];
  if (walked < 0)
    return b.i64(0);
  if (!llvm::is_contained(plan.vectorDims, unsigned(walked)))
    return coordinates[walked];
  Value linear = arith::AddIOp::create(b, b.splat(point.vectorStart), b.iota());
  int64_t inner = 1;
  for (unsigned dim : llvm::reverse(plan.vectorDims)) {
    if (dim == unsigned(walked))
      break;
    inner *= plan.extents[dim];
  }
  VectorType type = b.laneType(b.getI64Type());
  if (inner != 1)
    linear = arith::DivUIOp::create(b, linear, b.constant(type, inner));
  if (plan.vectorDims.front() != unsigned(walked))
    linear = arith::RemUIOp::create(b, linear,
                                    b.constant(type, plan.extents[walked]));
  return linear;
}

Value GroupBody::loadTable(LoadOp load, Varies varies, Point &point,
                           Scope &scope) {
  auto type = cast<MemRefType>(load.getTable().getType());
  Type element = type.getElementType();
  auto [strides, ignored] = type.getStridesAndOffset();
  Value base = arguments[cast<BlockArgument>(load.getTable()).getArgNumber()];
  auto vectorClass = [&](Value value) {
    return !plan.isGlobal(value) && (plan.classOf(value) & kVector);
  };

  // Uniform indices, and the part of the last index besides the lane.
  Value lastUniform;
  bool contiguous = false, negative = false;
  if ((varies & kVector) && plan.vectorDims.size() == 1) {
    auto isLane = [&](Value value) {
      auto index = value.getDefiningOp<IndexOp>();
      return index && plan.walked[index.getDim()] == int(plan.vectorDims[0]);
    };
    Value last = load.getIndices().back();
    Operation *op = last.getDefiningOp();
    if (isLane(last)) {
      contiguous = true;
    } else if (op && isa<arith::AddIOp, arith::SubIOp>(op)) {
      negative = isa<arith::SubIOp>(op);
      for (unsigned i : {0u, 1u}) {
        if (!isLane(op->getOperand(i)) || vectorClass(op->getOperand(1 - i)) ||
            (negative && i == 1))
          continue;
        contiguous = true;
        lastUniform = op->getOperand(1 - i);
      }
    }
    for (Value index : load.getIndices().drop_back())
      contiguous &= !vectorClass(index);
  }

  SmallVector<Value> indices;
  for (Value index : load.getIndices()) {
    bool isLast = index == load.getIndices().back();
    indices.push_back(contiguous && isLast && index.getDefiningOp()
                          ? (lastUniform ? get(lastUniform, point) : Value())
                          : get(index, point));
  }
  b.setInsertionPoint(scope.anchor);
  if (contiguous) {
    Value last = point.vectorStart;
    if (indices.back())
      last =
          negative ? b.sub(last, indices.back()) : b.add(last, indices.back());
    Value offset = b.mul(last, strides.back());
    for (unsigned i = 0; i + 1 < indices.size(); ++i)
      offset = b.add(offset, b.mul(indices[i], strides[i]));
    unsigned table = cast<BlockArgument>(load.getTable()).getArgNumber() -
                     plan.inputs.size();
    int64_t alignment = lastUniform || plan.tableAlignments.empty()
                            ? 0
                            : plan.tableAlignments[table];
    return b.loadVector(element, b.advance(element, base, offset),
                        strides.back(), point.lanes, alignment);
  }
  auto loadAt = [&](llvm::function_ref<Value(Value)> scalarOf) {
    Value offset = b.i64(0);
    for (auto [index, stride] : llvm::zip_equal(indices, strides))
      offset = b.add(offset, b.mul(scalarOf(index), stride));
    return b.loadScalar(element, b.advance(element, base, offset));
  };
  if (!(varies & kVector))
    return loadAt([](Value index) { return index; });
  return b.gather(
      GroupOp::getScalarType(element), point.lanes, /*unroll=*/false,
      [&](Value lane) {
        return loadAt([&](Value index) -> Value {
          if (!isa<VectorType>(index.getType()))
            return index;
          APInt constant;
          if (matchPattern(lane, m_ConstantInt(&constant)))
            return vector::ExtractOp::create(b, index, constant.getSExtValue());
          Value position =
              arith::IndexCastOp::create(b, b.getIndexType(), lane);
          return vector::ExtractOp::create(b, index, OpFoldResult(position));
        });
      });
}

/// Whether `value` is the index along the vector dim, and fits 32 bits.
bool GroupBody::isLaneIndex(Value value) {
  auto index = value.getDefiningOp<IndexOp>();
  return index && plan.vectorDims.size() == 1 &&
         plan.walked[index.getDim()] == int(plan.vectorDims[0]) &&
         plan.extents[plan.vectorDims[0]] <=
             std::numeric_limits<int32_t>::max();
}

/// The lane, as an i32, at which the index along the vector dim is what
/// `compare` compares it with; some other number if there is none. Null if that
/// is not what it compares.
Value GroupBody::findLane(arith::CmpIOp compare, Point &point, Scope &scope) {
  if (compare.getPredicate() != arith::CmpIPredicate::eq &&
      compare.getPredicate() != arith::CmpIPredicate::ne)
    return {};
  for (auto [side, other] : {std::pair(compare.getLhs(), compare.getRhs()),
                             std::pair(compare.getRhs(), compare.getLhs())}) {
    if (!isLaneIndex(side) || (plan.classOf(other) & kVector))
      continue;
    Value wanted = get(other, point);
    b.setInsertionPoint(scope.anchor);
    // In 32 bits; from -1 no lane is at a distance of its number.
    Value isIndex = arith::CmpIOp::create(
        b, arith::CmpIPredicate::ult, wanted,
        b.i64(int64_t(std::numeric_limits<int32_t>::max()) + 1));
    Value from = arith::SelectOp::create(
        b, isIndex, arith::TruncIOp::create(b, b.getI32Type(), wanted),
        arith::ConstantOp::create(b, b.getI32IntegerAttr(-1)));
    return arith::SubIOp::create(
        b, from, arith::TruncIOp::create(b, b.getI32Type(), point.vectorStart));
  }
  return {};
}

int64_t GroupBody::getUnmasked() {
  int64_t least = 1;
  for (unsigned dim : plan.vectorDims)
    least *= plan.extents[dim];
  for (auto compare : group.getBodyBlock()->getOps<arith::CmpIOp>())
    if (std::optional<int64_t> bound = getConstantIntValue(compare.getRhs());
        bound && compare.getPredicate() == arith::CmpIPredicate::slt &&
        isLaneIndex(compare.getLhs()))
      least = std::min(least, std::max<int64_t>(*bound, 0));
  return least;
}

/// How far, as an i32, the first lane lies below what `compare` compares the
/// index along the vector dim with: lanes of lower numbers do, too. Null if it
/// does not ask whether the index is less.
Value GroupBody::countBelow(arith::CmpIOp compare, Point &point, Scope &scope) {
  if (compare.getPredicate() != arith::CmpIPredicate::slt ||
      !isLaneIndex(compare.getLhs()) ||
      (plan.classOf(compare.getRhs()) & kVector))
    return {};
  int64_t most = std::numeric_limits<int32_t>::max();
  if (std::optional<int64_t> bound = getConstantIntValue(compare.getRhs());
      bound && point.below && point.below <= *bound)
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(most));
  Value end = get(compare.getRhs(), point);
  b.setInsertionPoint(scope.anchor);
  // No difference of two numbers of 31 bits overflows.
  end = arith::MaxSIOp::create(b, end, b.i64(0));
  end = arith::MinSIOp::create(b, end, b.i64(most));
  return arith::SubIOp::create(
      b, arith::TruncIOp::create(b, b.getI32Type(), end),
      arith::TruncIOp::create(b, b.getI32Type(), point.vectorStart));
}

Value GroupBody::emitCheaply(Operation *op, Point &point, Scope &scope) {
  if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
    Value lane = findLane(compare, point, scope);
    if (!lane)
      lane = countBelow(compare, point, scope);
    if (!lane)
      return {};
    Value lanes =
        arith::TruncIOp::create(b, b.laneType(b.getI32Type()), b.iota());
    return arith::CmpIOp::create(b, compare.getPredicate(), lanes,
                                 b.splat(lane));
  }
  // One value in one lane and another in the rest: lane by lane, for a vector
  // of conditions is packed into bytes and taken apart again.
  auto select = dyn_cast<arith::SelectOp>(op);
  auto compare = select ? select.getCondition().getDefiningOp<arith::CmpIOp>()
                        : arith::CmpIOp();
  auto vector = dyn_cast<VectorType>(b.laneType(op->getResult(0).getType()));
  if (!compare || !vector || (plan.classOf(select.getTrueValue()) & kVector) ||
      (plan.classOf(select.getFalseValue()) & kVector))
    return {};
  Value lane = findLane(compare, point, scope);
  if (!lane)
    return {};
  Value first = get(select.getTrueValue(), point);
  Value second = get(select.getFalseValue(), point);
  b.setInsertionPoint(scope.anchor);
  Value result = arith::ConstantOp::create(b, vector, b.getZeroAttr(vector));
  for (int64_t i = 0, e = vector.getDimSize(0); i < e; ++i) {
    Value number = arith::ConstantOp::create(b, b.getI32IntegerAttr(i));
    Value isLane =
        arith::CmpIOp::create(b, compare.getPredicate(), lane, number);
    Value value = arith::SelectOp::create(b, isLane, first, second);
    result = vector::InsertOp::create(b, value, result, i);
  }
  return result;
}

void GroupBody::findRounded() {
  auto isNarrow = [](Type element) {
    return isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
  };
  for (auto [operand, argument] :
       llvm::zip(plan.inputs, group.getBodyBlock()->getArguments()))
    if (isNarrow(operand.element))
      rounded.insert(argument);
  for (Operation &op : group.getBodyBlock()->without_terminator()) {
    // Masked by a constant, which is a value of any format.
    if (auto select = dyn_cast<arith::SelectOp>(op)) {
      Value first = select.getTrueValue(), second = select.getFalseValue();
      if (second.getDefiningOp<arith::ConstantOp>() && rounded.contains(first))
        rounded.insert(select);
      continue;
    }
    auto extend = dyn_cast<arith::ExtFOp>(op);
    if (extend ? isNarrow(extend.getIn().getType())
               : isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::NegFOp,
                     math::AbsFOp>(op) &&
                     llvm::any_of(op.getOperands(), [&](Value operand) {
                       return rounded.contains(operand);
                     }))
      rounded.insert(op.getResult(0));
  }
}

Value GroupBody::get(Value value, Point &point) {
  Varies varies = plan.classOf(value);
  Scope &scope = plan.isGlobal(value) ? global : *point.scopes[varies];
  if (Value known = scope.values.lookup(value))
    return known;

  Value result;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    result = loadInput(argument.getArgNumber(), varies, point);
  } else if (auto index = value.getDefiningOp<IndexOp>()) {
    b.setInsertionPoint(scope.anchor);
    result = emitIndex(index, point);
  } else if (auto load = value.getDefiningOp<LoadOp>()) {
    result = loadTable(load, varies, point, scope);
  } else {
    Operation *op = value.getDefiningOp();
    assert(!isa<ReduceOp>(op) && "a reduction is used before its phase");
    if ((varies & kVector) && b.isDevice())
      if (Value cheap = emitCheaply(op, point, scope))
        return scope.values[value] = cheap;
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(get(operand, point));
    b.setInsertionPoint(scope.anchor);
    bool vector = varies & kVector;
    if (vector)
      for (Value &operand : operands)
        operand = b.splat(operand);
    // Lanes that are not valid must not divide by zero.
    if (vector && point.lanes.mask &&
        isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
            arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp>(op))
      operands[1] =
          arith::SelectOp::create(b, point.lanes.mask, operands[1],
                                  b.constant(operands[1].getType(), 1));
    Operation *clone = op->cloneWithoutRegions();
    clone->setOperands(operands);
    clone->setLoc(b.getLoc());
    if (auto exp = dyn_cast<math::ExpOp>(clone);
        exp && b.isDevice() && isRounded(op->getOperand(0)))
      exp.setFastmath(arith::FastMathFlags::afn);
    if (vector)
      for (OpResult res : clone->getResults())
        res.setType(b.laneType(res.getType()));
    b.insert(clone);
    for (auto [from, to] :
         llvm::zip_equal(op->getResults(), clone->getResults()))
      scope.values[from] = to;
    return scope.values.lookup(value);
  }
  scope.values[value] = result;
  return result;
}

Value GroupBody::getVector(Value value, Point &point) {
  Value result = get(value, point);
  b.setInsertionPoint(point.scopes[kBoth]->anchor);
  return b.splat(result);
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

Varies GroupBody::outputClass(unsigned i) const {
  auto &self = const_cast<GroupBody &>(*this);
  return plan.classOf(self.group.getMentionedDims(self.group.getOutputMap(i)));
}

bool GroupBody::hasOutputs(Varies varies) const {
  for (unsigned i = 0, e = plan.outputs.size(); i < e; ++i)
    if (outputClass(i) == varies)
      return true;
  return false;
}

void GroupBody::storeOutputs(Varies varies, Point &point,
                             llvm::function_ref<bool(unsigned)> wanted) {
  // All values first: an out may be the memory of an input.
  SmallVector<std::pair<unsigned, Value>> stores;
  for (unsigned i = 0, e = plan.outputs.size(); i < e; ++i)
    if (outputClass(i) == varies && (!wanted || wanted(i)))
      stores.emplace_back(i, get(group.getYielded()[i], point));
  for (auto [i, value] : stores) {
    const Operand &operand = plan.outputs[i];
    Value pointer = pointerTo(operand, varies, point);
    b.setInsertionPoint(point.scopes[varies]->anchor);
    if (varies & kVector)
      storeLanes(operand, b.splat(value), pointer, point);
    else
      b.storeScalar(operand.element, value, pointer);
  }
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Value GroupBody::combine(ReduceKind kind, Value lhs, Value rhs) {
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(lhs.getType()));
  if (kind == ReduceKind::Sum)
    return isFloat ? arith::AddFOp::create(b, lhs, rhs).getResult()
                   : arith::AddIOp::create(b, lhs, rhs).getResult();
  return isFloat ? arith::MaximumFOp::create(b, lhs, rhs).getResult()
                 : arith::MaxSIOp::create(b, lhs, rhs).getResult();
}

Value GroupBody::identity(ReduceKind kind, Type type) {
  if (kind == ReduceKind::Sum)
    return b.constant(type, 0);
  Type element = getElementTypeOrSelf(type);
  if (isa<FloatType>(element))
    return b.constant(type, -std::numeric_limits<double>::infinity());
  TypedAttr attr = IntegerAttr::get(element, APInt::getSignedMinValue(64));
  if (auto vector = dyn_cast<VectorType>(type))
    attr = SplatElementsAttr::get(vector, attr);
  return arith::ConstantOp::create(b, type, attr);
}

Value GroupBody::reduceInput(ReduceOp reduce, Point &point, bool vector) {
  if (!vector)
    return get(reduce.getValue(), point);
  Value value = getVector(reduce.getValue(), point);
  if (plan.schedule != Schedule::Row || !point.lanes.mask)
    return value;
  return arith::SelectOp::create(b, point.lanes.mask, value,
                                 identity(reduce.getKind(), value.getType()));
}
