//===- PlanMutationTest.cpp - every mistake in a plan is found ------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "PlanMutation.h"

#include "blutrain/Driver/VerifyPlan.h"
#include "blutrain/Models/Models.h"
#include "blutrain/Pipelines/Registration.h"
#include "blutrain/Pipelines/Stages.h"
#include "blutrain/Sharding/Passes.h"

#include "Blu/Sharding.h"

#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace blutrain;
using namespace blutrain::test;

namespace {

struct PlanCase {
  const char *name;
  bool isGpt2;
  int64_t devices, zero, batch, microbatches;
  double dropout = -1;
  const char *optimizer = "adamw";
};

constexpr PlanCase cases[] = {
    {"gpt2 dp=2 zero=0", true, 2, 0, 4, 1},
    {"gpt2 dp=3 zero=1", true, 3, 1, 3, 1},
    {"gpt2 dp=4 zero=0", true, 4, 0, 4, 1},
    {"gpt2 dp=2 zero=2 accum=2", true, 2, 2, 4, 2},
    {"gpt2 dp=3 zero=1 accum=2", true, 3, 1, 3, 2},
    {"gpt2 dp=2 zero=1 dropout", true, 2, 1, 4, 1, 0.2},
    {"gpt2 dp=3 zero=3", true, 3, 3, 3, 1},
    {"gpt2 dp=2 zero=3 accum=2", true, 2, 3, 4, 2},
    {"mlp dp=2 zero=0", false, 2, 0, 4, 1},
    {"mlp dp=3 zero=1", false, 3, 1, 6, 1},
    {"mlp dp=4 zero=2 accum=2", false, 4, 2, 4, 2},
    {"mlp dp=2 zero=3", false, 2, 3, 4, 1},
    {"mlp dp=4 zero=0 sgd", false, 4, 0, 8, 1, -1, "sgd"},
};

/// A program before and after the shard stage.
struct Program {
  OwningOpRef<ModuleOp> whole, sharded;
};

class PlanProgramTest : public testing::Test {
protected:
  PlanProgramTest() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    for (const PlanCase &its : cases)
      programs.push_back(build(its));
  }

  Program build(const PlanCase &its) {
    Program program;
    auto made = its.isGpt2 ? buildGpt2(context, {2, 2, 8, 13, 4, 0.0})
                           : buildMlp(context, {6, {5, 5}, 3});
    if (!made) {
      ADD_FAILURE() << llvm::toString(made.takeError());
      return program;
    }
    program.sharded = std::move(*made);
    StageOptions options;
    options.batch = its.batch;
    options.seq = its.isGpt2 ? 4 : 0;
    options.microbatches = its.microbatches;
    options.dropout = its.dropout;
    options.optimizer = its.optimizer;
    options.zero = its.zero;
    options.lossHeadBytes = 256;
    options.mesh = "dp=" + std::to_string(its.devices);
    for (Stage stage : {Stage::Blu, Stage::Grad, Stage::Shard}) {
      if (stage == Stage::Shard)
        program.whole = program.sharded->clone();
      PassManager manager(&context);
      buildStage(stage, manager, options);
      EXPECT_TRUE(succeeded(manager.run(*program.sharded))) << its.name;
    }
    return program;
  }

  static bool passesVerifier(ModuleOp module) {
    if (failed(verify(module)))
      return false;
    PassManager manager(module->getContext());
    manager.addPass(createVerifySchedulePass());
    return succeeded(manager.run(module));
  }

  MLIRContext context;
  std::vector<Program> programs;
};

class PlanMutationTest : public PlanProgramTest,
                         public testing::WithParamInterface<Mutation> {};

constexpr int kSeeds = 20;

} // namespace

TEST_P(PlanMutationTest, EveryMistakeIsRejected) {
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) {});
  int byVerifier = 0, byComparison = 0;
  for (int seed = 0; seed < kSeeds; ++seed) {
    std::mt19937_64 random(uint64_t(seed) * 5 + uint64_t(GetParam()));
    OwningOpRef<ModuleOp> mutant;
    std::string what;
    bool isOfOneDevice = false;
    size_t which = 0;
    // A mistake that cannot be made in one program is made in another.
    for (size_t at = 0; what.empty() && at < 100; ++at) {
      which = (size_t(seed) + at) % programs.size();
      mutant = programs[which].sharded->clone();
      what = mutatePlan(*mutant, GetParam(), random, isOfOneDevice);
    }
    ASSERT_FALSE(what.empty());
    if (!passesVerifier(*mutant)) {
      ++byVerifier;
      continue;
    }
    const Program &program = programs[which];
    SmallVector<ModuleOp> modules(size_t(cases[which].devices), *mutant);
    if (isOfOneDevice) {
      llvm::fill(modules, *program.sharded);
      modules[random() % modules.size()] = *mutant;
    }
    bool isFound = failed(verifyPlan(*program.whole, modules));
    EXPECT_TRUE(isFound) << cases[which].name << ", seed " << seed << ": "
                         << what;
    byComparison += isFound;
  }
  llvm::outs() << kSeeds << " mutants, " << byVerifier
               << " rejected by blu-verify-schedule, " << byComparison
               << " by --verify-plan\n";
}

static std::string nameOf(const testing::TestParamInfo<Mutation> &info) {
  constexpr const char *names[] = {"DroppedCollective", "WrongAxis",
                                   "DoubledScale", "UnsyncedNorm",
                                   "SwappedOrder"};
  return names[size_t(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Kinds, PlanMutationTest,
                         testing::Values(Mutation::DroppedCollective,
                                         Mutation::WrongAxis,
                                         Mutation::DoubledScale,
                                         Mutation::UnsyncedNorm,
                                         Mutation::SwappedOrder),
                         nameOf);

/// As they are, all programs pass, and also on a mesh with an axis that nothing
/// is cut along.
TEST_F(PlanProgramTest, PassesUnchanged) {
  for (auto [its, program] : llvm::zip_equal(cases, programs)) {
    EXPECT_TRUE(succeeded(verifyPlan(*program.whole, *program.sharded)))
        << its.name;
    blu::Mesh mesh = blu::Mesh::get(*program.sharded);
    mesh.axes.emplace_back("tp", its.devices);
    mesh.set(*program.sharded);
    EXPECT_TRUE(passesVerifier(*program.sharded)) << its.name;
  }
}
