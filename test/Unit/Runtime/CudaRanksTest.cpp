//===- CudaRanksTest.cpp - Ranks on GPUs, on stand-ins --------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"

#include <chrono>
#include <csignal>
#include <regex>

using namespace blurt;
using namespace blurt::test;

namespace {

class CudaRanks : public CommandLine, public testing::WithParamInterface<bool> {
protected:
  Outcome train(const std::string &flags, const std::string &more = "") {
    writeFile(path("meeting"), std::string(4096, '\0'));
    return run("train --data 'train_*.bin' --lr 0.1 --devices 3 --device 0 " +
                   std::string(GetParam() ? "" : "--no-graph ") + flags,
               "-ranks",
               "BLURT_LIBCUDA='" BLURT_FAKE_CUDA
               "' BLURT_CUBLASLT='" BLURT_FAKE_CUDA
               "' BLURT_NCCL='" BLURT_FAKE_NCCL "' FAKE_NCCL_MEETING=meeting " +
                   more);
  }

  /// Rank 1 meets its fate between the two collectives of the fourth step.
  void expectNamed(int signal, const std::string &how, const std::string &after,
                   const std::string &where =
                       "all_gather at mock.mlir:9:1, collective 2 of 2") {
    auto start = std::chrono::steady_clock::now();
    Outcome outcome =
        train("--steps 100000 --quiet --timeout 1",
              "FAKE_CUDA_HANG=1:mock_check:4:" + std::to_string(signal));
    std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - start;
    EXPECT_EQ(outcome.code, 2);
    EXPECT_LT(took.count(), 1 + 5 + 4);
    const std::string expected =
        "error: rank \\d: rank 1 \\(process \\d+ on [^)]*\\) " + how + " in " +
        where +
        " of the program, "
        "run 4 of an entry" +
        after + "\n";
    EXPECT_TRUE(std::regex_search(outcome.err, std::regex(expected)))
        << outcome.err << "\nexpected: " << expected;
    // Others are named as those who said so, if at all.
    EXPECT_FALSE(std::regex_search(
        outcome.err, std::regex("rank [02] \\([^)]*\\) (has|is|did)")))
        << outcome.err;
  }
};

TEST_P(CudaRanks, CountWhatEveryStepSends) {
  Outcome outcome = train("--steps 6 --quiet --metrics m.jsonl");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<json> all = lines("m.jsonl");
  ASSERT_EQ(all.size(), 6u);
  for (const json &line : all) {
    EXPECT_EQ(line["collective_calls"], 2);
    // A piece of 64 floats and a number, to two others each.
    EXPECT_EQ(line["collective_bytes"], 2 * (64 * 4 + 8));
  }
}

TEST_P(CudaRanks, NameTheOneWhoseDeviceHangs) {
  expectNamed(0, "has not arrived",
              ", for 1 s \\(--timeout\\); its device is in what follows "
              "reduce_scatter at mock.mlir:8:1, collective 1 of 2 of the "
              "program, run 4 of an entry");
}

TEST_P(CudaRanks, NameTheOneThatDies) {
  // At once, when the others may not have come as far.
  expectNamed(SIGKILL, "has died", "",
              "(all_gather|.*reduce_scatter) at mock.mlir:[89]:1, collective "
              "[12] of 2");
}

TEST_P(CudaRanks, NameTheOneThatIsStopped) {
  expectNamed(SIGSTOP, "is stopped", ", for 1 s \\(--timeout\\)");
}

TEST_P(CudaRanks, SayWhyOneEnds) {
  Outcome outcome = train("--steps 100000 --quiet --timeout 20",
                          "FAKE_CUDA_LATE_RANK=2 FAKE_CUDA_LATE=mock_check");
  EXPECT_EQ(outcome.code, 2);
  const std::string why = "cuEventSynchronize .* failed on device 0 "
                          "\\(Fake GPU, sm_90\\): CUDA_ERROR_ILLEGAL_ADDRESS";
  for (const std::string &who :
       {std::string("rank 2: "),
        std::string("rank 0: rank 2 \\(process \\d+ on [^)]*\\) ended: ")})
    EXPECT_TRUE(
        std::regex_search(outcome.err, std::regex("error: " + who + why)))
        << outcome.err;
}

INSTANTIATE_TEST_SUITE_P(Graphs, CudaRanks, testing::Bool(),
                         [](const auto &info) {
                           return info.param ? "Graph" : "NoGraph";
                         });

} // namespace
