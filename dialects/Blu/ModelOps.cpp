//===- ModelOps.cpp - models, parameters, stacks, steps -------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/BluSupport.h"

#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::blu;

//===----------------------------------------------------------------------===//
// Function-like ops
//===----------------------------------------------------------------------===//

static Type buildFunctionType(Builder &builder, ArrayRef<Type> arguments,
                              ArrayRef<Type> results,
                              function_interface_impl::VariadicFlag,
                              std::string &) {
  return builder.getFunctionType(arguments, results);
}

ParseResult ModelOp::parse(OpAsmParser &parser, OperationState &result) {
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false,
      getFunctionTypeAttrName(result.name), buildFunctionType,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void ModelOp::print(OpAsmPrinter &p) {
  function_interface_impl::printFunctionOp(
      p, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
      getArgAttrsAttrName(), getResAttrsAttrName());
}

static StringRef nameIn(DictionaryAttr attrs) {
  auto name = attrs ? attrs.getAs<StringAttr>("blu.name") : StringAttr();
  return name ? name.getValue() : StringRef();
}

StringRef ModelOp::getArgumentName(unsigned i) {
  return nameIn(function_interface_impl::getArgAttrDict(*this, i));
}

StringRef ModelOp::getResultName(unsigned i) {
  return nameIn(function_interface_impl::getResultAttrDict(*this, i));
}

std::optional<unsigned> ModelOp::findArgument(StringRef name) {
  for (unsigned i = 0, e = getNumArguments(); i < e; ++i)
    if (getArgumentName(i) == name)
      return i;
  return std::nullopt;
}

std::optional<unsigned> ModelOp::findResult(StringRef name) {
  for (unsigned i = 0, e = getResultTypes().size(); i < e; ++i)
    if (getResultName(i) == name)
      return i;
  return std::nullopt;
}

void ModelOp::getAsmBlockArgumentNames(Region &region,
                                       OpAsmSetValueNameFn setName) {
  for (BlockArgument argument : region.getArguments())
    if (argument.getArgNumber() < getNumArguments())
      setName(argument, getArgumentName(argument.getArgNumber()));
}

namespace {
/// A name in which some numbers run over a range: one range for each part `{i}`
/// of `pattern`.
struct NamePattern {
  std::string pattern;
  SmallVector<std::pair<int64_t, int64_t>, 2> ranges;

  /// Adds what stands between two dots. A number is a range of one.
  void append(StringRef part) {
    int64_t number;
    bool isNumber = !part.getAsInteger(10, number) && number >= 0 &&
                    std::to_string(number) == part;
    if (isNumber)
      append("{i}", number, number + 1);
    else
      pattern += ("." + part).str();
  }
  void append(StringRef part, int64_t first, int64_t last) {
    pattern += ("." + part).str();
    ranges.emplace_back(first, last);
  }
  void appendName(StringRef name) {
    for (StringRef part : llvm::split(name, '.'))
      append(part);
  }
  /// True if some name fits both; `other` has the same pattern.
  bool overlaps(const NamePattern &other) const {
    return llvm::all_of(llvm::zip(ranges, other.ranges), [](auto pair) {
      auto [a, b] = pair;
      return a.first < b.second && b.first < a.second;
    });
  }
};

/// Names that were given out, by pattern.
class NameTable {
public:
  /// The parameter that has taken a name of `name`, null if there is none.
  ParamOp insert(const NamePattern &name, ParamOp param) {
    auto &sharing = table[name.pattern];
    for (auto &[other, owner] : sharing)
      if (name.overlaps(other))
        return owner;
    sharing.emplace_back(name, param);
    return nullptr;
  }

private:
  llvm::StringMap<SmallVector<std::pair<NamePattern, ParamOp>, 1>> table;
};
} // namespace

/// C3 and C4 of `blu.model`.
static LogicalResult verifyParamNames(ModelOp model) {
  NameTable names, exports;
  auto report = [](ParamOp param, ParamOp first, StringRef what,
                   StringRef name) {
    InFlightDiagnostic diag = param.emitOpError()
                              << what << " '" << name << "' is already taken";
    diag.attachNote(first.getLoc()) << "by this parameter";
    return WalkResult::interrupt();
  };
  WalkResult walk = model.getBody().walk([&](ParamOp param) -> WalkResult {
    SmallVector<StackOp> stacks; // from the outermost
    for (Operation *op = param->getParentOp(); op && op != model;
         op = op->getParentOp())
      if (auto stack = dyn_cast<StackOp>(op))
        stacks.insert(stacks.begin(), stack);
    NamePattern name;
    std::string full;
    for (StackOp stack : stacks) {
      name.appendName(stack.getName());
      name.append("{i}", stack.getFirst(), stack.getLast());
      full += (stack.getName() + ".{i}.").str();
    }
    name.appendName(param.getName());
    full += param.getName();
    if (ParamOp first = names.insert(name, param))
      return report(param, first, "name", full);

    std::optional<StringRef> exported = param.getExportName();
    if (!exported)
      return WalkResult::advance();
    NamePattern file;
    bool hasIteration = false;
    for (StringRef part : llvm::split(*exported, '.')) {
      if (!stacks.empty() && part.contains("{i}")) {
        file.append(part, stacks.back().getFirst(), stacks.back().getLast());
        hasIteration = true;
      } else {
        file.append(part);
      }
    }
    if (!stacks.empty() && stacks.back().getCount() > 1 && !hasIteration) {
      param.emitOpError() << "is exported as '" << *exported << "' by "
                          << stacks.back().getCount()
                          << " iterations, expected '{i}' in the name";
      return WalkResult::interrupt();
    }
    if (ParamOp first = exports.insert(file, param))
      return report(param, first, "export name", *exported);
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult ModelOp::verify() {
  if (getBody().empty())
    return emitOpError("expected a body");
  // C1
  auto checkNames = [&](StringRef kind, unsigned count,
                        auto getName) -> LogicalResult {
    llvm::StringSet<> seen;
    for (unsigned i = 0; i < count; ++i) {
      StringRef name = getName(i);
      if (name.empty())
        return emitOpError() << kind << " " << i
                             << " has no name, expected a 'blu.name' attribute";
      if (!seen.insert(name).second)
        return emitOpError()
               << kind << " " << i << " repeats the name '" << name << "'";
    }
    return success();
  };
  if (failed(checkNames("argument", getNumArguments(),
                        [&](unsigned i) { return getArgumentName(i); })) ||
      failed(checkNames("result", getResultTypes().size(),
                        [&](unsigned i) { return getResultName(i); })))
    return failure();
  // C2
  if (auto loss = findResult("loss")) {
    auto type = dyn_cast<RankedTensorType>(getResultTypes()[*loss]);
    if (!type || type.getRank() != 0 || !isa<FloatType>(type.getElementType()))
      return emitOpError() << "result 'loss' has type "
                           << getResultTypes()[*loss]
                           << ", expected a scalar of floats";
  }
  return verifyParamNames(*this); // C3, C4
}

ParseResult StepOp::parse(OpAsmParser &parser, OperationState &result) {
  // `blu.step @name program(kind) (args) -> (results) { … }`
  StringAttr name;
  std::string keyword;
  SMLoc kindLoc;
  if (parser.parseSymbolName(name, SymbolTable::getSymbolAttrName(),
                             result.attributes) ||
      parser.parseKeyword("program") || parser.parseLParen() ||
      parser.getCurrentLocation(&kindLoc) ||
      parser.parseKeywordOrString(&keyword) || parser.parseRParen())
    return failure();
  auto kind = symbolizeProgram(keyword);
  if (!kind)
    return parser.emitError(kindLoc)
           << "expected train, eval, prefill, decode or vjp, got '" << keyword
           << "'";
  result.addAttribute(getProgramAttrName(result.name),
                      ProgramAttr::get(parser.getContext(), *kind));
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Type> resultTypes;
  SmallVector<DictionaryAttr> resultAttrs;
  bool isVariadic = false;
  if (function_interface_impl::parseFunctionSignatureWithArguments(
          parser, /*allowVariadic=*/false, arguments, isVariadic, resultTypes,
          resultAttrs))
    return failure();
  SmallVector<Type> argumentTypes;
  for (OpAsmParser::Argument &argument : arguments)
    argumentTypes.push_back(argument.type);
  result.addAttribute(getFunctionTypeAttrName(result.name),
                      TypeAttr::get(parser.getBuilder().getFunctionType(
                          argumentTypes, resultTypes)));
  if (parser.parseOptionalAttrDictWithKeyword(result.attributes))
    return failure();
  call_interface_impl::addArgAndResultAttrs(
      parser.getBuilder(), result, arguments, resultAttrs,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
  return parser.parseRegion(*result.addRegion(), arguments);
}

void StepOp::print(OpAsmPrinter &p) {
  p << ' ';
  p.printSymbolName(getSymName());
  p << " program(" << stringifyProgram(getProgram()) << ") ";
  call_interface_impl::printFunctionSignature(
      p, getArgumentTypes(), getArgAttrsAttr(), /*isVariadic=*/false,
      getResultTypes(), getResAttrsAttr(), &getBody(),
      /*printEmptyResult=*/false);
  p.printOptionalAttrDictWithKeyword(
      (*this)->getAttrs(), {SymbolTable::getSymbolAttrName(),
                            getProgramAttrName(), getFunctionTypeAttrName(),
                            getArgAttrsAttrName(), getResAttrsAttrName()});
  p << ' ';
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

void StepOp::getAsmBlockArgumentNames(Region &region,
                                      OpAsmSetValueNameFn setName) {
  for (BlockArgument argument : region.getArguments()) {
    unsigned i = argument.getArgNumber();
    auto tensor = i < getNumArguments()
                      ? getArgAttrOfType<DictionaryAttr>(i, "blu.tensor")
                      : DictionaryAttr();
    auto name = tensor ? tensor.getAs<StringAttr>("name") : StringAttr();
    auto role = tensor ? tensor.getAs<StringAttr>("role") : StringAttr();
    if (!name || !role)
      continue;
    // `{i}` would be spelled out in hexadecimal.
    std::string text = name.str();
    llvm::erase_if(text, [](char c) { return c == '{' || c == '}'; });
    if (role == "moment1" || role == "moment2")
      text = (role.getValue() + "." + text).str();
    setName(argument, text);
  }
}

LogicalResult StepOp::verify() {
  if (getBody().empty())
    return emitOpError("expected a body");
  // C1
  llvm::StringSet<> seen;
  auto isState = [](StringRef role) {
    return role == "param" || role == "moment1" || role == "moment2" ||
           role == "cache";
  };
  SmallVector<StringRef> roles;
  for (unsigned i = 0, e = getNumArguments(); i < e; ++i) {
    auto tensor = getArgAttrOfType<DictionaryAttr>(i, "blu.tensor");
    auto name = tensor ? tensor.getAs<StringAttr>("name") : StringAttr();
    auto role = tensor ? tensor.getAs<StringAttr>("role") : StringAttr();
    if (!name || !role)
      return emitOpError() << "argument " << i
                           << " expected a 'blu.tensor' with name and role";
    if (!isState(role) && role != "input" && role != "scalar")
      return emitOpError() << "argument " << i << " has role '"
                           << role.getValue()
                           << "', expected param, moment1, moment2, cache, "
                              "input or scalar";
    if (!seen.insert((role.getValue() + ":" + name.getValue()).str()).second)
      return emitOpError() << "argument " << i << " repeats " << role.getValue()
                           << " '" << name.getValue() << "'";
    roles.push_back(role.getValue());
  }
  // C2, C3
  llvm::DenseMap<unsigned, unsigned> donatedTo;
  for (unsigned i = 0, e = getResultTypes().size(); i < e; ++i) {
    auto donates = getResultAttrOfType<IntegerAttr>(i, "blu.donates");
    auto tensor = getResultAttrOfType<DictionaryAttr>(i, "blu.tensor");
    if (bool(donates) == bool(tensor))
      return emitOpError() << "result " << i
                           << " expected either 'blu.tensor' or 'blu.donates'";
    if (!donates)
      continue;
    int64_t argument = donates.getInt();
    if (argument < 0 || argument >= int64_t(getNumArguments()))
      return emitOpError() << "result " << i << " donates argument " << argument
                           << ", but there are " << getNumArguments();
    if (!isState(roles[argument]))
      return emitOpError() << "result " << i << " donates argument " << argument
                           << " of role '" << roles[argument]
                           << "', expected state";
    if (getArgumentTypes()[argument] != getResultTypes()[i])
      return emitOpError() << "result " << i << " has type "
                           << getResultTypes()[i] << ", donated argument "
                           << argument << " has "
                           << getArgumentTypes()[argument];
    if (!donatedTo.try_emplace(argument, i).second)
      return emitOpError() << "result " << i << " donates argument " << argument
                           << ", already donated by result "
                           << donatedTo[argument];
  }
  return success();
}

LogicalResult ReturnOp::verify() {
  auto function = cast<FunctionOpInterface>((*this)->getParentOp());
  ArrayRef<Type> expected = function.getResultTypes();
  if (expected.size() != getNumOperands())
    return emitOpError() << "has " << getNumOperands() << " values, expected "
                         << expected.size();
  for (auto [i, type] : llvm::enumerate(getOperandTypes()))
    if (type != expected[i])
      return emitOpError() << "value " << i << " has type " << type
                           << ", expected " << expected[i];
  return success();
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

LogicalResult ParamOp::verify() {
  if (getName().empty()) // C1
    return emitOpError("name is empty");
  if (!getType().hasStaticShape()) // C1
    return emitOpError() << "has type " << getType()
                         << ", expected a static shape";
  if (getDecay() && getNoDecay()) // C2
    return emitOpError("has both decay and no_decay");
  if (getTranspose() && getType().getRank() != 2) // C3
    return emitOpError() << "transposed export of rank " << getType().getRank()
                         << ", expected rank 2";
  return success();
}

void ParamOp::getAsmResultNames(OpAsmSetValueNameFn setName) {
  setName(getResult(), getName());
}

//===----------------------------------------------------------------------===//
// Stacks
//===----------------------------------------------------------------------===//

RankedTensorType StackOp::stackedType(Type type, int64_t count) {
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape.insert(shape.begin(), count);
  return RankedTensorType::get(shape, tensor.getElementType());
}

RankedTensorType StackOp::slicedType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return RankedTensorType::get(tensor.getShape().drop_front(),
                               tensor.getElementType());
}

void StackOp::build(OpBuilder &builder, OperationState &state, StringRef name,
                    int64_t first, int64_t last, bool reverse,
                    ValueRange carries, ValueRange slices,
                    TypeRange collectedTypes) {
  state.addOperands(carries);
  state.addOperands(slices);
  auto &properties = state.getOrAddProperties<Properties>();
  properties.setName(builder.getStringAttr(name));
  properties.setFirst(builder.getI64IntegerAttr(first));
  properties.setLast(builder.getI64IntegerAttr(last));
  if (reverse)
    properties.setReverse(builder.getUnitAttr());
  properties.setOperandSegmentSizes(
      {int32_t(carries.size()), int32_t(slices.size())});
  state.addTypes(carries.getTypes());
  for (Type type : collectedTypes)
    state.addTypes(stackedType(type, last - first));
  Region *body = state.addRegion();
  Block *block = new Block();
  body->push_back(block);
  block->addArgument(RankedTensorType::get({}, builder.getI64Type()),
                     state.location);
  for (Value carry : carries)
    block->addArgument(carry.getType(), carry.getLoc());
  for (Value slice : slices)
    block->addArgument(slicedType(slice.getType()), slice.getLoc());
}

void StackOp::getAsmBlockArgumentNames(Region &region,
                                       OpAsmSetValueNameFn setName) {
  if (region.getNumArguments())
    setName(region.getArgument(0), "iteration");
}

void AccumulateOp::getAsmBlockArgumentNames(Region &region,
                                            OpAsmSetValueNameFn setName) {
  if (region.getNumArguments())
    setName(region.getArgument(0), "microbatch");
}

/// Parses `keyword(%a = %x, …)` if it is there.
static ParseResult
parseBindings(OpAsmParser &parser, StringRef keyword,
              SmallVectorImpl<OpAsmParser::Argument> &arguments,
              SmallVectorImpl<OpAsmParser::UnresolvedOperand> &operands) {
  if (failed(parser.parseOptionalKeyword(keyword)))
    return success();
  return parser.parseCommaSeparatedList(
      OpAsmParser::Delimiter::Paren, [&]() -> ParseResult {
        return failure(parser.parseArgument(arguments.emplace_back()) ||
                       parser.parseEqual() ||
                       parser.parseOperand(operands.emplace_back()));
      });
}

static void printBindings(OpAsmPrinter &p, StringRef keyword,
                          ArrayRef<BlockArgument> arguments,
                          ValueRange operands) {
  if (operands.empty())
    return;
  p << ' ' << keyword << '(';
  llvm::interleaveComma(llvm::zip(arguments, operands), p, [&](auto pair) {
    p.printOperand(std::get<0>(pair));
    p << " = ";
    p.printOperand(std::get<1>(pair));
  });
  p << ')';
}

/// Parses `iteration(%i)` if it is there; without it the argument is unnamed.
static ParseResult parseIteration(OpAsmParser &parser,
                                  OpAsmParser::Argument &iteration,
                                  bool &isNamed) {
  isNamed = succeeded(parser.parseOptionalKeyword("iteration"));
  if (isNamed && (parser.parseLParen() || parser.parseArgument(iteration) ||
                  parser.parseRParen()))
    return failure();
  iteration.type = RankedTensorType::get({}, parser.getBuilder().getI64Type());
  return success();
}

/// Parses a region whose first argument may have no name.
static ParseResult parseBody(OpAsmParser &parser, Region &body,
                             OpAsmParser::Argument iteration, bool isNamed,
                             ArrayRef<OpAsmParser::Argument> rest) {
  SmallVector<OpAsmParser::Argument> arguments;
  if (isNamed)
    arguments.push_back(iteration);
  llvm::append_range(arguments, rest);
  if (parser.parseRegion(body, arguments))
    return failure();
  if (!isNamed)
    body.insertArgument(0u, iteration.type,
                        parser.getEncodedSourceLoc(parser.getNameLoc()));
  return success();
}

ParseResult StackOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr name;
  int64_t first, last;
  OpAsmParser::Argument iteration;
  bool isNamed;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> carries, slices;
  FunctionType type;
  SMLoc typeLoc;
  if (parser.parseAttribute(name) || parser.parseLSquare() ||
      parser.parseInteger(first) || parser.parseKeyword("to") ||
      parser.parseInteger(last) || parser.parseRSquare() ||
      parseIteration(parser, iteration, isNamed) ||
      parseBindings(parser, "carry", arguments, carries) ||
      parseBindings(parser, "slices", arguments, slices))
    return failure();
  auto &properties = result.getOrAddProperties<Properties>();
  Builder &builder = parser.getBuilder();
  if (succeeded(parser.parseOptionalKeyword("reverse")))
    properties.setReverse(builder.getUnitAttr());
  if (parser.parseOptionalAttrDict(result.attributes) || parser.parseColon() ||
      parser.getCurrentLocation(&typeLoc) || parser.parseType(type))
    return failure();
  properties.setName(name);
  properties.setFirst(builder.getI64IntegerAttr(first));
  properties.setLast(builder.getI64IntegerAttr(last));
  properties.setOperandSegmentSizes(
      {int32_t(carries.size()), int32_t(slices.size())});
  if (type.getNumInputs() != carries.size() + slices.size())
    return parser.emitError(typeLoc)
           << "has " << type.getNumInputs() << " operand types, expected "
           << carries.size() + slices.size();
  SmallVector<OpAsmParser::UnresolvedOperand> operands = carries;
  llvm::append_range(operands, slices);
  if (parser.resolveOperands(operands, type.getInputs(), typeLoc,
                             result.operands))
    return failure();
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    auto tensor = dyn_cast<RankedTensorType>(type.getInput(i));
    if (!tensor || (i >= carries.size() && tensor.getRank() == 0))
      return parser.emitError(typeLoc)
             << "operand " << i << " has type " << type.getInput(i)
             << ", expected a tensor with an iteration dim";
    argument.type = i < carries.size() ? Type(tensor) : slicedType(tensor);
  }
  result.addTypes(type.getResults());
  return parseBody(parser, *result.addRegion(), iteration, isNamed, arguments);
}

void StackOp::print(OpAsmPrinter &p) {
  p << ' ';
  p.printAttributeWithoutType(getNameAttr());
  p << " [" << getFirst() << " to " << getLast() << "] iteration(";
  p.printOperand(getIteration());
  p << ')';
  ArrayRef<BlockArgument> arguments =
      getBodyBlock()->getArguments().drop_front();
  printBindings(p, "carry", arguments.take_front(getNumCarries()),
                getCarries());
  printBindings(p, "slices", arguments.drop_front(getNumCarries()),
                getSlices());
  if (getReverse())
    p << " reverse";
  p.printOptionalAttrDict((*this)->getAttrs(),
                          {getNameAttrName(), getFirstAttrName(),
                           getLastAttrName(), getReverseAttrName(),
                           getOperandSegmentSizeAttr()});
  p << " : ";
  p.printFunctionalType(*this);
  p << ' ';
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult StackOp::verify() {
  int64_t first = getFirst(), last = getLast();
  if (first < 0 || first >= last) // C1
    return emitOpError() << "runs from " << first << " to " << last
                         << ", expected at least one iteration from 0 up";
  for (auto [i, slice] : llvm::enumerate(getSlices())) { // C2
    auto type = cast<RankedTensorType>(slice.getType());
    if (type.getRank() == 0 || type.getDimSize(0) != getCount())
      return emitOpError() << "stacked operand " << i << " has type " << type
                           << ", expected a dim 0 of " << getCount();
  }
  if (getNumResults() < getNumCarries())
    return emitOpError() << "has " << getNumResults() << " results, expected "
                         << getNumCarries() << " carried values first";
  return success();
}

/// The block arguments of a region that runs on an iteration, carried values
/// and slices.
static LogicalResult verifyIterationArguments(Operation *op, Block &block,
                                              ValueRange carries,
                                              ValueRange slices) {
  size_t expected = 1 + carries.size() + slices.size();
  if (block.getNumArguments() != expected)
    return op->emitOpError() << "body has " << block.getNumArguments()
                             << " arguments, expected " << expected;
  auto i64 = RankedTensorType::get({}, IntegerType::get(op->getContext(), 64));
  if (block.getArgument(0).getType() != i64)
    return op->emitOpError()
           << "iteration has type " << block.getArgument(0).getType()
           << ", expected " << i64;
  for (size_t i = 1; i < expected; ++i) {
    bool isCarry = i - 1 < carries.size();
    Type type =
        isCarry ? carries[i - 1].getType()
                : StackOp::slicedType(slices[i - 1 - carries.size()].getType());
    if (block.getArgument(i).getType() != type)
      return op->emitOpError()
             << "body argument " << i << " has type "
             << block.getArgument(i).getType() << ", expected " << type;
  }
  return success();
}

YieldOp StackOp::getYield() {
  return cast<YieldOp>(getBodyBlock()->getTerminator());
}
YieldOp CheckpointOp::getYield() {
  return cast<YieldOp>(getBodyBlock()->getTerminator());
}
YieldOp AccumulateOp::getYield() {
  return cast<YieldOp>(getBodyBlock()->getTerminator());
}

static LogicalResult verifyYields(Operation *op, Block &block) {
  if (!block.mightHaveTerminator() || !isa<YieldOp>(block.getTerminator()))
    return op->emitOpError("body expected to end in 'blu.yield'");
  return success();
}

LogicalResult StackOp::verifyRegions() {
  Block &block = *getBodyBlock();
  if (failed(
          verifyIterationArguments(*this, block, getCarries(), getSlices())) ||
      failed(verifyYields(*this, block)))
    return failure();
  auto yielded = getYield().getValues();
  if (yielded.size() != getNumResults())
    return emitOpError() << "body yields " << yielded.size()
                         << " values, expected " << getNumResults();
  for (auto [i, value] : llvm::enumerate(yielded)) {
    bool isCarry = i < getNumCarries();
    Type expected = isCarry ? getCarries()[i].getType()                 // C3
                            : stackedType(value.getType(), getCount()); // C4
    if (isCarry && value.getType() != expected)
      return emitOpError() << "body yields " << value.getType()
                           << " for carried value " << i << ", expected "
                           << expected;
    if (getResult(i).getType() != expected)
      return emitOpError() << "result " << i << " has type "
                           << getResult(i).getType() << ", expected "
                           << expected;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Checkpoints and accumulation
//===----------------------------------------------------------------------===//

static LogicalResult verifyResultsAreYielded(Operation *op, Block &block) {
  if (failed(verifyYields(op, block)))
    return failure();
  ValueRange yielded = block.getTerminator()->getOperands();
  if (yielded.size() != op->getNumResults())
    return op->emitOpError() << "body yields " << yielded.size()
                             << " values, expected " << op->getNumResults();
  for (auto [i, value] : llvm::enumerate(yielded))
    if (value.getType() != op->getResult(i).getType())
      return op->emitOpError()
             << "body yields " << value.getType() << " for result " << i
             << ", expected " << op->getResult(i).getType();
  return success();
}

LogicalResult CheckpointOp::verifyRegions() {
  return verifyResultsAreYielded(*this, *getBodyBlock()); // C1
}

ParseResult AccumulateOp::parse(OpAsmParser &parser, OperationState &result) {
  int64_t count;
  OpAsmParser::Argument iteration;
  bool isNamed;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> slices;
  FunctionType type;
  SMLoc typeLoc;
  if (parser.parseLSquare() || parser.parseInteger(count) ||
      parser.parseRSquare() || parseIteration(parser, iteration, isNamed) ||
      parseBindings(parser, "slices", arguments, slices) ||
      parser.parseOptionalAttrDict(result.attributes) || parser.parseColon() ||
      parser.getCurrentLocation(&typeLoc) || parser.parseType(type) ||
      parser.resolveOperands(slices, type.getInputs(), typeLoc,
                             result.operands))
    return failure();
  result.getOrAddProperties<Properties>().setCount(
      parser.getBuilder().getI64IntegerAttr(count));
  for (auto [argument, input] : llvm::zip(arguments, type.getInputs())) {
    auto tensor = dyn_cast<RankedTensorType>(input);
    if (!tensor || tensor.getRank() == 0)
      return parser.emitError(typeLoc)
             << "stacked operand has type " << input
             << ", expected a tensor with a microbatch dim";
    argument.type = StackOp::slicedType(tensor);
  }
  result.addTypes(type.getResults());
  return parseBody(parser, *result.addRegion(), iteration, isNamed, arguments);
}

void AccumulateOp::print(OpAsmPrinter &p) {
  p << " [" << getCount() << "] iteration(";
  p.printOperand(getIteration());
  p << ')';
  printBindings(p, "slices", getBodyBlock()->getArguments().drop_front(),
                getSlices());
  p.printOptionalAttrDict((*this)->getAttrs(), {getCountAttrName()});
  p << " : ";
  p.printFunctionalType(*this);
  p << ' ';
  p.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult AccumulateOp::verify() {
  if (getCount() < 1) // C1
    return emitOpError() << "count is " << getCount()
                         << ", expected at least 1";
  for (auto [i, slice] : llvm::enumerate(getSlices())) {
    auto type = cast<RankedTensorType>(slice.getType());
    if (type.getRank() == 0 || type.getDimSize(0) != int64_t(getCount()))
      return emitOpError() << "stacked operand " << i << " has type " << type
                           << ", expected a dim 0 of " << getCount();
  }
  return success();
}

LogicalResult AccumulateOp::verifyRegions() {
  if (failed(verifyIterationArguments(*this, *getBodyBlock(), {}, getSlices())))
    return failure();
  return verifyResultsAreYielded(*this, *getBodyBlock()); // C2
}
