//===- FuseTest.cpp - conversion and fusion keep what a step computes -----===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Converted steps agree with the reference interpreter of blu up to rounding;
// fused ones agree with unfused ones in every bit.
//
//===----------------------------------------------------------------------===//

#include "BlurtEvaluator.h"
#include "FuseCases.h"

#include "Blu/Blu.h"
#include "Blurt/BlurtDialect.h"
#include "blutrain/Conversion/Passes.h"
#include "blutrain/Interpreter/Interpreter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <random>

using namespace blutrain;
using namespace blutrain::test;
using namespace mlir;

namespace {

std::string getSource(const FuseCase &test) {
  std::string arguments, attributes, names, types;
  for (size_t i = 0; i < test.arguments.size(); ++i)
    arguments += (i ? ", %a" : "%a") + std::to_string(i) + ": tensor<" +
                 test.arguments[i] + "> {blu.tensor = {name = \"a" +
                 std::to_string(i) + "\", role = \"input\"}}";
  for (size_t i = 0; i < test.results.size(); ++i) {
    std::string separator = i ? ", " : "";
    attributes += separator + "tensor<" + test.results[i] +
                  "> {blu.tensor = {name = \"r" + std::to_string(i) +
                  "\", role = \"output\"}}";
    names += separator + "%r" + std::to_string(i);
    types += separator + "tensor<" + test.results[i] + ">";
  }
  return "blu.step @f program(train) (" + arguments + ") -> (" + attributes +
         ") {\n" + test.body + "\nblu.return " + names + " : " + types + "\n}";
}

class FuseTest : public testing::TestWithParam<FuseCase> {
protected:
  FuseTest() {
    DialectRegistry registry;
    registry.insert<blu::BluDialect, blurt::BlurtDialect, func::FuncDialect,
                    arith::ArithDialect, math::MathDialect>();
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// Floats in [-2, 2]; integers from 0 to 3, which are positions of anything.
  std::vector<Tensor> makeArguments(TypeRange types) {
    std::mt19937 random(7);
    std::vector<Tensor> arguments;
    for (Type type : types) {
      auto tensor = cast<RankedTensorType>(type);
      Tensor value(tensor.getShape(), tensor.getElementType());
      for (double &element : value.floats)
        element = roundTo(value.elementType,
                          std::uniform_real_distribution<>(-2, 2)(random));
      for (int64_t &element : value.ints)
        element = random() % 4;
      arguments.push_back(value);
    }
    return arguments;
  }

  std::vector<Tensor> runConverted(ModuleOp module,
                                   function_ref<void(PassManager &)> build,
                                   const std::vector<Tensor> &arguments) {
    OwningOpRef<ModuleOp> clone(module.clone());
    PassManager passes(&context);
    build(passes);
    if (failed(passes.run(*clone))) {
      ADD_FAILURE() << "passes failed";
      return {};
    }
    numGroups = 0;
    clone->walk([&](blurt::GroupOp) { ++numGroups; });
    return evaluateBlurt(*clone->getOps<func::FuncOp>().begin(), arguments);
  }

  MLIRContext context;
  int numGroups = 0;
};

TEST_P(FuseTest, KeepsValues) {
  const FuseCase &test = GetParam();
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(getSource(test), &context);
  ASSERT_TRUE(module);
  auto step = *module->getOps<blu::StepOp>().begin();
  std::vector<Tensor> arguments = makeArguments(step.getArgumentTypes());
  InterpreterOptions options;
  options.round = true;
  auto expected = interpret(step, arguments, {}, options);
  ASSERT_TRUE(succeeded(expected));

  std::vector<Tensor> converted = runConverted(
      *module,
      [](PassManager &passes) { passes.addPass(createConvertBluToBlurt()); },
      arguments);
  ASSERT_EQ(converted.size(), expected->size());
  for (auto [i, tensor] : llvm::enumerate(converted)) {
    const Tensor &reference = (*expected)[i];
    ASSERT_EQ(tensor.shape, reference.shape);
    EXPECT_EQ(tensor.ints, reference.ints) << "result " << i;
    double largest = 0;
    for (double value : reference.floats)
      if (std::isfinite(value))
        largest = std::max(largest, std::fabs(value));
    for (int64_t e = 0; e < int64_t(reference.floats.size()); ++e)
      EXPECT_NEAR(tensor.floats[e], reference.floats[e],
                  test.tolerance * std::max(largest, 1e-30))
          << "result " << i << ", element " << e;
  }

  std::vector<Tensor> fused = runConverted(
      *module, [](PassManager &passes) { buildFuseStage(passes); }, arguments);
  ASSERT_EQ(fused.size(), converted.size());
  for (auto [i, tensor] : llvm::enumerate(fused)) {
    EXPECT_EQ(tensor.ints, converted[i].ints) << "result " << i;
    ASSERT_EQ(tensor.floats.size(), converted[i].floats.size());
    EXPECT_EQ(std::memcmp(tensor.floats.data(), converted[i].floats.data(),
                          tensor.floats.size() * sizeof(double)),
              0)
        << "result " << i << " differs in some bit";
  }
  if (test.groups >= 0) {
    EXPECT_EQ(numGroups, test.groups);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, FuseTest, testing::ValuesIn(getFuseCases()),
                         [](const testing::TestParamInfo<FuseCase> &info) {
                           std::string name = std::to_string(info.index) + "_";
                           for (char c : info.param.name)
                             name += std::isalnum(c) ? c : '_';
                           return name;
                         });

} // namespace
