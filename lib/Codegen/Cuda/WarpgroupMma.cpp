//===- WarpgroupMma.cpp - what only Hopper's kernels use ------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "WarpgroupMma.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::blurt;

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static std::string join(size_t begin, size_t end) {
  std::string text;
  for (size_t i = begin; i != end; ++i)
    text += (i == begin ? "$" : ", $") + std::to_string(i);
  return text;
}

static std::string repeat(StringRef constraint, size_t count) {
  std::string text;
  for (size_t i = 0; i != count; ++i)
    text += constraint.str() + ",";
  return text;
}

/// Constraints of operands that are results 0, 1, … at the same time.
static std::string tie(size_t count) {
  std::string text;
  for (size_t i = 0; i != count; ++i)
    text += std::to_string(i) + ",";
  return text;
}

Value WarpgroupMma::describe(Value address, const SlabLayout &layout,
                             bool across) {
  // In units of 16 bytes: the address; from slab to slab, where rows run
  // across; from eight rows to the next; and the 128-byte swizzle.
  uint64_t next = across ? layout.slabBytes() / 16 : 1;
  uint64_t fields = uint64_t(1) << 62 | uint64_t(64) << 32 | next << 16;
  Value number = LLVM::PtrToIntOp::create(b, b.getI32Type(), address);
  Value start = b.div(b.bitAnd(number, 0x3FFFF), 16);
  Value wide = arith::ExtUIOp::create(b, b.getI64Type(), start);
  return arith::OrIOp::create(b, wide, b.i64(int64_t(fields)));
}

Value WarpgroupMma::advance(Value descriptor, Value bytes) {
  return b.add(descriptor,
               arith::ExtUIOp::create(b, b.getI64Type(), b.div(bytes, 16)));
}

WarpgroupMma::Values WarpgroupMma::assemble(const std::string &text,
                                            const std::string &constraints,
                                            ArrayRef<Value> operands,
                                            size_t results) {
  auto type = LLVM::LLVMStructType::getLiteral(
      b.getContext(), SmallVector<Type>(results, b.getF32Type()));
  Value all =
      LLVM::InlineAsmOp::create(
          b, type, operands, text, constraints, /*has_side_effects=*/true,
          /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
          LLVM::AsmDialectAttr::get(b.getContext(), LLVM::AsmDialect::AD_ATT),
          ArrayAttr())
          .getRes();
  Values values;
  for (size_t i = 0; i != results; ++i)
    values.push_back(LLVM::ExtractValueOp::create(b, all, int64_t(i)));
  return values;
}

std::string WarpgroupMma::step(int32_t columns, StringRef sum, StringRef a,
                               StringRef bTile, StringRef predicate,
                               StringRef suffix) {
  StringRef type = isBF16() ? "bf16" : "tf32";
  return ("wgmma.mma_async.sync.aligned.m64n" + Twine(columns) + "k" +
          Twine(getDepth()) + ".f32." + type + "." + type + " {" + sum + "}, " +
          a + ", " + bTile + ", " + predicate + ", 1, 1" +
          (isBF16() ? suffix : StringRef()) + ";\n")
      .str();
}

/// Bytes from the first step of a product to step `i`, along rows.
static int32_t alongBytes(const SlabLayout &layout, int32_t i) {
  return i / 4 * layout.slabBytes() + i % 4 * 32;
}

static constexpr StringLiteral kProlog =
    "{\n.reg .pred never, always;\n.reg .b64 a, b;\n.reg .b32 zero;\n"
    "mov.b32 zero, 0;\nsetp.ne.b32 never, zero, 0;\n"
    "setp.eq.b32 always, zero, 0;\nwgmma.fence.sync.aligned;\n";
static constexpr StringLiteral kEpilog = "wgmma.commit_group.sync.aligned;\n}";

WarpgroupMma::Values WarpgroupMma::startProduct(Value a,
                                                const SlabLayout &aLayout,
                                                Value bTile,
                                                const SlabLayout &bLayout) {
  size_t results = bLayout.rows / 2;
  std::string sum = join(0, results), text = kProlog.str();
  std::string aName = "$" + std::to_string(results),
              bName = "$" + std::to_string(results + 1);
  for (int32_t i = 0; i != bLayout.rowBytes / 32; ++i) {
    if (i != 0)
      text += "add.s64 a, " + aName + ", " +
              std::to_string(alongBytes(aLayout, i) / 16) + ";\nadd.s64 b, " +
              bName + ", " + std::to_string(alongBytes(bLayout, i) / 16) +
              ";\n";
    text += step(bLayout.rows, sum, i ? "a" : StringRef(aName),
                 i ? "b" : StringRef(bName), i ? "always" : "never", ", 0, 0");
  }
  return assemble(text + kEpilog.str(), repeat("=f", results) + "l,l,~{memory}",
                  {a, bTile}, results);
}

WarpgroupMma::Values WarpgroupMma::packA(ArrayRef<Value> accumulators,
                                         bool hasNaNs) {
  Values operand;
  auto at = [&](size_t n, size_t e) { return accumulators[4 * n + e]; };
  for (size_t n = 0; n != accumulators.size() / 4; ++n)
    if (isBF16())
      for (size_t e : {0, 2})
        operand.push_back(b.packBF16(at(n, e), at(n, e + 1)));
    else
      for (size_t e : {0, 2, 1, 3})
        operand.push_back(
            hasNaNs ? b.roundTF32Bits(at(n, e))
                    : b.add(b.bitcast(at(n, e), b.getI32Type()), 0x1000));
  return operand;
}

WarpgroupMma::Values WarpgroupMma::startAcross(ArrayRef<Value> sum,
                                               ArrayRef<Value> a, Value bTile,
                                               const SlabLayout &bLayout) {
  size_t results = sum.size();
  std::string text = kProlog.str();
  std::string bName = "$" + std::to_string(2 * results + a.size());
  for (size_t i = 0; i != a.size() / 4; ++i) {
    int32_t bytes =
        isBF16() ? int32_t(i) * 16 * 128 : alongBytes(bLayout, int32_t(i));
    if (i != 0)
      text += "add.s64 b, " + bName + ", " + std::to_string(bytes / 16) + ";\n";
    size_t first = 2 * results + 4 * i;
    text += step(int32_t(2 * results), join(0, results),
                 "{" + join(first, first + 4) + "}", i ? "b" : StringRef(bName),
                 "always", ", 1");
  }
  Values operands(sum);
  operands.append(a.begin(), a.end());
  operands.push_back(bTile);
  return assemble(text + kEpilog.str(),
                  repeat("=f", results) + tie(results) + repeat("r", a.size()) +
                      "l,~{memory}",
                  operands, results);
}

Value WarpgroupMma::describePieces(Value address, bool across) {
  // As in `describe`: eight rows of 64 bytes are 512, and the swizzle is of 64;
  // or a block is 32 lines of 128 bytes.
  uint64_t fields =
      across ? uint64_t(1) << 62 | uint64_t(64) << 32 | uint64_t(256) << 16
             : uint64_t(2) << 62 | uint64_t(32) << 32 | uint64_t(1) << 16;
  Value number = LLVM::PtrToIntOp::create(b, b.getI32Type(), address);
  Value start = b.div(b.bitAnd(number, 0x3FFFF), 16);
  Value wide = arith::ExtUIOp::create(b, b.getI64Type(), start);
  return arith::OrIOp::create(b, wide, b.i64(int64_t(fields)));
}

WarpgroupMma::Values
WarpgroupMma::startPieces(const Pieces &pieces, ArrayRef<Step> steps,
                          ArrayRef<std::pair<Value, Value>> tiles,
                          ArrayRef<Value> sum) {
  size_t results = size_t(pieces.columns) / 2;
  size_t first = results + sum.size();
  std::string text = kProlog.str();
  for (auto [i, step] : llvm::enumerate(steps)) {
    size_t tile = first + 2 * size_t(step.tile);
    std::string aName = "$" + std::to_string(tile),
                bName = "$" + std::to_string(tile + 1);
    text += "add.s64 a, " + aName + ", " + std::to_string(step.a / 16) +
            ";\nadd.s64 b, " + bName + ", " + std::to_string(step.b / 16) +
            ";\n";
    text += ("wgmma.mma_async.sync.aligned.m64n" + Twine(pieces.columns) +
             "k16.f32." + pieces.type + "." + pieces.type + " {" +
             join(0, results) + "}, a, b, " +
             (i == 0 && sum.empty() ? "never" : "always") + ", 1, 1, " +
             (pieces.acrossA ? "1, " : "0, ") + (pieces.acrossB ? "1" : "0") +
             ";\n")
                .str();
  }
  Values operands(sum);
  for (auto [a, bTile] : tiles)
    operands.append({a, bTile});
  return assemble(text + kEpilog.str(),
                  repeat("=f", results) + tie(sum.size()) +
                      repeat("l", 2 * tiles.size()) + "~{memory}",
                  operands, results);
}

WarpgroupMma::Values WarpgroupMma::wait(int32_t pending,
                                        ArrayRef<Value> values) {
  size_t count = values.size();
  return assemble(
      "wgmma.wait_group.sync.aligned " + std::to_string(pending) + ";",
      repeat("=f", count) + tie(count) + "~{memory}", values, count);
}

//===----------------------------------------------------------------------===//
// Barriers and copies
//===----------------------------------------------------------------------===//

void blurt::initBarrier(DeviceBuilder &b, Value barrier, int32_t arrivals) {
  NVVM::MBarrierInitOp::create(b, barrier, b.i32(arrivals), Value());
}

void blurt::publishBarriers(DeviceBuilder &b) {
  NVVM::FenceMbarrierInitOp::create(b);
}

void blurt::arrive(DeviceBuilder &b, Value barrier) {
  NVVM::MBarrierArriveOp::create(b, Type(), barrier, Value());
}

void blurt::announce(DeviceBuilder &b, Value barrier, int32_t bytes) {
  NVVM::MBarrierArriveExpectTxOp::create(b, Type(), barrier, b.i32(bytes),
                                         NVVM::MemScopeKind::CTA,
                                         /*relaxed=*/false, Value());
}

void blurt::waitBarrier(DeviceBuilder &b, Value barrier, Value parity) {
  constexpr int64_t kNanoseconds = 10000000;
  NVVM::MBarrierTryWaitParityOp::create(b, barrier, parity,
                                        b.i32(kNanoseconds));
}

void blurt::startBox(DeviceBuilder &b, Value shared, Value map,
                     ArrayRef<Value> coordinates, Value barrier) {
  auto cluster = LLVM::LLVMPointerType::get(b.getContext(), 7);
  NVVM::CpAsyncBulkTensorGlobalToSharedClusterOp::create(
      b, LLVM::AddrSpaceCastOp::create(b, cluster, shared), map, coordinates,
      barrier, ValueRange(), Value(), Value(), NVVM::TMALoadMode::TILE,
      /*isCTAOnly=*/false, NVVM::CTAGroupKindAttr(), Value());
}

void blurt::publishStores(DeviceBuilder &b) {
  NVVM::FenceProxyOp::create(
      b, NVVM::ProxyKind::async_shared,
      NVVM::SharedSpaceAttr::get(b.getContext(),
                                 NVVM::SharedSpace::shared_cta));
}

void blurt::lowerRegisters(DeviceBuilder &b, int32_t registers) {
  NVVM::SetMaxRegisterOp::create(b, uint32_t(registers),
                                 NVVM::SetMaxRegisterAction::decrease);
}

void blurt::raiseRegisters(DeviceBuilder &b, int32_t registers) {
  NVVM::SetMaxRegisterOp::create(b, uint32_t(registers),
                                 NVVM::SetMaxRegisterAction::increase);
}

Value blurt::refresh(DeviceBuilder &b, Value value) {
  return LLVM::InlineAsmOp::create(
             b, value.getType(), ValueRange(value), "mov.b32 $0, $1;", "=r,r",
             /*has_side_effects=*/true, /*is_align_stack=*/false,
             LLVM::tailcallkind::TailCallKind::None,
             LLVM::AsmDialectAttr::get(b.getContext(),
                                       LLVM::AsmDialect::AD_ATT),
             ArrayAttr())
      .getRes();
}

Value blurt::anyLane(DeviceBuilder &b, Value condition) {
  return NVVM::VoteSyncOp::create(b, b.getI1Type(), b.i32(-1), condition,
                                  NVVM::VoteSyncKind::any);
}

Value blurt::uniform(DeviceBuilder &b, Value value) {
  return NVVM::ShflOp::create(b, value.getType(), b.i32(-1), value, b.i32(0),
                              b.i32(31), NVVM::ShflKind::idx, UnitAttr());
}
