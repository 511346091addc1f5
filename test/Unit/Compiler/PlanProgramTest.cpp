//===- PlanProgramTest.cpp - plans compute what their programs say --------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "PlanInterpreter.h"
#include "PlanRandomProgram.h"

#include "Blurt/BlurtDialect.h"
#include "blutrain/Transforms/Plan.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

using namespace blutrain;
using namespace blutrain::test;
using namespace mlir;

namespace {

class PlanProgramTest : public testing::Test {
protected:
  PlanProgramTest() {
    context.loadDialect<arith::ArithDialect, blurt::BlurtDialect,
                        func::FuncDialect, LLVM::LLVMDialect,
                        memref::MemRefDialect, scf::SCFDialect>();
  }

  MLIRContext context{MLIRContext::Threading::DISABLED};
};

std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  return text;
}

Tensor makeValues(RankedTensorType type, std::mt19937_64 &random) {
  Tensor tensor(type.getNumElements());
  for (double &value : tensor)
    if (type.getElementType().isInteger(64))
      value = static_cast<double>(random() % (type.getRank() == 0 ? 2 : 4));
    else
      value =
          static_cast<double>(static_cast<int64_t>(random() % 64) - 32) / 32;
  return tensor;
}

struct Interface {
  SmallVector<RankedTensorType> arguments, results;
  SmallVector<std::optional<unsigned>> donated;
  SmallVector<DictionaryAttr> tensors;
};

Interface describe(func::FuncOp func) {
  Interface interface;
  for (BlockArgument argument : func.getArguments()) {
    interface.arguments.push_back(cast<RankedTensorType>(argument.getType()));
    interface.tensors.push_back(func.getArgAttrOfType<DictionaryAttr>(
        argument.getArgNumber(), "blu.tensor"));
  }
  for (unsigned i = 0, e = func.getNumResults(); i < e; ++i) {
    interface.results.push_back(
        cast<RankedTensorType>(func.getResultTypes()[i]));
    auto attr = func.getResultAttrOfType<IntegerAttr>(i, "blu.donates");
    interface.donated.push_back(attr ? std::optional<unsigned>(attr.getInt())
                                     : std::nullopt);
  }
  return interface;
}

/// Offsets of the arguments, in order, and of the results that are not donated.
std::pair<SmallVector<int64_t>, SmallVector<int64_t>>
getOffsets(ModuleOp module, const Interface &interface) {
  auto program = module->getAttrOfType<DictionaryAttr>("blurt.program");
  auto entry = cast<DictionaryAttr>(program.getAs<ArrayAttr>("entries")[0]);
  auto tensors = entry.getAs<ArrayAttr>("tensors");
  auto offsetOf = [](Attribute tensor) {
    return cast<DictionaryAttr>(tensor).getAs<IntegerAttr>("offset").getInt();
  };
  SmallVector<int64_t> arguments, results;
  size_t next = 0;
  for (DictionaryAttr tensor : interface.tensors) {
    StringRef role = tensor.getAs<StringAttr>("role").getValue();
    if (role != "param" && role != "moment1") {
      arguments.push_back(offsetOf(tensors[next++]));
      continue;
    }
    for (Attribute state : program.getAs<ArrayAttr>("state"))
      if (cast<DictionaryAttr>(state).get("name") == tensor.get("name"))
        arguments.push_back(offsetOf(state));
  }
  for (size_t i = 0; i < interface.results.size(); ++i)
    results.push_back(interface.donated[i] ? arguments[*interface.donated[i]]
                                           : offsetOf(tensors[next++]));
  return {arguments, results};
}

} // namespace

TEST_F(PlanProgramTest, RandomProgramsComputeTheSame) {
  int64_t copies = 0, storages = 0, loops = 0, finite = 0, elements = 0;
  int64_t peaks = 0, bounds = 0, padded = 0;
  // BLUTRAIN_PLAN_PROGRAMS=20000 for a longer search.
  unsigned numPrograms = 1500;
  if (const char *text = std::getenv("BLUTRAIN_PLAN_PROGRAMS"))
    numPrograms = static_cast<unsigned>(std::atoi(text));
  for (unsigned seed = 0; seed < numPrograms; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    OwningOpRef<ModuleOp> module = makeRandomProgram(&context, seed);
    ASSERT_TRUE(succeeded(verify(*module))) << print(*module);
    std::string source = print(*module);
    auto func = *module->getOps<func::FuncOp>().begin();
    func.walk([&](blurt::LoopOp) { ++loops; });
    Interface interface = describe(func);
    std::mt19937_64 random(seed);
    std::vector<Tensor> arguments;
    for (RankedTensorType type : interface.arguments)
      arguments.push_back(makeValues(type, random));
    std::vector<Tensor> expected = interpretTensors(func, arguments);

    // Every other program with rows that do not touch.
    PlanOptions options;
    if (seed % 2)
      options.rowPadding = {16, 0};
    FailureOr<PlanReport> report = planModule(*module, options);
    ASSERT_TRUE(succeeded(report)) << source;
    ASSERT_TRUE(succeeded(verify(*module))) << source << print(*module);
    ASSERT_TRUE(succeeded(verifyPlan(*module))) << source << print(*module);
    copies += report->copies;
    peaks += report->peakBytes;
    bounds += report->lowerBound;
    storages += static_cast<int64_t>(report->owners.size());
    module->walk([&](blurt::GemmOp gemm) {
      auto type = cast<MemRefType>(gemm.getOuts()[0].getType());
      padded += type.getRank() == 2 && !type.getLayout().isIdentity();
    });

    // What nobody wrote is not 0.
    std::vector<char> arena(report->peakBytes, char(0xcb));
    auto [inputs, outputs] = getOffsets(*module, interface);
    for (size_t i = 0; i < arguments.size(); ++i)
      storeTensor(arguments[i], interface.arguments[i],
                  arena.data() + inputs[i]);
    func = *module->getOps<func::FuncOp>().begin();
    interpretPlan(func, arena);

    for (size_t i = 0; i < expected.size(); ++i) {
      Tensor actual =
          loadTensor(interface.results[i], arena.data() + outputs[i]);
      for (size_t j = 0; j < actual.size(); ++j) {
        bool same = actual[j] == expected[i][j] ||
                    (std::isnan(actual[j]) && std::isnan(expected[i][j]));
        ASSERT_TRUE(same) << "result " << i << " element " << j << " is "
                          << actual[j] << ", expected " << expected[i][j]
                          << '\n'
                          << source << print(*module);
        finite += std::isfinite(actual[j]);
        ++elements;
      }
    }
    // State that is only read stays as it was.
    for (size_t i = 0; i < arguments.size(); ++i) {
      StringRef role =
          interface.tensors[i].getAs<StringAttr>("role").getValue();
      if ((role != "param" && role != "moment1") ||
          llvm::is_contained(interface.donated,
                             std::optional<unsigned>(unsigned(i))))
        continue;
      EXPECT_EQ(loadTensor(interface.arguments[i], arena.data() + inputs[i]),
                arguments[i]);
    }
  }
  // The programs are not trivial, and not all of them degenerate to NaN.
  EXPECT_GT(loops, static_cast<int64_t>(numPrograms) / 2);
  EXPECT_GT(finite, elements * 9 / 10);
  EXPECT_GT(padded, static_cast<int64_t>(numPrograms) / 10);
  EXPECT_LT(static_cast<double>(peaks), 1.02 * static_cast<double>(bounds));
  RecordProperty("excess", std::to_string(static_cast<double>(peaks - bounds) /
                                          static_cast<double>(bounds)));
  RecordProperty("copies", std::to_string(copies));
  RecordProperty("storages", std::to_string(storages));
}

TEST_F(PlanProgramTest, InterpreterSeesOverlaps) {
  // Moving slots of good plans must be noticed by the comparison above, or the
  // comparison says nothing.
  unsigned noticed = 0, tried = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    OwningOpRef<ModuleOp> module = makeRandomProgram(&context, seed);
    auto func = *module->getOps<func::FuncOp>().begin();
    Interface interface = describe(func);
    std::mt19937_64 random(seed);
    std::vector<Tensor> arguments;
    for (RankedTensorType type : interface.arguments)
      arguments.push_back(makeValues(type, random));
    std::vector<Tensor> expected = interpretTensors(func, arguments);
    FailureOr<PlanReport> report = planModule(*module, {});
    ASSERT_TRUE(succeeded(report));
    func = *module->getOps<func::FuncOp>().begin();
    // All storages of the scratch area at one place, but for inputs (ids must
    // stay in bounds) and outputs (which are read below).
    auto [inputs, outputs] = getOffsets(*module, interface);
    func.walk([&](blurt::SlotOp slot) {
      auto offset = static_cast<int64_t>(slot.getOffset());
      if (offset >= report->stateBytes && !llvm::is_contained(inputs, offset) &&
          !llvm::is_contained(outputs, offset))
        slot.setOffset(report->peakBytes);
    });
    std::vector<char> arena(report->peakBytes * 2, char(0xcb));
    for (size_t i = 0; i < arguments.size(); ++i)
      storeTensor(arguments[i], interface.arguments[i],
                  arena.data() + inputs[i]);
    interpretPlan(func, arena);
    bool same = true;
    for (size_t i = 0; i < expected.size(); ++i)
      same &= loadTensor(interface.results[i], arena.data() + outputs[i]) ==
              expected[i];
    ++tried;
    noticed += !same;
  }
  EXPECT_GT(noticed, tried / 2);
}

TEST_F(PlanProgramTest, VerifierSeesOverlaps) {
  unsigned noticed = 0, tried = 0;
  ScopedDiagnosticHandler quiet(&context,
                                [](Diagnostic &) { return success(); });
  for (unsigned seed = 0; seed < 100; ++seed) {
    OwningOpRef<ModuleOp> module = makeRandomProgram(&context, seed);
    FailureOr<PlanReport> report = planModule(*module, {});
    ASSERT_TRUE(succeeded(report));
    auto func = *module->getOps<func::FuncOp>().begin();
    // Move one scratch buffer onto another.
    std::map<int64_t, int64_t> begins;
    func.walk([&](blurt::SlotOp slot) {
      auto id = slot->getAttrOfType<IntegerAttr>("buffer").getInt();
      auto offset = static_cast<int64_t>(slot.getOffset());
      if (offset >= report->stateBytes)
        begins[id] =
            begins.contains(id) ? std::min(begins[id], offset) : offset;
    });
    if (begins.size() < 4)
      continue;
    auto moved = std::next(begins.begin(), begins.size() / 2);
    int64_t shift = 0;
    for (auto [id, begin] : begins)
      if (begin > moved->second)
        shift = begin - moved->second;
    if (shift == 0)
      continue;
    func.walk([&](blurt::SlotOp slot) {
      if (slot->getAttrOfType<IntegerAttr>("buffer").getInt() == moved->first)
        slot.setOffset(slot.getOffset() + shift);
    });
    ++tried;
    noticed += failed(verifyPlan(*module));
  }
  // Buffers that are never live at one time may lie anywhere.
  EXPECT_GT(noticed, tried / 2);
  EXPECT_GT(tried, 50u);
}

TEST_F(PlanProgramTest, PlansAreDeterministic) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::string first;
    for (int run = 0; run < 2; ++run) {
      OwningOpRef<ModuleOp> module = makeRandomProgram(&context, seed);
      ASSERT_TRUE(succeeded(planModule(*module, {})));
      if (run == 0)
        first = print(*module);
      else
        EXPECT_EQ(first, print(*module));
    }
  }
}
