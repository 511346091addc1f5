//===- GradientTest.cpp - gradients against central differences -----------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// For each case the interpreter evaluates L(x) = Σ gout·y(x) at points around
// x, and blu-vjp's program at x. The derivative by each element of each float
// input and parameter must be that of the differences. docs/Numerics.md derives
// the step and the tolerance.
//
//===----------------------------------------------------------------------===//

#include "GradientCases.h"

#include "blutrain/Autodiff/Passes.h"
#include "blutrain/Interpreter/Binding.h"
#include "blutrain/Interpreter/Interpreter.h"
#include "blutrain/Pipelines/Registration.h"

#include "Blu/Blu.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"
#include "gtest/gtest.h"

#include <cmath>

using namespace mlir;
using namespace blutrain;
using namespace blutrain::test;

//===----------------------------------------------------------------------===//
// Fills and texts
//===----------------------------------------------------------------------===//

/// In [0, 1), by a counter.
static double unit(uint64_t stream, int64_t i) {
  uint64_t z = (stream * 1000003 + uint64_t(i) + 1) * 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return double((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

Fill test::uniform(double low, double high, uint64_t stream) {
  return [=](int64_t i) { return low + (high - low) * unit(stream, i); };
}

Fill test::signedUniform(double low, double high, uint64_t stream) {
  return [=](int64_t i) {
    double magnitude = low + (high - low) * unit(stream, i);
    return unit(stream + 77, i) < 0.5 ? -magnitude : magnitude;
  };
}

Fill test::values(std::vector<double> list) {
  return [=](int64_t i) { return list[size_t(i) % list.size()]; };
}

/// Writes out the short types.
static std::string expandTypes(StringRef text) {
  std::string result;
  auto elementOf = [](char letter) -> StringRef {
    switch (letter) {
    case 't':
      return "f64";
    case 'f':
      return "f32";
    case 'i':
      return "i32";
    case 'l':
      return "i64";
    case 'b':
      return "i1";
    }
    return "";
  };
  for (size_t i = 0; i < text.size(); ++i) {
    StringRef element = elementOf(text[i]);
    bool isStart = i == 0 || !(isalnum(text[i - 1]) || text[i - 1] == '_');
    if (element.empty() || !isStart || !text.substr(i + 1).starts_with("<")) {
      result += text[i];
      continue;
    }
    size_t end = text.find('>', i);
    StringRef shape = text.slice(i + 2, end);
    result +=
        ("tensor<" + shape + (shape.empty() ? "" : "x") + element + ">").str();
    i = end;
  }
  return result;
}

std::string test::moduleText(const Case &c) {
  std::string args, types, results, values;
  for (const Arg &arg : c.args)
    args += (args.empty() ? "%" : ", %") + arg.name + ": " + arg.type +
            " {blu.name = \"" + arg.name + "\"}";
  for (const auto &[name, type] : c.results) {
    std::string comma = values.empty() ? "" : ", ";
    values += comma + "%" + name;
    types += comma + type;
    results += comma + type + " {blu.name = \"" + name + "\"}";
  }
  return expandTypes("blu.model @m(" + args + ") -> (" + results + ") {\n" +
                     c.body + "\nblu.return " + values + " : " + types +
                     "\n}\n");
}

/// What GoogleTest prints for a parameter.
namespace blutrain::test {
static void PrintTo(const Case &c, std::ostream *out) { *out << c.name; }
} // namespace blutrain::test

//===----------------------------------------------------------------------===//
// Differences
//===----------------------------------------------------------------------===//

/// The first model or step of a module.
template <typename Op> static FunctionOpInterface functionOf(ModuleOp module) {
  Op op = *module.getOps<Op>().begin();
  return cast<FunctionOpInterface>(op.getOperation());
}

namespace {

class GradientTest : public ::testing::TestWithParam<Case> {
protected:
  GradientTest() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }

  OwningOpRef<ModuleOp> parse(const Case &c) {
    return parseSourceString<ModuleOp>(moduleText(c), &context);
  }

  MLIRContext context;
};

/// A model, and the point at which it is differentiated.
struct Problem {
  FunctionOpInterface model;
  Inputs point;
  std::vector<std::string> argumentNames;
  std::vector<Tensor> gouts; ///< one a result, empty for integers

  struct Input {
    std::string name;
    Tensor *tensor;
    double scale; ///< see Case::scale
  };
  /// Every float tensor of the point.
  std::vector<Input> inputs(const Case &c) {
    std::vector<Input> result;
    for (auto [arg, tensor] : llvm::zip(c.args, point.arguments))
      if (tensor.isFloat())
        result.push_back(
            {arg.name, &tensor, arg.scale < 0 ? c.scale : arg.scale});
    for (auto &[name, tensor] : point.parameters)
      result.push_back({name, &tensor, c.scale});
    return result;
  }

  /// L at the point; `magnitude` gets Σ |gout·y|.
  FailureOr<double> evaluate(double *magnitude = nullptr) {
    auto results = interpret(model, point.arguments, point.parameters);
    if (failed(results))
      return failure();
    double sum = 0, terms = 0;
    for (auto [result, gout] : llvm::zip(*results, gouts))
      for (size_t i = 0; i < gout.floats.size(); ++i) {
        sum += gout.floats[i] * result.floats[i];
        terms += std::fabs(gout.floats[i] * result.floats[i]);
      }
    if (magnitude)
      *magnitude = terms;
    return sum;
  }

  /// (L(x + h) - L(x - h)) / 2h for one element.
  FailureOr<double> difference(double &element, double h) {
    double x = element;
    double high = x + h, low = x - h;
    element = high;
    auto above = evaluate();
    element = low;
    auto below = evaluate();
    element = x;
    if (failed(above) || failed(below))
      return failure();
    return (*above - *below) / (high - low);
  }
};

} // namespace

static Tensor filled(RankedTensorType type, const Fill &fill) {
  Tensor tensor(type.getShape(), type.getElementType());
  for (int64_t i = 0; i < tensor.size(); ++i) {
    if (tensor.isFloat())
      tensor.floats[i] = fill(i);
    else
      tensor.ints[i] = int64_t(fill(i));
  }
  return tensor;
}

static Problem makeProblem(const Case &c, blu::ModelOp model) {
  Problem problem;
  problem.model = cast<FunctionOpInterface>(model.getOperation());
  for (auto [i, arg] : llvm::enumerate(c.args)) {
    auto type = cast<RankedTensorType>(model.getArgumentTypes()[i]);
    problem.point.arguments.push_back(
        filled(type, arg.fill ? arg.fill : uniform(-1, 1, i)));
    problem.argumentNames.push_back(arg.name);
  }
  uint64_t stream = 100;
  for (const auto &[name, type] : parametersOf(problem.model)) {
    Fill fill = uniform(-1, 1, ++stream);
    for (const auto &[known, given] : c.params)
      if (known == name)
        fill = given;
    problem.point.parameters[name] = filled(type, fill);
  }
  for (auto [i, type] : llvm::enumerate(model.getResultTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    if (isa<FloatType>(tensor.getElementType()))
      problem.gouts.push_back(filled(tensor, signedUniform(0.5, 1.5, 200 + i)));
    else
      problem.gouts.emplace_back();
  }
  return problem;
}

/// What blu-vjp's program computes at the problem's point, by name.
static FailureOr<std::map<std::string, Tensor>>
runVjp(const Case &c, ModuleOp module, Problem &problem,
       StringRef recompute = "cheap") {
  StoredTensors stored;
  for (auto [name, tensor] :
       llvm::zip(problem.argumentNames, problem.point.arguments))
    stored[name] = store(tensor, /*isRounded=*/false);
  for (auto &[name, tensor] : problem.point.parameters)
    stored["param:" + name] = store(tensor, /*isRounded=*/false);
  for (auto [result, gout] : llvm::zip(c.results, problem.gouts))
    if (gout.elementType)
      stored["gout." + result.first] = store(gout, /*isRounded=*/false);
  PassManager passes(module.getContext());
  VjpPassOptions options;
  options.recompute = recompute.str();
  passes.addPass(createVjpPass(options));
  if (failed(passes.run(module)))
    return failure();
  auto step = functionOf<blu::StepOp>(module);
  auto inputs = bindInputs(step, stored);
  if (failed(inputs))
    return failure();
  auto results = interpret(step, inputs->arguments);
  if (failed(results))
    return failure();
  std::map<std::string, Tensor> named;
  for (auto &[name, tensor] : nameResults(step, *results))
    named[name] = tensor;
  return named;
}

// The step is 2^-10 of the scale; R(h) = (4 D(h) - D(2h))/3 is accurate to h^4.
constexpr double kStep = 0x1p-10;
// Half the distance from 1 to the next double, and how many such roundings one
// evaluation of L may add up to, in terms of Σ |gout·y|.
constexpr double kUnit = 0x1p-53;
constexpr double kRoundings = 16;
// Most that the difference of R(h) and R(2h) may be of Σ |gout·y|/scale for the
// case to judge anything.
constexpr double kRoughness = 1e-7;

TEST_P(GradientTest, MatchesCentralDifferences) {
  const Case &c = GetParam();
  auto module = parse(c);
  ASSERT_TRUE(module) << moduleText(c);
  Problem problem = makeProblem(c, *module->getOps<blu::ModelOp>().begin());
  double magnitude;
  ASSERT_TRUE(succeeded(problem.evaluate(&magnitude)));
  ASSERT_TRUE(std::isfinite(magnitude));
  auto differentiated = OwningOpRef<ModuleOp>(module->clone());
  auto vjp = runVjp(c, *differentiated, problem);
  ASSERT_TRUE(succeeded(vjp)) << moduleText(c);

  // Differentiation does not change the results.
  auto results = interpret(problem.model, problem.point.arguments,
                           problem.point.parameters);
  for (auto [result, tensor] : llvm::zip(c.results, *results)) {
    auto found = vjp->find(result.first);
    ASSERT_NE(found, vjp->end()) << "no result " << result.first;
    EXPECT_EQ(found->second.floats, tensor.floats) << result.first;
    EXPECT_EQ(found->second.ints, tensor.ints) << result.first;
  }

  // What the backward pass computes again changes no bit.
  auto other = OwningOpRef<ModuleOp>(module->clone());
  auto views = runVjp(c, *other, problem, "views");
  ASSERT_TRUE(succeeded(views));
  for (auto &[name, tensor] : *views)
    EXPECT_EQ(tensor.floats, vjp->at(name).floats) << name;

  double worst = 0; // error over tolerance
  int64_t compared = 0;
  for (auto [name, tensor, fixed] : problem.inputs(c)) {
    auto found = vjp->find("gin." + name);
    ASSERT_NE(found, vjp->end()) << "no result gin." << name;
    const Tensor &gin = found->second;
    ASSERT_EQ(gin.shape, tensor->shape);
    for (int64_t i = 0; i < tensor->size(); ++i) {
      double &x = tensor->floats[i];
      // A power of 2, so that x + h and x - h are nearly exact.
      double scale = fixed == 0 ? std::fabs(x) : fixed;
      double h = std::exp2(std::floor(std::log2(kStep * scale)));
      auto d1 = problem.difference(x, h), d2 = problem.difference(x, 2 * h),
           d4 = problem.difference(x, 4 * h);
      ASSERT_TRUE(succeeded(d1) && succeeded(d2) && succeeded(d4));
      double fine = (4 * *d1 - *d2) / 3, coarse = (4 * *d2 - *d4) / 3;
      double truncation = std::fabs(fine - coarse);
      double rounding =
          1.5 * kRoundings * kUnit * c.amplification * magnitude / h;
      EXPECT_LE(truncation, kRoughness * magnitude / scale + rounding)
          << c.name << ": differences by " << name << "[" << i
          << "] do not settle: " << *d1 << ", " << *d2 << ", " << *d4;
      double error = std::fabs(gin.floats[i] - fine);
      EXPECT_LE(error, truncation + rounding)
          << c.name << ": gin." << name << "[" << i << "] is " << gin.floats[i]
          << ", differences give " << fine;
      if (rounding > 0)
        worst = std::max(worst, error / (truncation + rounding));
      ++compared;
    }
  }
  EXPECT_GT(compared, 0);
  RecordProperty("compared", std::to_string(compared));
  RecordProperty("worst_error_over_tolerance", std::to_string(worst));
}

static std::string caseName(const ::testing::TestParamInfo<Case> &info) {
  std::string name;
  for (char letter : info.param.name)
    name += isalnum(letter) ? letter : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Ops, GradientTest,
                         ::testing::ValuesIn(gradientCases()), caseName);

namespace {
class GradientCoverage : public GradientTest {};
} // namespace

TEST_F(GradientCoverage, EveryDifferentiableOpHasACase) {
  llvm::StringSet<> covered;
  for (const Case &c : gradientCases()) {
    auto module = parse(c);
    ASSERT_TRUE(module) << moduleText(c);
    module->walk(
        [&](Operation *op) { covered.insert(op->getName().getStringRef()); });
  }
  unsigned differentiable = 0;
  for (RegisteredOperationName op :
       context.getRegisteredOperationsByDialect("blu")) {
    if (!op.hasInterface<blu::DifferentiableOpInterface>())
      continue;
    ++differentiable;
    EXPECT_TRUE(covered.contains(op.getStringRef()))
        << op.getStringRef().str() << " has no case in gradientCases()";
  }
  EXPECT_GT(differentiable, 20u);
}

/// Where central differences do not say what the definition does: gradients at
/// kinks are those of the op's page.
TEST_F(GradientCoverage, Kinks) {
  struct Kink {
    Case gradientCase;
    std::vector<double> expected; ///< gin.x over gout.y, which is repeated
  };
  auto oneOp = [](const char *op, std::vector<double> x, const char *result) {
    std::string shape = "t<" + std::to_string(x.size()) + ">";
    return Case{op,
                {{"x", shape, values(x)}},
                std::string("%y = ") + op + result,
                {{"y", std::string(result).ends_with("t<>") ? "t<>" : shape}}};
  };
  std::vector<Kink> kinks = {
      {oneOp("blu.relu %x", {0.0, -0.0, 1, -1}, " : t<4>"), {0, 0, 1, 0}},
      {oneOp("blu.abs %x", {0.0, -0.0, 2, -2}, " : t<4>"), {0, 0, 1, -1}},
      {oneOp("blu.reduce_max %x", {3, 1, 3, 3}, " [0] : (t<4>) -> t<>"),
       {1.0 / 3, 0, 1.0 / 3, 1.0 / 3}},
  };
  for (const Kink &kink : kinks) {
    const Case &c = kink.gradientCase;
    auto module = parse(c);
    ASSERT_TRUE(module) << moduleText(c);
    Problem problem = makeProblem(c, *module->getOps<blu::ModelOp>().begin());
    auto vjp = runVjp(c, *module, problem);
    ASSERT_TRUE(succeeded(vjp));
    const std::vector<double> &gin = vjp->at("gin.x").floats;
    const std::vector<double> &gout = problem.gouts.front().floats;
    for (size_t i = 0; i < kink.expected.size(); ++i)
      EXPECT_DOUBLE_EQ(gin[i], kink.expected[i] * gout[i % gout.size()])
          << c.name << " at " << i;
  }
}
