//===- ShapeInference.cpp - broadcasting, refinement, helpers -------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/BluSupport.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::blu;

std::string blu::shapeString(ArrayRef<int64_t> shape) {
  return llvm::join(llvm::map_range(shape, extentString), "x");
}

std::string blu::extentString(int64_t extent) {
  return ShapedType::isDynamic(extent) ? "?" : std::to_string(extent);
}

LogicalResult blu::verifyInferredTypes(Operation *op) {
  SmallVector<Type> types;
  if (failed(cast<InferTypeOpInterface>(op).inferReturnTypes(
          op->getContext(), op->getLoc(), op->getOperands(),
          op->getRawDictionaryAttrs(), op->getPropertiesStorage(),
          op->getRegions(), types)))
    return failure();
  if (types.size() != op->getNumResults())
    return op->emitOpError() << "has " << op->getNumResults()
                             << " results, expected " << types.size();
  for (auto [i, pair] : llvm::enumerate(llvm::zip(op->getResultTypes(), types)))
    if (std::get<0>(pair) != std::get<1>(pair))
      return op->emitOpError()
             << "result " << i << " has type " << std::get<0>(pair)
             << ", expected " << std::get<1>(pair);
  return success();
}

bool blu::extentsMatch(int64_t a, int64_t b) {
  return a == b || ShapedType::isDynamic(a) || ShapedType::isDynamic(b);
}

bool blu::shapesMatch(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [](auto pair) {
           return extentsMatch(std::get<0>(pair), std::get<1>(pair));
         });
}

FailureOr<SmallVector<int64_t>>
blu::inferBroadcast(InferSite site, ArrayRef<ArrayRef<int64_t>> shapes) {
  SmallVector<int64_t> result;
  for (ArrayRef<int64_t> shape : shapes) {
    if (shape.size() > result.size())
      result.insert(result.begin(), shape.size() - result.size(), 1);
    size_t offset = result.size() - shape.size();
    for (auto [i, extent] : llvm::enumerate(shape)) {
      int64_t &known = result[offset + i];
      if (known == 1 || (ShapedType::isDynamic(known) && extent != 1))
        known = extent;
      else if (!extentsMatch(known, extent) && extent != 1)
        return emitInferError(site, "shapes ", shapeString(shapes.front()),
                              " and ", shapeString(shape),
                              " do not broadcast: extents ", known, " and ",
                              extent, " differ and neither is 1");
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Refinement
//===----------------------------------------------------------------------===//

static LogicalResult refineOp(Operation *op);

static LogicalResult refineBlock(Block &block) {
  for (Operation &op : block)
    if (failed(refineOp(&op)))
      return failure();
  return success();
}

static LogicalResult refineOp(Operation *op) {
  if (auto stack = dyn_cast<StackOp>(op)) {
    for (auto [i, carry] : llvm::enumerate(stack.getCarries())) {
      stack.getCarryArg(i).setType(carry.getType());
      stack.getResult(i).setType(carry.getType());
    }
    for (auto [i, slice] : llvm::enumerate(stack.getSlices()))
      stack.getSliceArg(i).setType(StackOp::slicedType(slice.getType()));
    if (failed(refineBlock(*stack.getBodyBlock())))
      return failure();
    auto yielded = stack.getYield().getValues();
    for (unsigned i = stack.getNumCarries(), e = stack.getNumResults(); i < e;
         ++i)
      stack.getResult(i).setType(
          StackOp::stackedType(yielded[i].getType(), stack.getCount()));
    return success();
  }
  if (auto checkpoint = dyn_cast<CheckpointOp>(op)) {
    if (failed(refineBlock(*checkpoint.getBodyBlock())))
      return failure();
    for (auto [result, value] :
         llvm::zip(checkpoint.getResults(), checkpoint.getYield().getValues()))
      result.setType(value.getType());
    return success();
  }
  if (auto infer = dyn_cast<InferTypeOpInterface>(op)) {
    SmallVector<Type> types;
    if (failed(infer.inferReturnTypes(
            op->getContext(), op->getLoc(), op->getOperands(),
            op->getRawDictionaryAttrs(), op->getPropertiesStorage(),
            op->getRegions(), types)))
      return failure();
    for (auto [result, type] : llvm::zip(op->getResults(), types))
      result.setType(type);
    return success();
  }
  if (auto cast = dyn_cast<CastOp>(op)) {
    auto source = llvm::cast<RankedTensorType>(cast.getInput().getType());
    cast.getResult().setType(source.clone(cast.getType().getElementType()));
  }
  return success();
}

LogicalResult blu::refineTypes(Region &region) {
  return refineBlock(region.front());
}

//===----------------------------------------------------------------------===//
// Types of cotangents
//===----------------------------------------------------------------------===//

/// The stacked operand of which `value` is the slice, or null.
static Value getStackedOperand(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return {};
  auto stack = dyn_cast<StackOp>(argument.getOwner()->getParentOp());
  if (!stack || argument.getArgNumber() <= stack.getNumCarries())
    return {};
  return stack.getSlices()[argument.getArgNumber() - 1 - stack.getNumCarries()];
}

/// Whether `value` is an argument of a model or step, under views and slices.
static bool isArgument(Value value) {
  while (true) {
    if (Value operand = getStackedOperand(value))
      value = operand;
    else if (Operation *op = value.getDefiningOp();
             isa_and_nonnull<ReshapeOp, TransposeOp, SliceOp, SplitOp>(op))
      value = op->getOperand(0);
    else if (value.getDefiningOp<ParamOp>())
      return true;
    else
      return isa<BlockArgument>(value) &&
             isa<ModelOp, StepOp>(value.getParentBlock()->getParentOp());
  }
}

RankedTensorType blu::getCotangentType(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (Value operand = getStackedOperand(value))
    return type.clone(getCotangentType(operand).getElementType());
  if (auto concat = value.getDefiningOp<ConcatOp>()) {
    Type wide = type.getElementType();
    for (Value part : concat.getParts()) {
      if (part.getDefiningOp<ConstantOp>())
        continue;
      if (!isRoundedParameter(part))
        return type;
      wide = getCotangentType(part).getElementType();
    }
    return type.clone(wide);
  }
  auto rounding = value.getDefiningOp<CastOp>();
  if (!rounding || !isArgument(rounding.getInput()))
    return type;
  auto narrow = dyn_cast<FloatType>(type.getElementType());
  auto wide =
      dyn_cast<FloatType>(rounding.getInput().getType().getElementType());
  return narrow && wide && narrow.getWidth() < wide.getWidth()
             ? type.clone(wide)
             : type;
}

bool blu::isRoundedParameter(Value value) {
  return getCotangentType(value) != value.getType();
}

//===----------------------------------------------------------------------===//
// GradBuilder
//===----------------------------------------------------------------------===//

Value GradBuilder::scalar(double value, Value like) {
  Type element = type(like).getElementType();
  auto scalarType = RankedTensorType::get({}, element);
  Attribute attr = isa<FloatType>(element)
                       ? Attribute(b.getFloatAttr(element, value))
                       : Attribute(b.getIntegerAttr(element, int64_t(value)));
  return ConstantOp::create(b, loc,
                            cast<ElementsAttr>(DenseElementsAttr::get(
                                scalarType, ArrayRef<Attribute>(attr))));
}

Value GradBuilder::zeros(RankedTensorType type) {
  return ConstantOp::create(b, loc,
                            cast<ElementsAttr>(DenseElementsAttr::get(
                                type, b.getZeroAttr(type.getElementType()))));
}

Value GradBuilder::add(Value x, Value y) { return AddOp::create(b, loc, x, y); }
Value GradBuilder::sub(Value x, Value y) { return SubOp::create(b, loc, x, y); }
Value GradBuilder::mul(Value x, Value y) { return MulOp::create(b, loc, x, y); }
Value GradBuilder::div(Value x, Value y) { return DivOp::create(b, loc, x, y); }
Value GradBuilder::neg(Value x) { return NegOp::create(b, loc, x); }

Value GradBuilder::compare(ComparePredicate predicate, Value x, Value y) {
  return CompareOp::create(b, loc, predicate, x, y);
}

Value GradBuilder::select(Value condition, Value x, Value y) {
  return SelectOp::create(b, loc, condition, x, y);
}

Value GradBuilder::reduceSum(Value x, ArrayRef<int64_t> dims, bool keepDims) {
  return ReduceSumOp::create(b, loc, x, dims, keepDims);
}

Value GradBuilder::reshape(Value x, ArrayRef<int64_t> shape) {
  if (type(x).getShape() == shape)
    return x;
  return ReshapeOp::create(b, loc, x, shape);
}

Value GradBuilder::transpose(Value x, ArrayRef<int64_t> permutation) {
  return TransposeOp::create(b, loc, x, permutation);
}

Value GradBuilder::broadcast(Value x, RankedTensorType target) {
  if (x.getType() == target)
    return x;
  return BroadcastOp::create(b, loc, target, x);
}

Value GradBuilder::cast(Value x, Type elementType) {
  if (type(x).getElementType() == elementType)
    return x;
  return CastOp::create(b, loc, type(x).clone(elementType), x);
}

Value GradBuilder::reduceTo(Value x, RankedTensorType target) {
  ArrayRef<int64_t> from = type(x).getShape(), to = target.getShape();
  if (from == to)
    return x;
  size_t extra = from.size() - to.size();
  SmallVector<int64_t> dims;
  for (size_t i = 0; i < from.size(); ++i)
    if (i < extra || (to[i - extra] == 1 && from[i] != 1))
      dims.push_back(i);
  if (!dims.empty())
    x = reduceSum(x, dims, /*keepDims=*/false);
  return reshape(x, to);
}
