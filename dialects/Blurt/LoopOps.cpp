//===- LoopOps.cpp - rolled stacks ----------------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blurt/BlurtDialect.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::blurt;

//===----------------------------------------------------------------------===//
// LoopOp assembly
//===----------------------------------------------------------------------===//
//
//   blurt.loop "name" count 4 reverse carry(%a : T) slice(%w : T, %b : T)
//       -> (T, T) attributes {...} { ^bb0(%i: tensor<i64>, ...): ... }

static ParseResult
parseTypedOperands(OpAsmParser &parser, StringRef keyword,
                   SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands,
                   SmallVectorImpl<Type> &types) {
  if (failed(parser.parseOptionalKeyword(keyword)))
    return success();
  return parser.parseCommaSeparatedList(
      OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
        return failure(parser.parseOperand(operands.emplace_back()) ||
                       parser.parseColonType(types.emplace_back()));
      });
}

static void printTypedOperands(OpAsmPrinter &printer, StringRef keyword,
                               OperandRange operands) {
  if (operands.empty())
    return;
  printer << ' ' << keyword << '(';
  llvm::interleaveComma(operands, printer, [&](Value operand) {
    printer << operand << " : " << operand.getType();
  });
  printer << ')';
}

ParseResult LoopOp::parse(OpAsmParser &parser, OperationState &result) {
  auto &properties = result.getOrAddProperties<Properties>();
  StringAttr name;
  int64_t count;
  if (parser.parseAttribute(name) || parser.parseKeyword("count") ||
      parser.parseInteger(count))
    return failure();
  properties.setName(name);
  properties.setCount(parser.getBuilder().getI64IntegerAttr(count));
  if (succeeded(parser.parseOptionalKeyword("reverse")))
    properties.setReverse(parser.getBuilder().getUnitAttr());
  SmallVector<OpAsmParser::UnresolvedOperand> carries, slices;
  SmallVector<Type> carryTypes, sliceTypes;
  SMLoc loc = parser.getCurrentLocation();
  if (parseTypedOperands(parser, "carry", carries, carryTypes) ||
      parseTypedOperands(parser, "slice", slices, sliceTypes) ||
      parser.parseOptionalArrowTypeList(result.types) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.resolveOperands(carries, carryTypes, loc, result.operands) ||
      parser.resolveOperands(slices, sliceTypes, loc, result.operands))
    return failure();
  properties.operandSegmentSizes = {static_cast<int32_t>(carries.size()),
                                    static_cast<int32_t>(slices.size())};
  return parser.parseRegion(*result.addRegion());
}

void LoopOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printAttributeWithoutType(getNameAttr());
  printer << " count " << getCount();
  if (getReverse())
    printer << " reverse";
  printTypedOperands(printer, "carry", getCarries());
  printTypedOperands(printer, "slice", getSlices());
  printer.printOptionalArrowTypeList(getResultTypes());
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {"name", "count", "reverse", "operandSegmentSizes"});
  printer << ' ';
  printer.printRegion(getBody());
}

//===----------------------------------------------------------------------===//
// LoopOp builder
//===----------------------------------------------------------------------===//

void LoopOp::build(
    OpBuilder &builder, OperationState &state, StringRef name, int64_t count,
    bool reverse, ValueRange carries, ValueRange slices,
    function_ref<std::pair<SmallVector<Value>, SmallVector<Value>>(
        OpBuilder &, Location, Value, ValueRange, ValueRange)>
        body) {
  auto &properties = state.getOrAddProperties<Properties>();
  properties.setName(builder.getStringAttr(name));
  properties.setCount(builder.getI64IntegerAttr(count));
  if (reverse)
    properties.setReverse(builder.getUnitAttr());
  properties.operandSegmentSizes = {static_cast<int32_t>(carries.size()),
                                    static_cast<int32_t>(slices.size())};
  state.addOperands(carries);
  state.addOperands(slices);

  Region *region = state.addRegion();
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(region);
  block->addArgument(RankedTensorType::get({}, builder.getI64Type()),
                     state.location);
  for (Value carry : carries)
    block->addArgument(carry.getType(), carry.getLoc());
  for (Value slice : slices) {
    auto type = cast<RankedTensorType>(slice.getType());
    block->addArgument(RankedTensorType::get(type.getShape().drop_front(),
                                             type.getElementType()),
                       slice.getLoc());
  }
  ValueRange args = block->getArguments().drop_front();
  auto [next, collected] =
      body(builder, state.location, block->getArgument(0),
           args.take_front(carries.size()), args.drop_front(carries.size()));
  SmallVector<Value> yielded(next);
  yielded.append(collected);
  LoopYieldOp::create(builder, state.location, yielded);
  for (Value value : next)
    state.addTypes(value.getType());
  for (Value value : collected) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape{count};
    llvm::append_range(shape, type.getShape());
    state.addTypes(RankedTensorType::get(shape, type.getElementType()));
  }
}

//===----------------------------------------------------------------------===//
// LoopOp verifiers
//===----------------------------------------------------------------------===//

LogicalResult LoopOp::verify() {
  if (getCount() < 1)
    return emitOpError("count is ") << getCount() << ", expected at least 1";
  // L1
  for (auto [i, slice] : llvm::enumerate(getSlices())) {
    auto type = cast<RankedTensorType>(slice.getType());
    if (type.getRank() == 0)
      return emitOpError("slice ")
             << i << " has rank 0, expected a leading dim";
    if (failed(blurt::detail::verifyExtent(*this, "slice " + Twine(i), 0,
                                           type.getDimSize(0), getCount())))
      return failure();
  }
  if (getNumResults() < getCarries().size())
    return emitOpError("has ")
           << getNumResults() << " results, expected at least one for each of "
           << getCarries().size() << " carried values";
  return success();
}

LogicalResult LoopOp::verifyRegions() {
  Block *block = getBodyBlock();
  unsigned numCarries = getCarries().size();
  unsigned expectedArgs = 1 + numCarries + getSlices().size();
  if (block->getNumArguments() != expectedArgs)
    return emitOpError("body has ") << block->getNumArguments()
                                    << " arguments, expected " << expectedArgs;
  auto iterationType =
      RankedTensorType::get({}, IntegerType::get(getContext(), 64));
  if (getIteration().getType() != iterationType)
    return emitOpError("iteration argument has type ")
           << getIteration().getType() << ", expected " << iterationType;
  for (auto [i, slice] : llvm::enumerate(getSlices())) {
    auto type = cast<RankedTensorType>(slice.getType());
    auto expected = RankedTensorType::get(type.getShape().drop_front(),
                                          type.getElementType());
    if (getSliceArg(i).getType() != expected)
      return emitOpError("slice argument ")
             << i << " has type " << getSliceArg(i).getType() << ", expected "
             << expected;
  }
  auto yield = dyn_cast<LoopYieldOp>(block->getTerminator());
  if (!yield)
    return emitOpError("body must end in blurt.loop_yield");
  if (yield.getNumOperands() != getNumResults())
    return emitOpError("yields ")
           << yield.getNumOperands() << " values, expected " << getNumResults();
  // L2
  for (unsigned i = 0; i < numCarries; ++i) {
    Type expected = getCarries()[i].getType();
    for (auto [what, type] :
         {std::pair<StringRef, Type>{"argument", getCarryArg(i).getType()},
          {"yielded value", yield.getOperand(i).getType()},
          {"result", getResult(i).getType()}})
      if (type != expected)
        return emitOpError("carried ") << what << ' ' << i << " has type "
                                       << type << ", expected " << expected;
  }
  // L3
  for (unsigned i = numCarries; i < getNumResults(); ++i) {
    auto type = cast<RankedTensorType>(yield.getOperand(i).getType());
    SmallVector<int64_t> shape{static_cast<int64_t>(getCount())};
    llvm::append_range(shape, type.getShape());
    auto expected = RankedTensorType::get(shape, type.getElementType());
    if (getResult(i).getType() != expected)
      return emitOpError("collection ")
             << i - numCarries << " has type " << getResult(i).getType()
             << ", expected " << expected;
  }
  return success();
}
