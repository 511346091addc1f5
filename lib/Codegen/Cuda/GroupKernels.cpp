//===- GroupKernels.cpp - device kernels for one group ----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "GroupKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::blurt;

DeviceGroupEmitter::DeviceGroupEmitter(GroupOp group, KernelBuilder &builder,
                                       const DeviceSchedule &schedule,
                                       ArrayRef<int64_t> alignments)
    : GroupBody(group, builder), schedule(schedule) {
  auto align = [&](Operand &operand, int64_t alignment) {
    int64_t bytes = getElementBytes(operand.element);
    uint64_t result = std::min<int64_t>(alignment, 16);
    for (auto [dim, stride] : llvm::enumerate(operand.strides)) {
      if (stride == 0)
        continue;
      bool innermost =
          !plan.vectorDims.empty() && dim == plan.vectorDims.back();
      int64_t step = stride * bytes;
      if (innermost && plan.extents[dim] % b.getWidth() == 0)
        step *= b.getWidth();
      result = llvm::MinAlign(result, step);
    }
    operand.alignment = std::max<int64_t>(result, bytes);
  };
  unsigned numInputs = plan.inputs.size();
  unsigned numTables = group.getTables().size();
  for (auto [i, operand] : llvm::enumerate(plan.inputs))
    align(operand, alignments[i]);
  for (auto [i, operand] : llvm::enumerate(plan.outputs))
    align(operand, alignments[numInputs + numTables + i]);
  for (auto [i, table] : llvm::enumerate(group.getTables())) {
    auto type = cast<MemRefType>(table.getType());
    int64_t bytes = getElementBytes(type.getElementType());
    auto [strides, offset] = type.getStridesAndOffset();
    uint64_t result = std::min<int64_t>(alignments[numInputs + i], 16);
    for (int64_t stride : ArrayRef<int64_t>(strides).drop_back())
      result = llvm::MinAlign(result, stride * bytes);
    if (!plan.vectorDims.empty() &&
        plan.extents[plan.vectorDims.back()] % b.getWidth() == 0)
      result = llvm::MinAlign(result, b.getWidth() * bytes);
    else
      result = bytes;
    plan.tableAlignments.push_back(std::max<int64_t>(result, bytes));
  }
}

Value DeviceGroupEmitter::special(StringRef what) {
  Type i32 = b.getI32Type();
  Value number;
  if (what == "tid")
    number = NVVM::ThreadIdXOp::create(b, i32);
  else if (what == "x")
    number = NVVM::BlockIdXOp::create(b, i32);
  else
    number = NVVM::BlockIdYOp::create(b, i32);
  return arith::ExtUIOp::create(b, b.getI64Type(), number);
}

void DeviceGroupEmitter::begin() {
  unsigned count = group.getNumOperands();
  for (unsigned i = 0; i < count; ++i)
    arguments.push_back(b.loadArgument(i));
  if (schedule.splits > 1)
    workspace = b.loadArgument(count);
  thread = special("tid");
  blockX = special("x");
  // What is the same everywhere is read before this.
  global.anchor = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
}

Value DeviceGroupEmitter::isLess(Value lhs, int64_t rhs) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lhs, b.i64(rhs));
}

Value DeviceGroupEmitter::isZero(Value value) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, value, b.i64(0));
}

scf::IfOp DeviceGroupEmitter::guard(Value condition) {
  scf::IfOp branch = b.branch(condition, false);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  return branch;
}

void DeviceGroupEmitter::barrier() { NVVM::Barrier0Op::create(b); }

Value DeviceGroupEmitter::getReduceMemory() {
  if (sharedMemory)
    return sharedMemory;
  size_t most = 1;
  for (auto &reduces : plan.phases)
    most = std::max(most, reduces.size());
  int64_t bytes = 8 * int64_t(most) *
                  (plan.schedule == Schedule::Column
                       ? schedule.lanesX * schedule.lanesY * schedule.width
                       : schedule.threads / 32);
  return sharedMemory = getShared(bytes);
}

Value DeviceGroupEmitter::getShared(int64_t bytes) {
  OpBuilder::InsertionGuard guard(b);
  LLVM::LLVMFuncOp kernel = b.getKernel();
  b.setInsertionPoint(kernel);
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), bytes);
  auto memory = LLVM::GlobalOp::create(
      b, type, /*isConstant=*/false, LLVM::Linkage::Internal,
      (kernel.getSymName() + "_shared").str(), Attribute(), /*alignment=*/16,
      /*addrSpace=*/3);
  b.setInsertionPointToStart(&kernel.getBody().front());
  return LLVM::AddressOfOp::create(b, memory);
}

Value DeviceGroupEmitter::shuffle(Value value, int32_t mask) {
  Type type = value.getType();
  auto i32 = [&](int32_t number) -> Value {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(number));
  };
  auto exchange = [&](Value word) -> Value {
    return NVVM::ShflOp::create(b, word.getType(), i32(-1), word, i32(mask),
                                i32(31), NVVM::ShflKind::bfly, UnitAttr());
  };
  if (type.isF32() || type.isInteger(32))
    return exchange(value);
  // 64 bits go as two words.
  Value bits = type.isInteger(64)
                   ? value
                   : arith::BitcastOp::create(b, b.getI64Type(), value);
  Value low = arith::TruncIOp::create(b, b.getI32Type(), bits);
  Value high = arith::TruncIOp::create(
      b, b.getI32Type(), arith::ShRUIOp::create(b, bits, b.i64(32)));
  low = arith::ExtUIOp::create(b, b.getI64Type(), exchange(low));
  high = arith::ExtUIOp::create(b, b.getI64Type(), exchange(high));
  bits =
      arith::OrIOp::create(b, low, arith::ShLIOp::create(b, high, b.i64(32)));
  return type.isInteger(64) ? bits : arith::BitcastOp::create(b, type, bits);
}

SmallVector<Value> DeviceGroupEmitter::identities(ArrayRef<ReduceOp> reduces) {
  SmallVector<Value> values;
  for (ReduceOp reduce : reduces) {
    auto op = reduce;
    values.push_back(identity(op.getKind(), b.laneType(op.getType())));
  }
  return values;
}

SmallVector<Value> DeviceGroupEmitter::acrossThreads(ArrayRef<ReduceOp> reduces,
                                                     SmallVector<Value> values,
                                                     int64_t threads,
                                                     Value lane) {
  for (auto [i, value] : llvm::enumerate(values)) {
    ReduceOp reduce = reduces[i];
    for (int32_t mask = 16; mask >= 1; mask /= 2)
      value = combine(reduce.getKind(), value, shuffle(value, mask));
  }
  if (threads == 32)
    return values;
  int64_t warps = threads / 32;
  Value memory = getReduceMemory();
  Type byte = b.getI8Type();
  Operation *end = &*b.getInsertionPoint();
  guard(isZero(b.rem(lane, 32)));
  Value warp = b.div(lane, 32);
  for (auto [i, value] : llvm::enumerate(values))
    b.storeScalar(
        value.getType(), value,
        b.advance(byte, memory, b.add(b.mul(warp, 8), b.i64(i * warps * 8))));
  b.setInsertionPoint(end);
  barrier();
  for (auto [i, value] : llvm::enumerate(values)) {
    ReduceOp reduce = reduces[i];
    Value sum;
    for (int64_t w = 0; w < warps; ++w) {
      Value part = b.loadScalar(value.getType(),
                                b.advance(byte, memory, (i * warps + w) * 8));
      sum = sum ? combine(reduce.getKind(), sum, part) : part;
    }
    value = sum;
  }
  barrier();
  return values;
}

DeviceLaunch DeviceGroupEmitter::emit() {
  begin();
  switch (plan.schedule) {
  case Schedule::Map:
    return schedule.turnedDim >= 0 ? emitTurned() : emitMap();
  case Schedule::Row:
    return emitRow();
  case Schedule::Column:
    return emitColumn();
  }
  llvm_unreachable("covered switch");
}

DeviceLaunch DeviceGroupEmitter::emitCombine() {
  begin();
  return plan.schedule == Schedule::Row ? emitRowCombine()
                                        : emitColumnCombine();
}

namespace {
/// What a group must do at least, for profiles.
struct GroupWork {
  GroupWork(GroupOp group, const GroupPlan &plan,
            const DeviceSchedule &schedule);

  int64_t flops = 0;        ///< operations, once for each point they vary over
  int64_t read = 0;         ///< inputs, and what is looked up in tables
  int64_t writtenAlong = 0; ///< outputs along the reduced dims
  int64_t writtenReduced = 0; ///< the others
  int64_t partials = 0;       ///< of reductions that are cut
};
} // namespace

GroupWork::GroupWork(GroupOp group, const GroupPlan &plan,
                     const DeviceSchedule &schedule) {
  auto pointsOf = [&](Value value) {
    int64_t points = 1;
    for (auto [dim, extent] : llvm::enumerate(group.getDomain()))
      if (plan.varying.lookup(value) >> dim & 1)
        points *= extent;
    return points;
  };
  read = getOperandBytes(group.getInputs());
  SmallVector<int64_t> lookedUp(group.getTables().size());
  unsigned firstTable = group.getInputs().size();
  for (Operation &op : group.getBodyBlock()->without_terminator()) {
    Value result = op.getResult(0);
    if (auto reduce = dyn_cast<ReduceOp>(op)) {
      flops += pointsOf(reduce->getOperand(0));
      if (schedule.splits > 1)
        partials += schedule.splits * pointsOf(result) *
                    getElementBytes(result.getType());
    } else if (auto load = dyn_cast<LoadOp>(op)) {
      unsigned table =
          cast<BlockArgument>(load.getTable()).getArgNumber() - firstTable;
      lookedUp[table] +=
          pointsOf(result) *
          getElementBytes(getElementTypeOrSelf(load.getTable().getType()));
    } else if (op.getNumOperands() > 0 && isa<FloatType>(result.getType()) &&
               !isa<arith::ExtFOp, arith::TruncFOp, arith::SelectOp>(op)) {
      flops += pointsOf(result);
    }
  }
  for (auto [table, bytes] : llvm::zip_equal(group.getTables(), lookedUp))
    read += std::min(bytes, getOperandBytes(table));
  uint64_t reduced = 0;
  for (int64_t dim : group.getReduce())
    reduced |= uint64_t(1) << dim;
  for (auto [i, out] : llvm::enumerate(group.getOuts()))
    (group.getMentionedDims(group.getOutputMap(i)) & reduced
         ? writtenAlong
         : writtenReduced) += getOperandBytes(out);
}

LogicalResult blurt::emitGroup(GroupOp op, CudaHost &host) {
  GroupPlan plan = GroupPlan::compute(op);
  DeviceSchedule schedule =
      DeviceSchedule::get(op, plan, host.getWorkspaceBytes());
  DeviceSchedule hopper =
      DeviceSchedule::get(op, plan, host.getWorkspaceBytes(), /*hopper=*/true);
  SmallVector<int64_t> alignments;
  std::string key = getStructureKey(op);
  for (Value operand : op.getOperands()) {
    alignments.push_back(std::min<int64_t>(16, host.getAlignment(operand)));
    key += " " + std::to_string(alignments.back());
  }
  bool isSplit = schedule.splits > 1;
  unsigned numArguments = op.getNumOperands() + isSplit;
  GroupWork work(op, plan, schedule);
  auto emit = [&](StringRef part, StringRef name, int64_t bytes, int64_t flops,
                  DeviceLaunch (DeviceGroupEmitter::*make)()) {
    auto emitTo = [&](gpu::GPUModuleOp module, const DeviceSchedule &schedule,
                      StringRef symbol) {
      KernelBuilder builder(module, op.getLoc(), symbol, numArguments,
                            schedule.width);
      DeviceGroupEmitter emitter(op, builder, schedule, alignments);
      DeviceLaunch launch = (emitter.*make)();
      launch.bytes = bytes;
      launch.flops = flops;
      return launch;
    };
    auto plain = [&](StringRef symbol) {
      return emitTo(host.getKernels(), schedule, symbol);
    };
    auto forHopper = [&](StringRef symbol) {
      return emitTo(host.getHopperKernels(), hopper, symbol);
    };
    return hopper.cacheBytes == schedule.cacheBytes
               ? host.getKernel(key + part.str(), name, op, numArguments, plain)
               : host.getKernel(key + part.str(), name, op, numArguments, plain,
                                forHopper);
  };
  OpBuilder builder(op);
  SmallVector<Value> operands(op.getOperands());
  if (isSplit)
    operands.push_back(host.getWorkspace(builder, op.getLoc()));
  host.launch(builder, op.getLoc(),
              emit("", op.getKernel(),
                   work.read + work.writtenAlong +
                       (isSplit ? work.partials : work.writtenReduced),
                   work.flops, &DeviceGroupEmitter::emit),
              operands);
  if (isSplit)
    host.launch(builder, op.getLoc(),
                emit("combine", (op.getKernel() + "_combine").str(),
                     work.partials + work.writtenReduced, 0,
                     &DeviceGroupEmitter::emitCombine),
                operands);
  return success();
}
