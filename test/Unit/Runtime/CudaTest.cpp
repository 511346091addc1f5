//===- CudaTest.cpp - Programs for CUDA on a stand-in driver --------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Cuda.h"
#include "CommandLine.h"
#include "FakeKernel.h"
#include "blurt/Convert.h"
#include "blurt/Safetensors.h"
#include "blurt/Session.h"

#include <cmath>

using namespace blurt;
using namespace blurt::test;

namespace {

class CudaCommandLine : public CommandLine {
protected:
  const std::string fake = "BLURT_LIBCUDA='" BLURT_FAKE_CUDA
                           "' BLURT_CUBLASLT='" BLURT_FAKE_CUDA "' ";

  Outcome runCuda(const std::string &arguments, const std::string &more = "") {
    return run(arguments, "-cuda", fake + more);
  }
  void expectCudaError(const std::string &arguments, int code,
                       const std::string &part, const std::string &more = "") {
    Outcome outcome = runCuda(arguments, more);
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_NE(outcome.err.find("error: "), std::string::npos);
    EXPECT_NE(outcome.err.find(part), std::string::npos)
        << "got: " << outcome.err << "\nexpected: " << part;
  }
  size_t count(const std::string &text, const std::string &part) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at)
      ++found;
    return found;
  }
};

} // namespace

TEST_F(CudaCommandLine, DoesWhatTheProgramForTheCpuDoes) {
  const std::string flags = "--val val.bin --val-every 20 --save ";
  Outcome cpu = run(train + flags +
                    "cpu.st --metrics cpu.jsonl "
                    "--dump-grads cpu-g.st");
  Outcome gpu = runCuda(train + flags +
                        "gpu.st --metrics gpu.jsonl "
                        "--dump-grads gpu-g.st");
  ASSERT_EQ(cpu.code, 0) << cpu.err;
  ASSERT_EQ(gpu.code, 0) << gpu.err;
  EXPECT_EQ(readFile(path("cpu.st")), readFile(path("gpu.st")));
  EXPECT_EQ(readFile(path("cpu-g.st")), readFile(path("gpu-g.st")));
  std::vector<json> a = lines("cpu.jsonl"), b = lines("gpu.jsonl");
  ASSERT_EQ(a.size(), 43u);
  ASSERT_EQ(b.size(), 43u);
  for (size_t i = 0; i < a.size(); ++i)
    for (const char *key :
         {"step", "loss", "grad_norm", "lr", "tokens", "val_loss"})
      EXPECT_EQ(a[i].contains(key) ? a[i][key] : json(),
                b[i].contains(key) ? b[i][key] : json())
          << i << " " << key;
  // Three kernels of 2 µs and a product of 3.
  EXPECT_NEAR(double(b[5]["step_ms"]), 0.009, 1e-6);
  EXPECT_EQ(b[1]["device"], "Fake GPU");
  EXPECT_FALSE(b[1].contains("gemm_file"));
  EXPECT_GE(double(b[41]["device_bytes"]), double(b[41]["arena_bytes"]));
  EXPECT_NE(gpu.err.find("note: device memory: arena "), std::string::npos)
      << gpu.err;

  Outcome evaluated = runCuda("eval --data val.bin --weights gpu.st");
  EXPECT_EQ(evaluated.out, run("eval --data val.bin --weights cpu.st").out);
  for (const char *prompt : {"t", "the cat sat on the ma"}) {
    std::string line = std::string("generate --weights cpu.st --temperature 0 "
                                   "--max-tokens 3 --prompt '") +
                       prompt + "'";
    Outcome made = runCuda(line);
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(made.out, run(line).out);
  }
}

TEST_F(CudaCommandLine, CallsOneEntry) {
  ASSERT_EQ(run(train + "--quiet --save w.st").code, 0);
  std::vector<int32_t> tokens(16, 'a');
  SafetensorsFile weights(path("w.st"));
  std::vector<SafetensorsOutput> inputs;
  auto add = [&](const std::string &name, const std::string &dtype,
                 std::vector<int64_t> shape, std::string bytes) {
    inputs.push_back(
        {name, dtype, shape, [bytes](AtomicFile &f) { f.write(bytes); }});
  };
  add("tokens", "I32", {2, 8}, words(tokens));
  add("targets", "I32", {2, 8}, words(tokens));
  add("table", "F32", {256, 256}, std::string(256 * 256 * 4, '\0'));
  for (const char *name : {"block.1.scale", "block.2.scale", "block.3.scale"})
    add(name, "F32", {2, 3}, std::string(24, '\0'));
  writeSafetensors(path("in.st"), inputs, {});
  const std::string call =
      "call --entry eval --inputs in.st --state --outputs ";
  Outcome cpu = run(call + "cpu.st"), gpu = runCuda(call + "gpu.st");
  ASSERT_EQ(cpu.code, 0) << cpu.err;
  ASSERT_EQ(gpu.code, 0) << gpu.err;
  EXPECT_EQ(readFile(path("cpu.st")), readFile(path("gpu.st")));
}

TEST_F(CudaCommandLine, NeverWaitsForTheStepJustQueued) {
  Outcome outcome = runCuda("train --data 'train_*.bin' --lr 0.1 --steps 6 "
                            "--quiet",
                            "FAKE_CUDA_LOG=log.txt");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::string log = readFile(path("log.txt"));
  log = log.substr(log.find("launch"));
  const std::string step = "launch mock_operands\nproduct by algorithm 1\n"
                           "launch mock_train\nlaunch mock_check\n";
  std::string expected = step;
  for (int i = 1; i < 6; ++i)
    expected += step + "wait for event\n";
  expected += "wait for event\n";
  EXPECT_EQ(log.substr(0, expected.size()), expected);
}

TEST_F(CudaCommandLine, ReportsNumbersThatAreNoneOneStepLater) {
  expectCudaError("train --data 'train_*.bin' --lr 1e38 --steps 5 --save w.st "
                  "--metrics m.jsonl",
                  2, "step 2: the loss is ");
  EXPECT_FALSE(std::filesystem::exists(path("w.st")));
  EXPECT_EQ(lines("m.jsonl").size(), 2u);
}

TEST_F(CudaCommandLine, ChoosesTheImageOfTheDevice) {
  auto loaded = [&](const std::string &environment) {
    std::filesystem::remove(path("log.txt"));
    Outcome outcome =
        runCuda("info --memory", environment + " FAKE_CUDA_LOG=log.txt");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::string log = readFile(path("log.txt"));
    return log.substr(0, log.find('\n'));
  };
  EXPECT_EQ(loaded("FAKE_CUDA_ARCH=90"), "load cubin sm_90a");
  EXPECT_EQ(loaded("FAKE_CUDA_ARCH=80"), "load cubin sm_80");
  EXPECT_EQ(loaded("FAKE_CUDA_ARCH=86"), "load cubin sm_80");
  EXPECT_EQ(loaded("FAKE_CUDA_ARCH=89"), "load cubin sm_89");
  EXPECT_EQ(loaded("FAKE_CUDA_ARCH=120"), "load ptx compute_80");
  EXPECT_EQ(loaded("BLURT_FORCE_PTX=1"), "load ptx compute_80");
  expectCudaError("info --memory", 2,
                  "expected device code for device 0 (Fake GPU, sm_75), got "
                  "sm_80, sm_89, sm_90a, compute_80; compile the model with "
                  "--arch sm_75",
                  "FAKE_CUDA_ARCH=75");
}

TEST_F(CudaCommandLine, SaysWhichLibraryIsMissing) {
  Outcome none =
      run("info --memory", "-cuda", "BLURT_LIBCUDA=/none/libcuda.so.1");
  EXPECT_EQ(none.code, 2);
  for (const char *part :
       {"cannot load the CUDA driver library libcuda.so.1",
        "driver for CUDA 13.0 or later", "/none/libcuda.so.1: cannot open"})
    EXPECT_NE(none.err.find(part), std::string::npos) << none.err;
  // What the program is needs no driver.
  Outcome info = run("info", "-cuda", "BLURT_LIBCUDA=/none/libcuda.so.1");
  EXPECT_EQ(info.code, 0) << info.err;
  EXPECT_NE(info.out.find("device code   sm_80, sm_89, sm_90a, compute_80; "
                          "6 kernels, 1 products"),
            std::string::npos)
      << info.out;

  expectCudaError("info --memory", 2,
                  "expected a function 'cuDriverGetVersion'",
                  "BLURT_LIBCUDA='" BLURT_EMPTY_LIBRARY "'");
  expectCudaError("info --memory", 2,
                  "expected an NVIDIA driver for CUDA 13.0 or later, got one "
                  "for CUDA 12.8",
                  "FAKE_CUDA_VERSION=12080");
  expectCudaError("info --memory", 2,
                  "cuInit failed: CUDA_ERROR_NO_DEVICE: as the test asked for; "
                  "an NVIDIA GPU is needed",
                  "FAKE_CUDA_FAIL=cuInit:1:100");
  expectCudaError("info --memory", 2,
                  "cannot load libcublasLt.so.13 or libcublasLt.so.12: "
                  "cuBLASLt 12 or later is needed",
                  "BLURT_CUBLASLT=/none/libcublasLt.so.13");
  expectCudaError("info --memory", 2,
                  "expected a function 'cublasLtGetVersion'",
                  "BLURT_CUBLASLT='" BLURT_EMPTY_LIBRARY "'");
  expectCudaError("info --memory", 2,
                  "expected cuBLASLt 12.0.0 or later, got 11.8.1",
                  "FAKE_CUBLASLT_VERSION=110801");

  // Without a name both are found as the system's loader finds them.
  std::filesystem::create_symlink(BLURT_FAKE_CUDA, path("libcuda.so.1"));
  std::filesystem::create_symlink(BLURT_FAKE_CUDA, path("libcublasLt.so.13"));
  Outcome found = run("info --memory", "-cuda",
                      "LD_LIBRARY_PATH='" + folder.string() + "'");
  EXPECT_EQ(found.code, 0) << found.err;
}

TEST_F(CudaCommandLine, NamesTheCallTheOperationAndTheDevice) {
  expectCudaError(train, 2,
                  "cuLaunchKernel (kernel 'mock_train' of step at "
                  "mock.mlir:2:1) failed on device 0 (Fake GPU, sm_90): "
                  "CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was "
                  "encountered",
                  "FAKE_CUDA_FAIL=cuLaunchKernel:5:700");
  expectCudaError(train, 2,
                  "cublasLtMatmul (product f32[2, 4] · f32[4, 3] -> f32[2, 3] "
                  "of linear at mock.mlir:7:1) failed on device 0 (Fake GPU, "
                  "sm_90): CUBLAS_STATUS_NOT_SUPPORTED",
                  "FAKE_CUDA_FAIL=cublasLtMatmul:2:15");
  expectCudaError(train, 2, "BLURT_SYNC=1 tells which",
                  "FAKE_CUDA_LATE=mock_check");
  expectCudaError(train, 2, "cuStreamSynchronize (kernel 'mock_check'",
                  "FAKE_CUDA_LATE=mock_check BLURT_SYNC=1");
  expectCudaError(train + "--device 3", 1, "device 3: expected one of 1");
  expectCudaError(train, 1, "BLURT_DEVICE: expected the number of a device",
                  "BLURT_DEVICE=x");
  EXPECT_EQ(runCuda(train + "--quiet --device 1", "FAKE_CUDA_DEVICES=2").code,
            0);
  expectError(train + "--device 1", 1, "--device: not needed for target cpu");
}

TEST_F(CudaCommandLine, OutOfMemorySaysWhatWasAskedAndWhatIsFree) {
  expectCudaError(train, 2,
                  "out of device 0's memory: the arena of 'mock' (the plan of "
                  "entry 'train' needs ",
                  "FAKE_CUDA_MEMORY=1000000");
  expectCudaError(train, 2, "free are 976.56 KiB of 976.56 KiB",
                  "FAKE_CUDA_MEMORY=1000000");
  expectCudaError(train, 2,
                  "out of pinned host memory: the buffer of inputs and results",
                  "FAKE_CUDA_FAIL=cuMemHostAlloc:1:2");
}

TEST_F(CudaCommandLine, InformsOnMemory) {
  Outcome info = runCuda("info --memory --snapshot s.json");
  ASSERT_EQ(info.code, 0) << info.err;
  for (const char *part :
       {"workspace   4096 bytes", "outside the arena, on device 0 (Fake GPU",
        "context and other processes", "kernels (sm_90a)", "cuBLASLt",
        "in use on the device: ", "pinned memory: "})
    EXPECT_NE(info.out.find(part), std::string::npos) << part << "\n"
                                                      << info.out;
  json snapshot = json::parse(readFile(path("s.json")));
  ASSERT_EQ(snapshot["allocators"].size(), 2u);
  EXPECT_EQ(snapshot["allocators"][0]["backend"], "device 0's");
  Outcome host = run("info --snapshot h.json");
  ASSERT_EQ(host.code, 0) << host.err;
  EXPECT_EQ(json::parse(readFile(path("h.json")))["allocators"].size(), 1u);
}

TEST_F(CudaCommandLine, TimesKernels) {
  Outcome outcome = runCuda(train + "--quiet --kernel-times");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char *part : {"time by kernel in step 10", "in all",
                           "0.003  33.3%      1  f32[2, 4] · f32[4, 3]",
                           "0.002  22.2%      1  mock_train  (step at mock."})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << outcome.out;
}

TEST_F(CudaCommandLine, TunesProducts) {
  ASSERT_EQ(runCuda("tune -o gemm.json --quiet --repeat 5").code, 0);
  json tuned = json::parse(readFile(path("gemm.json")));
  EXPECT_EQ(tuned["device"], "Fake GPU");
  EXPECT_EQ(tuned["cublaslt"], "13.0.2");
  EXPECT_EQ(tuned["plan_hash"], "00c0ffee");
  ASSERT_EQ(tuned["problems"].size(), 1u);
  json &item = tuned["problems"][0];
  EXPECT_EQ(item["problem"]["n"], 3);
  EXPECT_NEAR(double(item["us"]), 1, 1e-3);
  EXPECT_NEAR(double(item["heuristic_us"]), 3, 1e-3);

  const std::string use = train + "--quiet --metrics m.jsonl --tune ";
  Outcome outcome = runCuda(use + "gemm.json", "FAKE_CUDA_LOG=log.txt");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  std::string log = readFile(path("log.txt"));
  EXPECT_EQ(count(log, "product by algorithm 2"), 40u);
  EXPECT_EQ(count(log, "product by"), 40u);
  EXPECT_EQ(std::string(lines("m.jsonl")[0]["gemm_file"]).size(), 16u);

  expectCudaError(use + "gemm.json", 1,
                  "gemm.json: cublaslt: expected '12.8.4' as on this machine, "
                  "got '13.0.2'; run tune here",
                  "FAKE_CUBLASLT_VERSION=120804");
  auto changed = [&](auto &&change) {
    nlohmann::ordered_json copy =
        nlohmann::ordered_json::parse(readFile(path("gemm.json")));
    change(copy);
    writeFile(path("changed.json"), copy.dump());
    return use + "changed.json";
  };
  expectCudaError(changed([](auto &f) { f["device"] = "Other"; }), 1,
                  "device: expected 'Fake GPU' as on this machine, got "
                  "'Other'");
  expectCudaError(
      changed([](auto &f) { f["problems"][0]["algorithm"] = "12"; }), 1,
      "expected an algorithm of 128 hexadecimal digits");
  expectCudaError(changed([](auto &f) {
                    f["problems"][0]["algorithm"] = std::string(128, '9');
                  }),
                  1, "cublasLtMatmulAlgoCheck");
  expectCudaError(changed([](auto &f) { f = {1}; }), 1,
                  "expected a file that the command tune wrote");
  expectCudaError(use + "none.json", 1, "none.json: cannot open");
  Outcome partial =
      runCuda(changed([](auto &f) { f["problems"][0]["problem"]["n"] = 4; }));
  EXPECT_EQ(partial.code, 0);
  EXPECT_NE(partial.err.find("has 0 of 1 products"), std::string::npos)
      << partial.err;
  expectCudaError("tune", 1, "-o is required");
}
