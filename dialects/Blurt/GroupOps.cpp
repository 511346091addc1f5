//===- GroupOps.cpp - one kernel's worth of work --------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blurt/BlurtDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::blurt;

//===----------------------------------------------------------------------===//
// GroupOp assembly
//===----------------------------------------------------------------------===//
//
//   blurt.group "name" domain [8, 16] reduce [1]
//       ins(%x [map] : T, ...) tables(%t : T, ...)
//       outs(%o [map] : T, ...)            memref form
//       outs([map], ...) -> (T, ...)       tensor form
//       attributes {...} { ^bb0(...): ... }

static ParseResult parseMap(OpAsmParser &parser,
                            SmallVectorImpl<Attribute> &maps) {
  AffineMapAttr map;
  if (parser.parseLSquare() || parser.parseAttribute(map) ||
      parser.parseRSquare())
    return failure();
  maps.push_back(map);
  return success();
}

static ParseResult parseI64List(OpAsmParser &parser,
                                SmallVectorImpl<int64_t> &values) {
  return parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&] {
    return parser.parseInteger(values.emplace_back());
  });
}

ParseResult GroupOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &builder = parser.getBuilder();
  auto &properties = result.getOrAddProperties<Properties>();
  StringAttr kernel;
  SmallVector<int64_t> domain, reduce;
  if (parser.parseAttribute(kernel) || parser.parseKeyword("domain") ||
      parseI64List(parser, domain))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("reduce")) &&
      parseI64List(parser, reduce))
    return failure();

  using Operands = SmallVector<OpAsmParser::UnresolvedOperand>;
  Operands inputs, tables, outs;
  SmallVector<Type> inputTypes, tableTypes, outTypes;
  SmallVector<Attribute> inputMaps, outputMaps;
  SMLoc loc = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword("ins")) &&
      parser.parseCommaSeparatedList(
          OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
            return failure(parser.parseOperand(inputs.emplace_back()) ||
                           parseMap(parser, inputMaps) ||
                           parser.parseColonType(inputTypes.emplace_back()));
          }))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("tables")) &&
      parser.parseCommaSeparatedList(
          OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
            return failure(parser.parseOperand(tables.emplace_back()) ||
                           parser.parseColonType(tableTypes.emplace_back()));
          }))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("outs")) &&
      parser.parseCommaSeparatedList(
          OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
            OpAsmParser::UnresolvedOperand out;
            OptionalParseResult hasOut = parser.parseOptionalOperand(out);
            if (!hasOut.has_value())
              return parseMap(parser, outputMaps);
            if (failed(*hasOut))
              return failure();
            outs.push_back(out);
            return failure(parseMap(parser, outputMaps) ||
                           parser.parseColonType(outTypes.emplace_back()));
          }))
    return failure();
  if (parser.parseOptionalArrowTypeList(result.types) ||
      parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.resolveOperands(inputs, inputTypes, loc, result.operands) ||
      parser.resolveOperands(tables, tableTypes, loc, result.operands) ||
      parser.resolveOperands(outs, outTypes, loc, result.operands))
    return failure();

  properties.setKernel(kernel);
  properties.setDomain(builder.getDenseI64ArrayAttr(domain));
  properties.setReduce(builder.getDenseI64ArrayAttr(reduce));
  properties.setInputMaps(builder.getArrayAttr(inputMaps));
  properties.setOutputMaps(builder.getArrayAttr(outputMaps));
  properties.operandSegmentSizes = {static_cast<int32_t>(inputs.size()),
                                    static_cast<int32_t>(tables.size()),
                                    static_cast<int32_t>(outs.size())};
  Region *body = result.addRegion();
  if (parser.parseRegion(*body))
    return failure();
  ensureTerminator(*body, builder, result.location);
  return success();
}

void GroupOp::print(OpAsmPrinter &printer) {
  auto printMap = [&](AffineMap map) {
    printer << '[' << AffineMapAttr::get(map) << ']';
  };
  printer << ' ';
  printer.printAttributeWithoutType(getKernelAttr());
  printer << " domain [";
  llvm::interleaveComma(getDomain(), printer);
  printer << ']';
  if (!getReduce().empty()) {
    printer << " reduce [";
    llvm::interleaveComma(getReduce(), printer);
    printer << ']';
  }
  if (!getInputs().empty()) {
    printer << " ins(";
    for (auto [i, input] : llvm::enumerate(getInputs())) {
      printer << (i ? ", " : "") << input << ' ';
      printMap(getInputMap(i));
      printer << " : " << input.getType();
    }
    printer << ')';
  }
  if (!getTables().empty()) {
    printer << " tables(";
    llvm::interleaveComma(getTables(), printer, [&](Value table) {
      printer << table << " : " << table.getType();
    });
    printer << ')';
  }
  if (!getOutputMaps().empty()) {
    printer << " outs(";
    for (unsigned i = 0, e = getOutputMaps().size(); i < e; ++i) {
      printer << (i ? ", " : "");
      if (i < getOuts().size())
        printer << getOuts()[i] << ' ';
      printMap(getOutputMap(i));
      if (i < getOuts().size())
        printer << " : " << getOuts()[i].getType();
    }
    printer << ')';
  }
  printer.printOptionalArrowTypeList(getResultTypes());
  printer.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {"kernel", "domain", "reduce", "input_maps",
                            "output_maps", "operandSegmentSizes"});
  printer << ' ';
  printer.printRegion(getBody());
}

//===----------------------------------------------------------------------===//
// GroupOp: builder and queries
//===----------------------------------------------------------------------===//

Type GroupOp::getScalarType(Type elementType) {
  if (elementType.isBF16())
    return Float32Type::get(elementType.getContext());
  return elementType;
}

void GroupOp::build(
    OpBuilder &builder, OperationState &state, StringRef kernel,
    ArrayRef<int64_t> domain, ArrayRef<int64_t> reduce, ValueRange inputs,
    ArrayRef<AffineMap> inputMaps, ValueRange tables, ValueRange outs,
    TypeRange resultTypes, ArrayRef<AffineMap> outputMaps,
    function_ref<SmallVector<Value>(OpBuilder &, Location, ValueRange)> body) {
  auto &properties = state.getOrAddProperties<Properties>();
  properties.setKernel(builder.getStringAttr(kernel));
  properties.setDomain(builder.getDenseI64ArrayAttr(domain));
  properties.setReduce(builder.getDenseI64ArrayAttr(reduce));
  properties.setInputMaps(builder.getAffineMapArrayAttr(inputMaps));
  properties.setOutputMaps(builder.getAffineMapArrayAttr(outputMaps));
  properties.operandSegmentSizes = {static_cast<int32_t>(inputs.size()),
                                    static_cast<int32_t>(tables.size()),
                                    static_cast<int32_t>(outs.size())};
  state.addOperands(inputs);
  state.addOperands(tables);
  state.addOperands(outs);
  state.addTypes(resultTypes);

  Region *region = state.addRegion();
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(region);
  for (Value input : inputs)
    block->addArgument(getScalarType(getElementTypeOrSelf(input.getType())),
                       input.getLoc());
  for (Value table : tables)
    block->addArgument(table.getType(), table.getLoc());
  SmallVector<Value> yielded =
      body(builder, state.location, block->getArguments());
  GroupYieldOp::create(builder, state.location, yielded);
}

SmallVector<ShapedType> GroupOp::getOutputTypes() {
  SmallVector<ShapedType> types;
  TypeRange range = hasTensorSemantics() ? TypeRange(getResultTypes())
                                         : TypeRange(getOuts().getTypes());
  for (Type type : range)
    types.push_back(cast<ShapedType>(type));
  return types;
}

uint64_t GroupOp::getMentionedDims(AffineMap map) {
  uint64_t dims = 0;
  for (AffineExpr expr : map.getResults())
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      if (getDomain()[dim.getPosition()] != 1)
        dims |= uint64_t(1) << dim.getPosition();
  return dims;
}

/// Dims along which values of the group's body vary, for all of them at once.
static DenseMap<Value, uint64_t> computeVaryingDims(GroupOp group) {
  DenseMap<Value, uint64_t> varying;
  uint64_t reduced = 0;
  for (int64_t dim : group.getReduce())
    reduced |= uint64_t(1) << dim;
  for (unsigned i = 0, e = group.getInputs().size(); i < e; ++i)
    varying[group.getBodyBlock()->getArgument(i)] =
        group.getMentionedDims(group.getInputMap(i));
  for (Operation &op : *group.getBodyBlock()) {
    uint64_t dims = 0;
    for (Value operand : op.getOperands())
      dims |= varying.lookup(operand);
    if (auto index = dyn_cast<IndexOp>(op)) {
      if (group.getDomain()[index.getDim()] != 1)
        dims = uint64_t(1) << index.getDim();
    } else if (isa<ReduceOp>(op)) {
      dims &= ~reduced;
    }
    for (Value result : op.getResults())
      varying[result] = dims;
  }
  return varying;
}

uint64_t GroupOp::getVaryingDims(Value value) {
  return computeVaryingDims(*this).lookup(value);
}

void GroupOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  blurt::detail::addDestinationEffects(*this, getOutsMutable(),
                                       /*readsOuts=*/false, effects);
}

//===----------------------------------------------------------------------===//
// GroupOp verifiers
//===----------------------------------------------------------------------===//

/// G1, G2 for one operand.
static LogicalResult verifyMap(GroupOp op, StringRef what, unsigned i,
                               AffineMap map, ShapedType type) {
  ArrayRef<int64_t> domain = op.getDomain();
  // G1
  if (map.getNumDims() != domain.size() || map.getNumSymbols() != 0)
    return op.emitOpError()
           << what << " map " << i << " has " << map.getNumDims()
           << " dims and " << map.getNumSymbols() << " symbols, expected "
           << domain.size() << " and 0";
  // G2
  if (!type.hasStaticShape())
    return op.emitOpError() << what << ' ' << i << " has type " << type
                            << ", expected a static shape";
  if (int64_t(map.getNumResults()) != type.getRank())
    return op.emitOpError()
           << what << " map " << i << " has " << map.getNumResults()
           << " results, expected " << type.getRank();
  uint64_t seen = 0;
  for (auto [d, expr] : llvm::enumerate(map.getResults())) {
    int64_t expected = 1;
    if (auto dim = dyn_cast<AffineDimExpr>(expr)) {
      if (seen >> dim.getPosition() & 1)
        return op.emitOpError() << what << " map " << i << " names d"
                                << dim.getPosition() << " twice";
      seen |= uint64_t(1) << dim.getPosition();
      expected = domain[dim.getPosition()];
    } else if (auto constant = dyn_cast<AffineConstantExpr>(expr);
               !constant || constant.getValue() != 0) {
      return op.emitOpError() << what << " map " << i << " result " << d
                              << " is neither a dim nor 0";
    }
    if (failed(blurt::detail::verifyExtent(op, what + Twine(' ') + Twine(i), d,
                                           type.getDimSize(d), expected)))
      return failure();
  }
  return success();
}

LogicalResult GroupOp::verify() {
  ArrayRef<int64_t> domain = getDomain();
  if (domain.size() > 32)
    return emitOpError("domain has ")
           << domain.size() << " dims, expected at most 32";
  for (auto [i, extent] : llvm::enumerate(domain))
    if (extent < 1)
      return emitOpError("domain dim ")
             << i << " is " << extent << ", expected at least 1";
  // G5
  int64_t previous = -1;
  for (int64_t dim : getReduce()) {
    if (dim <= previous || dim >= int64_t(domain.size()))
      return emitOpError("reduced dim is ")
             << dim << ", expected ascending dims below " << domain.size();
    previous = dim;
  }
  // G1
  if (getInputMaps().size() != getInputs().size())
    return emitOpError("has ")
           << getInputMaps().size() << " input maps, expected "
           << getInputs().size();
  SmallVector<ShapedType> outputs = getOutputTypes();
  if (getOutputMaps().size() != outputs.size())
    return emitOpError("has ") << getOutputMaps().size()
                               << " output maps, expected " << outputs.size();
  if (failed(blurt::detail::verifyForm(*this, getOuts(), outputs.size())))
    return failure();
  for (auto [i, input] : llvm::enumerate(getInputs()))
    if (failed(verifyMap(*this, "input", i, getInputMap(i),
                         cast<ShapedType>(input.getType()))))
      return failure();
  uint64_t kept = 0;
  for (auto [i, extent] : llvm::enumerate(domain))
    if (extent != 1 && !isReduced(i))
      kept |= uint64_t(1) << i;
  for (auto [i, type] : llvm::enumerate(outputs)) {
    if (failed(verifyMap(*this, "output", i, getOutputMap(i), type)))
      return failure();
    // G3
    if (uint64_t missing = kept & ~getMentionedDims(getOutputMap(i)))
      return emitOpError("output map ")
             << i << " leaves out d" << llvm::countr_zero(missing)
             << ", which is not reduced";
  }
  return success();
}

LogicalResult GroupOp::verifyRegions() {
  Block *block = getBodyBlock();
  unsigned numInputs = getInputs().size();
  unsigned numArgs = numInputs + getTables().size();
  if (block->getNumArguments() != numArgs)
    return emitOpError("body has ")
           << block->getNumArguments() << " arguments, expected " << numArgs;
  for (auto [i, argument] : llvm::enumerate(block->getArguments())) {
    Type expected =
        i < numInputs
            ? getScalarType(getElementTypeOrSelf(getInputs()[i].getType()))
            : getTables()[i - numInputs].getType();
    if (argument.getType() != expected)
      return emitOpError("body argument ")
             << i << " has type " << argument.getType() << ", expected "
             << expected;
  }
  // G6
  for (Operation &op : block->without_terminator())
    if (!isa<ReduceOp, IndexOp, LoadOp, arith::ConstantOp>(op) &&
        !OpTrait::hasElementwiseMappableTraits(&op))
      return op.emitOpError("is not allowed in the body of a blurt.group, "
                            "expected an elementwise operation");
  SmallVector<ShapedType> outputs = getOutputTypes();
  auto yield = cast<GroupYieldOp>(block->getTerminator());
  if (yield.getNumOperands() != outputs.size())
    return yield.emitOpError("has ")
           << yield.getNumOperands() << " operands, expected "
           << outputs.size();
  DenseMap<Value, uint64_t> varying = computeVaryingDims(*this);
  for (auto [i, value] : llvm::enumerate(yield.getOperands())) {
    Type expected = getScalarType(outputs[i].getElementType());
    if (value.getType() != expected)
      return yield.emitOpError("operand ")
             << i << " has type " << value.getType() << ", expected "
             << expected;
    // G4
    if (uint64_t bad =
            varying.lookup(value) & ~getMentionedDims(getOutputMap(i)))
      return yield.emitOpError("operand ")
             << i << " varies along d" << llvm::countr_zero(bad)
             << ", which output map " << i << " leaves out";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Operations of the body
//===----------------------------------------------------------------------===//

LogicalResult IndexOp::verify() {
  // X1
  int64_t rank = cast<GroupOp>((*this)->getParentOp()).getDomain().size();
  int64_t dim = getDim();
  if (dim < 0 || dim >= rank)
    return emitOpError("dim is ") << dim << ", expected less than " << rank;
  return success();
}

void LoadOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (isa<BaseMemRefType>(getTable().getType()))
    effects.emplace_back(MemoryEffects::Read::get(), &getTableMutable(),
                         SideEffects::DefaultResource::get());
}

LogicalResult LoadOp::verify() {
  // X2
  auto group = cast<GroupOp>((*this)->getParentOp());
  auto argument = dyn_cast<BlockArgument>(getTable());
  if (!argument || argument.getOwner()->getParentOp() != group ||
      argument.getArgNumber() < group.getInputs().size())
    return emitOpError("reads a value that is not a table of the group");
  auto type = cast<ShapedType>(getTable().getType());
  if (!type.hasRank() || int64_t(getIndices().size()) != type.getRank())
    return emitOpError("has ") << getIndices().size() << " indices, expected "
                               << (type.hasRank() ? type.getRank() : 0);
  Type expected = GroupOp::getScalarType(type.getElementType());
  if (getResult().getType() != expected)
    return emitOpError("result is ")
           << getResult().getType() << ", expected " << expected;
  return success();
}
