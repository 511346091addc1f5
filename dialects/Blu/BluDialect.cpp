//===- BluDialect.cpp - registration and attributes -----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Blu/Blu.h"
#include "Blu/Sharding.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::blu;

static ParseResult parseF64(AsmParser &parser, FloatAttr &value) {
  double number;
  if (parser.parseFloat(number))
    return failure();
  value = parser.getBuilder().getF64FloatAttr(number);
  return success();
}

static void printF64(AsmPrinter &printer, FloatAttr value) {
  printer.printFloat(value.getValue());
}

#include "Blu/BluDialect.cpp.inc"
#include "Blu/BluEnums.cpp.inc"
#include "Blu/BluInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "Blu/BluAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "Blu/BluOps.cpp.inc"

void BluDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "Blu/BluAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Blu/BluOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "Blu/BluShardingOps.cpp.inc"
      >();
}

Operation *BluDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                           Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}

LogicalResult NormalAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 FloatAttr mean, FloatAttr std) {
  if (!mean.getValue().isFinite())
    return emitError() << "mean is " << mean.getValueAsDouble()
                       << ", expected a finite number";
  if (!std.getValue().isFinite() || std.getValueAsDouble() < 0)
    return emitError() << "standard deviation is " << std.getValueAsDouble()
                       << ", expected a finite number of at least 0";
  return success();
}

LogicalResult UniformAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  FloatAttr low, FloatAttr high) {
  for (FloatAttr bound : {low, high})
    if (!bound.getValue().isFinite())
      return emitError() << "bound is " << bound.getValueAsDouble()
                         << ", expected a finite number";
  if (low.getValueAsDouble() > high.getValueAsDouble())
    return emitError() << "lower bound " << low.getValueAsDouble()
                       << " exceeds upper bound " << high.getValueAsDouble();
  return success();
}
