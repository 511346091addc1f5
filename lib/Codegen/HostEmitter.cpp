//===- HostEmitter.cpp - calls from entries to kernels --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "HostEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SHA256.h"

using namespace mlir;
using namespace mlir::blurt;

LLVM::LLVMFuncOp blurt::declareFunction(ModuleOp module, StringRef name,
                                        TypeRange operands, Type result) {
  if (auto existing = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return existing;
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  if (!result)
    result = LLVM::LLVMVoidType::get(module.getContext());
  return LLVM::LLVMFuncOp::create(
      builder, module.getLoc(), name,
      LLVM::LLVMFunctionType::get(result, llvm::to_vector(operands)));
}

std::string blurt::getStructureKey(Operation *op) {
  std::string key;
  llvm::raw_string_ostream os(key);
  DenseMap<Value, unsigned> numbers;
  auto printOp = [&](Operation *op, bool isRoot) {
    os << op->getName() << '{';
    for (NamedAttribute attr : DictionaryAttr::get(
             op->getContext(),
             op->getPropertiesAsAttribute()
                 ? cast<DictionaryAttr>(op->getPropertiesAsAttribute())
                       .getValue()
                 : ArrayRef<NamedAttribute>()))
      if (!isRoot || attr.getName() != "kernel")
        os << attr.getName().getValue() << '=' << attr.getValue() << ',';
    os << '}';
    for (Value operand : op->getOperands()) {
      if (isRoot)
        os << ' ' << operand.getType();
      else
        os << " %" << numbers.lookup(operand);
    }
    os << "->";
    for (Value result : op->getResults()) {
      os << ' ' << result.getType();
      numbers[result] = numbers.size();
    }
    os << '\n';
  };
  printOp(op, true);
  for (Region &region : op->getRegions())
    for (Block &block : region) {
      for (BlockArgument argument : block.getArguments())
        numbers[argument] = numbers.size();
      for (Operation &inner : block)
        printOp(&inner, false);
    }
  return key;
}

std::string blurt::getSymbolName(StringRef prefix, StringRef name,
                                 unsigned number) {
  std::string symbol = (prefix + "_").str();
  for (char c : name)
    symbol += llvm::isAlnum(c) ? c : '_';
  return symbol + "_" + std::to_string(number);
}

static FileLineColLoc findFile(Location loc) {
  FileLineColLoc found;
  loc->walk([&](Location inner) {
    found = dyn_cast<FileLineColLoc>(inner);
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

std::string blurt::describeSource(Operation *op) {
  std::string text = op->getName().stripDialect().str();
  if (auto group = dyn_cast<GroupOp>(op))
    text = group.getKernel().str();
  else if (auto collective = dyn_cast<CollectiveOp>(op))
    text = collective.getKind().str();
  if (FileLineColLoc file = findFile(op->getLoc()))
    text += (" at " + llvm::sys::path::filename(file.getFilename()) + ":" +
             Twine(file.getLine()) + ":" + Twine(file.getColumn()))
                .str();
  return text;
}

/// blurt_device_kernel of blurt/blurt.h, with its maps.
void blurt::setPlanHash(ModuleOp module) {
  if (!module->hasAttr("blurt.program"))
    return;
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  llvm::SHA256 sha;
  sha.update(text);
  module->setAttr(
      "blurt.plan_hash",
      StringAttr::get(module.getContext(), llvm::toHex(sha.final(), true)));
}

Value HostEmitter::storeArguments(OpBuilder &builder, Location loc,
                                  ValueRange operands) {
  ImplicitLocOpBuilder b(loc, builder);
  auto ptr = LLVM::LLVMPointerType::get(b.getContext());
  if (int64_t(operands.size()) > numArguments || !arguments) {
    numArguments = std::max<int64_t>(operands.size(), numArguments);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(entry);
    Value size =
        arith::ConstantOp::create(b, b.getI64IntegerAttr(numArguments));
    if (arguments) {
      arguments.getArraySizeMutable().assign(size);
      arguments->moveAfter(size.getDefiningOp());
    } else {
      arguments = LLVM::AllocaOp::create(b, ptr, ptr, size, 64);
    }
  }
  for (auto [i, operand] : llvm::enumerate(operands)) {
    Value slot = LLVM::GEPOp::create(b, ptr, ptr, arguments,
                                     ArrayRef<LLVM::GEPArg>{int32_t(i)});
    Value pointer =
        isa<MemRefType>(operand.getType()) ? getPointer(operand) : operand;
    LLVM::StoreOp::create(b, pointer, slot, 8);
  }
  return arguments;
}

void HostEmitter::call(OpBuilder &builder, Location loc, StringRef callee,
                       ValueRange operands) {
  SmallVector<Value> all{context};
  llvm::append_range(all, operands);
  LLVM::LLVMFuncOp function =
      declareFunction(module, callee, ValueRange(all).getTypes());
  LLVM::CallOp::create(builder, loc, function, all);
}

//===----------------------------------------------------------------------===//
// Functions in plan form
//===----------------------------------------------------------------------===//

/// The address of a slot, computed where the slot is.
static Value emitSlot(SlotOp slot, Value arena) {
  ImplicitLocOpBuilder b(slot.getLoc(), slot);
  Value offset =
      arith::ConstantOp::create(b, b.getI64IntegerAttr(slot.getOffset()));
  for (auto [iteration, step] :
       llvm::zip_equal(slot.getIterations(), slot.getSteps())) {
    Value index = arith::IndexCastOp::create(b, b.getI64Type(), iteration);
    Value scale = arith::ConstantOp::create(b, b.getI64IntegerAttr(step));
    offset = arith::AddIOp::create(b, offset,
                                   arith::MulIOp::create(b, index, scale));
  }
  return LLVM::GEPOp::create(b, arena.getType(), b.getI8Type(), arena,
                             ArrayRef<LLVM::GEPArg>{offset});
}

/// Calls that take memrefs (debug hooks) take pointers from here on.
void HostEmitter::convertCall(func::CallOp call) {
  auto ptr = LLVM::LLVMPointerType::get(call.getContext());
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      call, call.getCalleeAttr());
  for (OpOperand &operand : call->getOpOperands())
    if (Value pointer = getPointer(operand.get()))
      operand.set(pointer);
  if (!callee || !callee.isExternal())
    return;
  SmallVector<Type> types;
  for (Type type : callee.getArgumentTypes())
    types.push_back(isa<MemRefType>(type) ? Type(ptr) : type);
  callee.setType(
      FunctionType::get(call.getContext(), types, callee.getResultTypes()));
}

static int64_t getDtype(Type type) {
  return type.isF64() ? 0 : type.isF32() ? 1 : 2;
}

/// A call of the runtime with the number of the collective in the program's
/// table, to which it adds an entry: every place in the program has its own,
/// so that a message can say which one it was. What is started before a loop
/// for its first iteration is the one of that place.
void HostEmitter::emitCollective(CollectiveOp op) {
  OpBuilder b(op);
  SmallVector<Attribute> table, values;
  if (auto list = module->getAttrOfType<ArrayAttr>("blurt.collectives"))
    llvm::append_range(table, list);
  for (auto [i, input] : llvm::enumerate(op.getInputs())) {
    CollectiveOp::Transfer transfer = op.getTransfer(i);
    values.push_back(b.getDenseI64ArrayAttr(
        {transfer.batch, transfer.count, transfer.piece,
         getDtype(getElementTypeOrSelf(input.getType()))}));
  }
  auto number = static_cast<int32_t>(table.size());
  if (op.getTicket())
    number = tickets.lookup(static_cast<int64_t>(*op.getTicket()));
  if (number == static_cast<int32_t>(table.size()))
    table.push_back(b.getDictionaryAttr(
        {b.getNamedAttr("kind", op.getKindAttr()),
         b.getNamedAttr("axis", op.getAxisAttr()),
         b.getNamedAttr("size", op.getSizeAttr()),
         b.getNamedAttr("source", b.getStringAttr(describeSource(op))),
         b.getNamedAttr("values", b.getArrayAttr(values))}));
  module->setAttr("blurt.collectives", b.getArrayAttr(table));
  SmallVector<Value> operands(op.getInputs());
  llvm::append_range(operands, op.getOuts());
  Value addresses = storeArguments(b, op.getLoc(), operands);
  Value which =
      arith::ConstantOp::create(b, op.getLoc(), b.getI32IntegerAttr(number));
  call(b, op.getLoc(),
       op.getAsync() ? "blurt_collective_start" : "blurt_collective_run",
       {which, addresses});
}

/// Of each ticket the number in the program's table: in a loop the wait for
/// what the last iteration started comes first.
void HostEmitter::numberTickets(func::FuncOp function) {
  tickets.clear();
  auto list = module->getAttrOfType<ArrayAttr>("blurt.collectives");
  auto next = static_cast<int32_t>(list ? list.size() : 0);
  function.walk<WalkOrder::PreOrder>([&](CollectiveOp op) {
    if (!op.getTicket() ||
        tickets.try_emplace(static_cast<int64_t>(*op.getTicket()), next).second)
      ++next;
  });
}

LogicalResult HostEmitter::emitWait(WaitOp op) {
  auto found = tickets.find(static_cast<int64_t>(op.getTicket()));
  if (found == tickets.end())
    return op.emitOpError("is for ticket ")
           << op.getTicket() << ", which no collective of the function has";
  OpBuilder b(op);
  Value number = arith::ConstantOp::create(b, op.getLoc(),
                                           b.getI32IntegerAttr(found->second));
  call(b, op.getLoc(), "blurt_collective_wait", {number});
  return success();
}

LogicalResult HostEmitter::convert(func::FuncOp function) {
  MLIRContext *ctx = function.getContext();
  auto ptr = LLVM::LLVMPointerType::get(ctx);
  entry = &function.getBody().front();
  if (entry->getNumArguments() == 0 || entry->getArgument(0).getType() != ptr) {
    // Functions without a context belong to others.
    bool ours = false;
    function.walk([&](Operation *op) {
      ours |= isa_and_nonnull<BlurtDialect>(op->getDialect());
    });
    if (!ours)
      return success();
    return function.emitError("first argument is not the runtime's context, "
                              "expected !llvm.ptr");
  }

  // Memref arguments (the arena) become pointers.
  SmallVector<Type> types;
  SmallVector<unsigned> replaced;
  for (unsigned i = 0; i < entry->getNumArguments(); ++i) {
    BlockArgument argument = entry->getArgument(i);
    if (isa<MemRefType>(argument.getType())) {
      BlockArgument pointer = entry->insertArgument(i, ptr, argument.getLoc());
      pointers[entry->getArgument(i + 1)] = pointer;
      if (replaced.empty())
        arena = pointer;
      replaced.push_back(i + 1);
      types.push_back(ptr);
      ++i;
    } else {
      types.push_back(argument.getType());
    }
  }
  context = entry->getArgument(0);
  arguments = nullptr;
  numArguments = 0;
  numberTickets(function);

  SmallVector<Operation *> done;
  WalkResult result = function.walk<WalkOrder::PreOrder>([&](Operation *op) {
    OpBuilder b(op);
    LogicalResult converted =
        llvm::TypeSwitch<Operation *, LogicalResult>(op)
            .Case([&](SlotOp slot) {
              pointers[slot] = emitSlot(slot, getPointer(slot.getArena()));
              return success();
            })
            .Case([&](CollectiveOp collective) {
              emitCollective(collective);
              return success();
            })
            .Case([&](WaitOp wait) { return emitWait(wait); })
            .Case<GroupOp, GemmOp, ScatterAddOp, CacheUpdateOp, AttentionOp,
                  AttentionGradOp>([&](auto op) { return emit(op); })
            .Case([&](memref::ExtractAlignedPointerAsIndexOp extract) {
              Value address =
                  LLVM::PtrToIntOp::create(b, op->getLoc(), b.getI64Type(),
                                           getPointer(extract.getSource()));
              extract.replaceAllUsesWith(
                  arith::IndexCastOp::create(b, op->getLoc(), b.getIndexType(),
                                             address)
                      .getResult());
              return success();
            })
            .Case([&](memref::StoreOp store) {
              emitStore(b, op->getLoc(), store.getValue(),
                        getPointer(store.getMemRef()));
              return success();
            })
            .Default([&](Operation *other) -> LogicalResult {
              if (isa_and_nonnull<BlurtDialect>(other->getDialect()))
                return other->emitOpError(
                    "is not part of the plan form, expected only slots, "
                    "groups and library ops");
              if (auto call = dyn_cast<func::CallOp>(other))
                convertCall(call);
              for (Value operand : other->getOperands())
                if (isa<MemRefType>(operand.getType()))
                  return other->emitOpError(
                      "uses a memref, which the kernel stage knows in slots, "
                      "groups, library ops and calls only");
              return success();
            });
    if (failed(converted))
      return WalkResult::interrupt();
    if (isa_and_nonnull<BlurtDialect>(op->getDialect()) ||
        isa<memref::ExtractAlignedPointerAsIndexOp, memref::StoreOp>(op)) {
      done.push_back(op);
      return WalkResult::skip();
    }
    return WalkResult::advance();
  });
  if (result.wasInterrupted())
    return failure();
  for (Operation *op : llvm::reverse(done))
    op->erase();
  for (unsigned argument : llvm::reverse(replaced))
    entry->eraseArgument(argument);
  function.setType(FunctionType::get(ctx, types, function.getResultTypes()));
  return success();
}
