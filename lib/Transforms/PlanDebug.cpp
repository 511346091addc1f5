//===- PlanDebug.cpp - calls that check at run time -----------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "PlanDetail.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace blutrain;
using namespace mlir;

func::FuncOp DebugEmitter::getCallee(Action action) {
  StringRef name = action == Action::Define  ? "blurt_debug_define"
                   : action == Action::Use   ? "blurt_debug_use"
                   : action == Action::Check ? "blurt_debug_finite"
                                             : "blurt_debug_retire";
  if (auto callee = module.lookupSymbol<func::FuncOp>(name))
    return callee;
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  Type pointer = LLVM::LLVMPointerType::get(module.getContext());
  SmallVector<Type> types = {pointer, pointer, builder.getI64Type(), pointer};
  if (action == Action::Check)
    types.push_back(builder.getI64Type());
  auto callee = func::FuncOp::create(builder, module.getLoc(), name,
                                     builder.getFunctionType(types, {}));
  callee.setPrivate();
  return callee;
}

Value DebugEmitter::getString(OpBuilder &builder, Location loc,
                              StringRef what) {
  // The name is a hash of the text, so that equal texts share a global.
  std::string symbol = "blurt_what_" + llvm::utohexstr(llvm::xxh3_64bits(what));
  if (!module.lookupSymbol(symbol)) {
    OpBuilder globals = OpBuilder::atBlockBegin(module.getBody());
    std::string text = what.str();
    text.push_back('\0');
    auto type = LLVM::LLVMArrayType::get(globals.getI8Type(), text.size());
    LLVM::GlobalOp::create(globals, module.getLoc(), type, /*isConstant=*/true,
                           LLVM::Linkage::Internal, symbol,
                           globals.getStringAttr(text));
  }
  return LLVM::AddressOfOp::create(
      builder, loc, LLVM::LLVMPointerType::get(module.getContext()), symbol);
}

void DebugEmitter::emit(OpBuilder &builder, Location loc, Action action,
                        Value memref, StringRef what) {
  auto type = cast<MemRefType>(memref.getType());
  SmallVector<int64_t> strides;
  int64_t offset;
  [[maybe_unused]] LogicalResult strided =
      type.getStridesAndOffset(strides, offset);
  assert(succeeded(strided) && offset == 0 && "slots have strides, no offset");
  int64_t elementBytes = blurt::getElementBytes(type.getElementType());
  // The innermost dims that are one run of bytes.
  int64_t outer = type.getRank(), run = 1;
  while (outer > 0 &&
         (type.getDimSize(outer - 1) == 1 || strides[outer - 1] == run)) {
    run *= type.getDimSize(outer - 1);
    --outer;
  }
  Value text = getString(builder, loc, what);
  Value address =
      memref::ExtractAlignedPointerAsIndexOp::create(builder, loc, memref);
  OpBuilder::InsertionGuard guard(builder);
  auto index = [&](int64_t value) -> Value {
    return arith::ConstantIndexOp::create(builder, loc, value);
  };
  for (int64_t dim = 0; dim < outer; ++dim) {
    if (type.getDimSize(dim) == 1)
      continue;
    auto loop = scf::ForOp::create(builder, loc, index(0),
                                   index(type.getDimSize(dim)), index(1));
    builder.setInsertionPointToStart(loop.getBody());
    Value step = arith::MulIOp::create(builder, loc, loop.getInductionVar(),
                                       index(strides[dim] * elementBytes));
    address = arith::AddIOp::create(builder, loc, address, step);
  }
  Value integer =
      arith::IndexCastOp::create(builder, loc, builder.getI64Type(), address);
  Value pointer = LLVM::IntToPtrOp::create(
      builder, loc, LLVM::LLVMPointerType::get(builder.getContext()), integer);
  Value bytes = arith::ConstantIntOp::create(builder, loc, builder.getI64Type(),
                                             run * elementBytes);
  SmallVector<Value> arguments = {context, pointer, bytes, text};
  if (action == Action::Check)
    arguments.push_back(arith::ConstantIntOp::create(
        builder, loc, builder.getI64Type(), elementBytes));
  func::CallOp::create(builder, loc, getCallee(action), arguments);
}
