//===- KernelHarness.cpp - compile and run plan-form code -----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "KernelHarness.h"

#include "blurt/Context.h"
#include "blurt/blurt.h"
#include "blutrain/Codegen/Object.h"
#include "blutrain/Codegen/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Verifier.h"

#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"

#include <cmath>
#include <cstring>
#include <ctime>

using namespace mlir;
using namespace mlir::blurt;
using namespace mlir::blurt::test;

static constexpr int64_t kArenaBytes = int64_t(1) << 26;

struct KernelHarness::Jit {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  void (*entry)(void *, void *) = nullptr;
};

void test::forEachPoint(ArrayRef<int64_t> extents,
                        const std::function<void(const Coordinates &)> &body) {
  int64_t total = 1;
  for (int64_t extent : extents)
    total *= extent;
  Coordinates at(extents.size());
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i;
    for (int64_t dim = int64_t(extents.size()) - 1; dim >= 0; --dim) {
      at[dim] = rest % extents[dim];
      rest /= extents[dim];
    }
    body(at);
  }
}

KernelHarness::KernelHarness() : b(UnknownLoc::get(&ctx), &ctx) {
  ctx.loadDialect<BlurtDialect, func::FuncDialect, arith::ArithDialect,
                  math::MathDialect, scf::SCFDialect, LLVM::LLVMDialect,
                  vector::VectorDialect, affine::AffineDialect>();
  module = ModuleOp::create(b.getLoc());
  b.setInsertionPointToEnd(module->getBody());
  auto type = b.getFunctionType({LLVM::LLVMPointerType::get(&ctx),
                                 MemRefType::get({kArenaBytes}, b.getI8Type())},
                                {});
  auto function = func::FuncOp::create(b, "run", type);
  Block *entry = function.addEntryBlock();
  b.setInsertionPointToStart(entry);
  auto ret = func::ReturnOp::create(b);
  b.setInsertionPoint(ret);
  arena = static_cast<char *>(std::aligned_alloc(4096, kArenaBytes));
}

KernelHarness::~KernelHarness() { std::free(arena); }

unsigned KernelHarness::add(ArrayRef<int64_t> shape, Type element,
                            ArrayRef<int64_t> strides) {
  SmallVector<int64_t> all(strides);
  if (strides.empty()) {
    all.resize(shape.size());
    int64_t inner = 1;
    for (int64_t dim = int64_t(shape.size()) - 1; dim >= 0; --dim) {
      all[dim] = inner;
      inner *= shape[dim];
    }
  }
  auto layout =
      strides.empty()
          ? MemRefLayoutAttrInterface()
          : MemRefLayoutAttrInterface(StridedLayoutAttr::get(&ctx, 0, strides));
  auto type = MemRefType::get(shape, element, layout);
  Buffer buffer{type, all, arenaUsed, {}};
  Value arenaValue =
      b.getInsertionBlock()->getParentOp()->getRegion(0).getArgument(1);
  buffer.value = SlotOp::create(b, type, arenaValue, ValueRange(),
                                buffer.offset, ArrayRef<int64_t>());
  int64_t bytes = *getSpanBytes(type);
  std::memset(arena + arenaUsed, 0xff, bytes + 128);
  // A gap of at least 64 bytes between buffers catches stray stores.
  arenaUsed = llvm::alignTo(arenaUsed + bytes + 64, 64);
  assert(arenaUsed < kArenaBytes && "arena of the harness is too small");
  buffers.push_back(buffer);
  return buffers.size() - 1;
}

unsigned KernelHarness::alias(unsigned of, ArrayRef<int64_t> shape,
                              ArrayRef<int64_t> strides,
                              int64_t elementOffset) {
  Type element = buffers[of].type.getElementType();
  auto type =
      MemRefType::get(shape, element, StridedLayoutAttr::get(&ctx, 0, strides));
  Buffer buffer{type,
                SmallVector<int64_t>(strides),
                buffers[of].offset + elementOffset * getElementBytes(element),
                {}};
  Value arenaValue =
      b.getInsertionBlock()->getParentOp()->getRegion(0).getArgument(1);
  buffer.value = SlotOp::create(b, type, arenaValue, ValueRange(),
                                buffer.offset, ArrayRef<int64_t>());
  buffers.push_back(buffer);
  return buffers.size() - 1;
}

char *KernelHarness::elementAddress(unsigned i, const Coordinates &at) const {
  const Buffer &buffer = buffers[i];
  int64_t position = 0;
  for (auto [coordinate, stride] : llvm::zip_equal(at, buffer.strides))
    position += coordinate * stride;
  return arena + buffer.offset +
         position * getElementBytes(buffer.type.getElementType());
}

double KernelHarness::get(unsigned i, const Coordinates &at) const {
  Type type = buffers[i].type.getElementType();
  const char *from = elementAddress(i, at);
  auto read = [&](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  if (type.isF32())
    return read(float());
  if (type.isF64())
    return read(double());
  if (type.isBF16()) {
    uint32_t bits = uint32_t(read(uint16_t())) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }
  if (type.isInteger(1))
    return read(uint8_t());
  if (type.isInteger(32))
    return read(int32_t());
  return double(read(int64_t()));
}

void KernelHarness::set(unsigned i, const Coordinates &at, double value) {
  Type type = buffers[i].type.getElementType();
  char *to = elementAddress(i, at);
  auto write = [&](auto typed) { std::memcpy(to, &typed, sizeof(typed)); };
  if (type.isF32())
    return write(float(value));
  if (type.isF64())
    return write(value);
  if (type.isBF16()) {
    float single = float(value);
    uint32_t bits;
    std::memcpy(&bits, &single, 4);
    return write(uint16_t(bits >> 16));
  }
  if (type.isInteger(1))
    return write(uint8_t(value != 0));
  if (type.isInteger(32))
    return write(int32_t(value));
  write(int64_t(value));
}

void KernelHarness::fill(unsigned i, const std::function<double()> &next) {
  forEachPoint(buffers[i].type.getShape(),
               [&](const Coordinates &at) { set(i, at, next()); });
}

void KernelHarness::randomize(unsigned i) {
  Type type = buffers[i].type.getElementType();
  std::normal_distribution<double> normal;
  fill(i, [&]() -> double {
    if (isa<FloatType>(type))
      return normal(rng);
    return double(pick(0, type.isInteger(1) ? 1 : 9));
  });
}

bool KernelHarness::compile() {
  llvm::raw_string_ostream(dump) << *module;
  if (failed(verify(*module)))
    return false;
  PassManager manager(&ctx);
  manager.addPass(createBlurtEmitCpuKernels());
  buildLowerToLLVMPipeline(manager);
  if (failed(manager.run(*module)))
    return false;
  SmallVector<char, 0> object;
  llvm::raw_svector_ostream os(object);
  std::string ir;
  llvm::raw_string_ostream irStream(ir);
  ObjectOptions options;
  if (verbose)
    options.llvmIR = &irStream;
  if (failed(emitObject(*module, CpuTarget::host(), os, options)))
    return false;
  if (verbose)
    llvm::errs() << ir;

  auto created = llvm::orc::LLJITBuilder().create();
  if (!created) {
    llvm::errs() << llvm::toString(created.takeError()) << '\n';
    return false;
  }
  jit = std::make_unique<Jit>();
  jit->jit = std::move(*created);
  llvm::orc::SymbolMap symbols;
  auto define = [&](StringRef name, auto *address) {
    symbols[jit->jit->mangleAndIntern(name)] = {
        llvm::orc::ExecutorAddr::fromPtr(address),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  };
  define("blurt_parallel", &blurt_parallel);
  define("blurt_gemm_f32", &blurt_gemm_f32);
  define("blurt_gemm_f64", &blurt_gemm_f64);
  define("blurt_gemm_tile_f32", &blurt_gemm_tile_f32);
  define("blurt_gemm_tile_f64", &blurt_gemm_tile_f64);
  llvm::orc::JITDylib &library = jit->jit->getMainJITDylib();
  llvm::cantFail(
      library.define(llvm::orc::absoluteSymbols(std::move(symbols))));
  library.addGenerator(llvm::cantFail(
      llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
          jit->jit->getDataLayout().getGlobalPrefix())));
  llvm::cantFail(jit->jit->addObjectFile(llvm::MemoryBuffer::getMemBufferCopy(
      StringRef(object.data(), object.size()))));
  if (!(*module)->hasAttr("blurt.program"))
    jit->entry = reinterpret_cast<void (*)(void *, void *)>(lookup("run"));
  return true;
}

double KernelHarness::time() {
  auto now = [] {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
  };
  ::blurt::Context context(1);
  double start = now();
  jit->entry(&context, arena);
  return now() - start;
}

void KernelHarness::setProgram(DictionaryAttr program) {
  (*module)->setAttr("blurt.program", program);
}

void *KernelHarness::lookup(StringRef name) {
  auto symbol = jit->jit->lookup(name);
  if (symbol)
    return symbol->toPtr<void *>();
  llvm::consumeError(symbol.takeError());
  return nullptr;
}

void KernelHarness::runEntry(void (*entry)(void *, void *)) {
  jit->entry = entry;
  run(1);
}

void KernelHarness::run(unsigned threads) {
  before.assign(arena, arena + arenaUsed + 64);
  ::blurt::Context context(threads);
  jit->entry(&context, arena);
}

bool KernelHarness::othersUntouched(ArrayRef<unsigned> outs) const {
  std::vector<bool> mayChange(before.size(), false);
  for (unsigned out : outs) {
    int64_t size = getElementBytes(buffers[out].type.getElementType());
    forEachPoint(buffers[out].type.getShape(), [&](const Coordinates &at) {
      int64_t begin = elementAddress(out, at) - arena;
      for (int64_t byte = 0; byte < size; ++byte)
        mayChange[begin + byte] = true;
    });
  }
  for (size_t i = 0; i < before.size(); ++i)
    if (!mayChange[i] && before[i] != arena[i])
      return false;
  return true;
}

std::vector<double> KernelHarness::contents(unsigned i) const {
  std::vector<double> values;
  forEachPoint(buffers[i].type.getShape(),
               [&](const Coordinates &at) { values.push_back(get(i, at)); });
  return values;
}

//===----------------------------------------------------------------------===//
// The interpreter
//===----------------------------------------------------------------------===//

namespace {
struct Interpreter {
  KernelHarness &harness;
  GroupOp group;
  ArrayRef<unsigned> inputs, tables;
  std::map<std::pair<void *, Coordinates>, double> reduced;

  static Coordinates apply(AffineMap map, const Coordinates &at) {
    Coordinates result;
    for (AffineExpr expr : map.getResults()) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      result.push_back(dim ? at[dim.getPosition()] : 0);
    }
    return result;
  }

  double evaluate(Value value, const Coordinates &at) {
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      unsigned i = argument.getArgNumber();
      return harness.get(inputs[i], apply(group.getInputMap(i), at));
    }
    Operation *op = value.getDefiningOp();
    auto operand = [&](unsigned i) { return evaluate(op->getOperand(i), at); };
    if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
      if (auto real = dyn_cast<FloatAttr>(constant.getValue()))
        return real.getValueAsDouble();
      return double(cast<IntegerAttr>(constant.getValue()).getInt());
    }
    if (auto index = dyn_cast<IndexOp>(op))
      return double(at[index.getDim()]);
    if (auto load = dyn_cast<LoadOp>(op)) {
      Coordinates position;
      for (Value index : load.getIndices())
        position.push_back(int64_t(evaluate(index, at)));
      unsigned table =
          cast<BlockArgument>(load.getTable()).getArgNumber() - inputs.size();
      return harness.get(tables[table], position);
    }
    if (auto reduce = dyn_cast<ReduceOp>(op)) {
      Coordinates kept = at;
      for (int64_t dim : group.getReduce())
        kept[dim] = 0;
      auto key = std::make_pair(static_cast<void *>(op), kept);
      auto known = reduced.find(key);
      if (known != reduced.end())
        return known->second;
      SmallVector<int64_t> extents;
      for (int64_t dim : group.getReduce())
        extents.push_back(group.getDomain()[dim]);
      bool isSum = reduce.getKind() == ReduceKind::Sum;
      double total = isSum ? 0 : -std::numeric_limits<double>::infinity();
      forEachPoint(extents, [&](const Coordinates &point) {
        Coordinates full = at;
        for (auto [dim, coordinate] : llvm::zip_equal(group.getReduce(), point))
          full[dim] = coordinate;
        double piece = evaluate(reduce.getValue(), full);
        total = isSum ? total + piece : std::max(total, piece);
      });
      return reduced[key] = total;
    }
    if (isa<arith::AddFOp, arith::AddIOp>(op))
      return operand(0) + operand(1);
    if (isa<arith::SubFOp, arith::SubIOp>(op))
      return operand(0) - operand(1);
    if (isa<arith::MulFOp, arith::MulIOp>(op))
      return operand(0) * operand(1);
    if (isa<arith::DivFOp>(op))
      return operand(0) / operand(1);
    if (isa<arith::RemSIOp>(op))
      return double(int64_t(operand(0)) % int64_t(operand(1)));
    if (isa<arith::MaximumFOp>(op))
      return std::max(operand(0), operand(1));
    if (isa<arith::SelectOp>(op))
      return operand(0) != 0 ? operand(1) : operand(2);
    if (auto compare = dyn_cast<arith::CmpIOp>(op)) {
      double l = operand(0), r = operand(1);
      return compare.getPredicate() == arith::CmpIPredicate::eq    ? l == r
             : compare.getPredicate() == arith::CmpIPredicate::sle ? l <= r
                                                                   : NAN;
    }
    if (auto compare = dyn_cast<arith::CmpFOp>(op))
      return compare.getPredicate() == arith::CmpFPredicate::OGT
                 ? operand(0) > operand(1)
                 : NAN;
    if (isa<arith::SIToFPOp, arith::ExtFOp, arith::TruncFOp, arith::ExtSIOp>(
            op))
      return operand(0);
    if (isa<math::ExpOp>(op))
      return std::exp(operand(0));
    if (isa<math::LogOp>(op))
      return std::log(operand(0));
    if (isa<math::TanhOp>(op))
      return std::tanh(operand(0));
    if (isa<math::ErfOp>(op))
      return std::erf(operand(0));
    if (isa<math::SqrtOp>(op))
      return std::sqrt(operand(0));
    if (isa<math::RsqrtOp>(op))
      return 1 / std::sqrt(operand(0));
    if (isa<math::PowFOp>(op))
      return std::pow(operand(0), operand(1));
    llvm::report_fatal_error("the interpreter does not know this operation");
  }
};
} // namespace

void test::interpretGroup(KernelHarness &harness, GroupOp group,
                          ArrayRef<unsigned> inputs, ArrayRef<unsigned> tables,
                          std::vector<std::vector<double>> &outputs) {
  Interpreter interpreter{harness, group, inputs, tables, {}};
  outputs.clear();
  for (unsigned i = 0; i < group.getOutputMaps().size(); ++i) {
    AffineMap map = group.getOutputMap(i);
    auto &values = outputs.emplace_back();
    forEachPoint(
        group.getOutputTypes()[i].getShape(), [&](const Coordinates &at) {
          // Dims that the map leaves out do not matter: take 0.
          Coordinates point(group.getDomain().size(), 0);
          for (auto [d, expr] : llvm::enumerate(map.getResults()))
            if (auto dim = dyn_cast<AffineDimExpr>(expr))
              point[dim.getPosition()] = at[d];
          values.push_back(interpreter.evaluate(group.getYielded()[i], point));
        });
  }
}
