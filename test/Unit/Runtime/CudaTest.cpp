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
#include <cstdlib>
#include <map>
#include <random>

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
  /// So little that measuring what the device reaches takes no time.
  const std::string memory = "FAKE_CUDA_MEMORY=2400000 ";
  const std::string log = "FAKE_CUDA_LOG=log.txt ";
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
  // What kernels counted in a step, not since the start.
  for (size_t i : {1, 41}) {
    EXPECT_EQ(b[i]["fp32tc_bf16_gemms"], 2) << i;
    EXPECT_EQ(b[i]["fp32tc_recomputed_rows"], 16) << i;
  }
  EXPECT_FALSE(a[1].contains("fp32tc_bf16_gemms"));
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
  const std::string step = "launch mock_operands\nproduct by algorithm 1\n"
                           "launch mock_train\nlaunch mock_check\n";
  for (bool graph : {false, true}) {
    std::filesystem::remove(path("log.txt"));
    Outcome outcome =
        runCuda("train --data 'train_*.bin' --lr 0.1 --steps 6 --quiet" +
                    std::string(graph ? "" : " --no-graph"),
                "FAKE_CUDA_LOG=log.txt");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::string log = readFile(path("log.txt"));
    log = log.substr(log.find("launch"));
    std::string expected = step;
    for (int i = 1; i < 6; ++i)
      expected +=
          (graph ? (i == 1 ? "capture\n" + step : "") + "launch the graph\n"
                 : step) +
          "wait for event\n";
    expected += "wait for event\n";
    EXPECT_EQ(log.substr(0, expected.size()), expected);
  }
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
  expectCudaError(train + "--device 3", 1,
                  "expected a device from 0 to 0, got 3");
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
                  "FAKE_CUDA_FAIL=cuMemHostAlloc:0:2");
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
  Outcome outcome = runCuda(train + "--quiet --kernel-times", memory + log);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  // 2 MB and 8 Mflop in 2 µs; the copy is 2 bytes a byte in 1 ps.
  for (const char *part :
       {"time by kernel in step 10\n", "in all", "0.003  33.3%      1 ",
        "  f32[2, 4] · f32[4, 3] -> f32[2, 3]  (linear",
        "0.002  22.2%      1   1000.0  50.0%      4.0 ",
        "mock_train  (step at mock.mlir:2:1)",
        "copies of inputs and scalars  (runtime)",
        "ceiling: 2000.0 GB/s, a copy of ", "best of 3 rounds of 10",
        "TFLOP/s, a product f32[128, 128] · f32[128, 128]"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n"
                                                         << outcome.out;
  EXPECT_EQ(count(readFile(path("log.txt")), "graph"), 0u);
}

TEST_F(CudaCommandLine, SkipsOnTheDeviceWhatTheHostSkips) {
  for (const char *bad : {"BLURT_MOCK_NAN_STEP=5", "BLURT_MOCK_HIGH_STEP=20"}) {
    const std::string flags =
        train + "--on-nonfinite skip --outlier-z 6 --outlier-window 10 "
                "--metrics m.jsonl --save ";
    ASSERT_EQ(run(flags + "host.st", "", bad).code, 0);
    std::vector<json> host = lines("m.jsonl");
    Outcome outcome = runCuda(flags + "device.st", bad);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("note: skipped 1 of 40 steps"),
              std::string::npos);
    std::vector<json> device = lines("m.jsonl");
    ASSERT_EQ(device.size(), host.size());
    for (size_t i = 0; i < host.size(); ++i)
      for (const char *key : {"loss", "grad_norm", "skipped"})
        EXPECT_EQ(device[i].value(key, json()), host[i].value(key, json()))
            << key << " at step " << i << ", " << bad;
    EXPECT_EQ(readFile(path("device.st")), readFile(path("host.st")));
    if (std::string(bad).find("NAN") != std::string::npos) {
      std::string plain = readFile(path("device.st"));
      outcome = runCuda(flags + "device.st --debug-nonfinite", bad);
      EXPECT_NE(outcome.err.find("step 4: the loss is nan; the first value "
                                 "that is not finite is of 'scatter at "
                                 "mock.mlir:1': element 0 of 65536 is nan"),
                std::string::npos)
          << outcome.err;
      EXPECT_EQ(readFile(path("device.st")), plain);
    }
    // The run that stops has not applied the step either, and ends.
    outcome = runCuda(train + "--outlier-z 6 --outlier-window 10", bad);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_NE(outcome.err.find("error: step "), std::string::npos);
  }
}

TEST_F(CudaCommandLine, GraphsChangeNoBits) {
  const std::string flags =
      train +
      "--quiet --val val.bin --val-every 7 --shuffle --schedule cosine ";
  auto result = [&](const std::string &more, const std::string &environment) {
    std::filesystem::remove(path("log.txt"));
    Outcome outcome = runCuda(flags + "--save w.st --metrics m.jsonl " + more,
                              log + environment);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::string text = readFile(path("w.st"));
    for (json &line : lines("m.jsonl"))
      for (const char *key : {"loss", "grad_norm", "lr", "val_loss"})
        if (line.contains(key))
          text += line[key].dump() + "\n";
    return text;
  };
  std::string graphs = result("", "");
  std::string events = readFile(path("log.txt"));
  // One of train, one of eval.
  EXPECT_EQ(count(events, "capture\n"), 2u);
  EXPECT_GT(count(events, "launch the graph\n"), 39u);
  EXPECT_EQ(lines("m.jsonl").size(), 47u);
  json reserves;
  for (json &line : lines("m.jsonl"))
    if (line.contains("reserves"))
      reserves = line["reserves"];
  EXPECT_EQ(reserves["graph of 'train'"], 65536) << reserves;
  EXPECT_TRUE(reserves.contains("context and other processes")) << reserves;

  const std::pair<const char *, const char *> without[] = {
      {"--no-graph", ""}, {"", "BLURT_NO_GRAPH=1"}, {"", "BLURT_SYNC=1"}};
  for (auto [more, environment] : without) {
    EXPECT_EQ(result(more, environment), graphs) << more << environment;
    EXPECT_EQ(count(readFile(path("log.txt")), "capture"), 0u);
  }
  EXPECT_EQ(result("--profile p.json", memory), graphs);
  expectError(train + "--no-graph", 1, "--no-graph: not needed for target cpu");

  const std::string words = "generate --weights w.st --temperature 0 "
                            "--max-tokens 9 --prompt 'the cat sat on'";
  EXPECT_EQ(runCuda(words).out, runCuda(words + " --no-graph").out);
}

TEST_F(CudaCommandLine, ReportsCapturesThatFail) {
  const std::string kernel =
      "cuLaunchKernel (kernel 'mock_train' of step at mock.mlir:2:1) failed on "
      "device 0 (Fake GPU, sm_90): ";
  const std::string where = "capturing the graph of entry 'train': ";
  expectCudaError(train, 2, where + kernel + "CUDA_ERROR_INVALID_VALUE",
                  "FAKE_CUDA_FAIL=cuLaunchKernel:5:1");
  expectCudaError(train, 2,
                  where + kernel + "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
                  "FAKE_CUDA_SPOIL=mock_train");
  expectCudaError(train, 2, where + "cublasLtMatmul (product ",
                  "FAKE_CUDA_FAIL=cublasLtMatmul:2:15");
  expectCudaError(train, 2, "; --no-graph runs without",
                  "FAKE_CUDA_SPOIL=mock_train");
  expectCudaError(train, 2,
                  "cuStreamBeginCapture_v2 (the graph of entry 'train') failed",
                  "FAKE_CUDA_FAIL=cuStreamBeginCapture:1:1");
  for (std::string call :
       {"cuStreamEndCapture", "cuGraphInstantiate", "cuGraphUpload"})
    expectCudaError(train, 2, where + call, "FAKE_CUDA_FAIL=" + call + ":1:2");
  expectCudaError(train, 2, "cuGraphLaunch (the graph of entry 'train') failed",
                  "FAKE_CUDA_FAIL=cuGraphLaunch:3:1");
}

TEST_F(CudaCommandLine, WritesATraceOfSomeSteps) {
  Outcome outcome = runCuda(train + "--quiet --profile p.json", memory + log);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const char *part :
       {"time by kernel, mean of steps 5 to 7\n",
        "0.002  22.2%      1   1000.0  50.0%      4.0 ",
        "step 3, without them: ",
        "each launch was timed between two events of its own"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n"
                                                         << outcome.out;
  // Three steps are queued kernel by kernel beside the first.
  EXPECT_EQ(count(readFile(path("log.txt")), "launch the graph\n"), 36u);
  json trace = json::parse(readFile(path("p.json")));
  EXPECT_EQ(trace["otherData"]["plan_hash"], "00c0ffee");
  EXPECT_EQ(trace["otherData"]["copy_bytes_per_s"].is_number(), true);
  std::map<std::string, int> names;
  double end = 0;
  json check, product;
  for (const json &event : trace["traceEvents"]) {
    if (event["ph"] != "X")
      continue;
    ++names[event["name"]];
    if (event["pid"] == 1 && event["tid"] == 1) {
      // In order, and none at the same time as another.
      EXPECT_GE(double(event["ts"]) + 1e-6, end);
      end = double(event["ts"]) + double(event["dur"]);
    }
    if (event["name"] == "step at mock.mlir:2:1")
      check = event;
    if (event["name"] == "linear at mock.mlir:7:1")
      product = event;
  }
  for (const char *name : {"step at mock.mlir:2:1", "check at mock.mlir:3:1",
                           "linear at mock.mlir:7:1", "the store of an index",
                           "copies of inputs and scalars", "copies of results"})
    EXPECT_EQ(names[name], 3) << name;
  for (const char *name : {"step 5", "step 6", "step 7"})
    EXPECT_EQ(names[name], 1) << name;
  for (const char *name :
       {"read the batch", "queue the step", "wait for the results"})
    EXPECT_GE(names[name], 3) << name;
  EXPECT_NEAR(double(check["dur"]), 2, 1e-3);
  EXPECT_EQ(check["args"]["kernel"], "mock_train");
  EXPECT_EQ(check["args"]["grid"], (json{4, 1, 1}));
  EXPECT_EQ(check["args"]["block"], (json{128, 1, 1}));
  EXPECT_EQ(check["args"]["bytes"], 2'000'000);
  EXPECT_EQ(check["args"]["flops"], 8'000'000);
  EXPECT_EQ(check["args"]["step"], 7);
  EXPECT_EQ(product["args"]["flops"], 2 * 2 * 3 * 4);
  // A, B, C and the bias.
  EXPECT_EQ(product["args"]["bytes"], 4 * (8 + 12 + 6 + 3));

  // The last of a short run.
  for (int steps : {0, 1, 2, 4, 7}) {
    Outcome outcome = runCuda("train --data 'train_*.bin' --lr 0.1 --quiet "
                              "--profile s.json --steps " +
                                  std::to_string(steps),
                              memory);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    int found = 0;
    json trace = json::parse(readFile(path("s.json")));
    for (const json &event : trace["traceEvents"])
      found += event["name"] == "step at mock.mlir:2:1";
    EXPECT_EQ(found, std::min(3, steps));
  }
  expectCudaError(train + "--profile p.json --kernel-times", 1, "excludes");
  expectCudaError(train + "--profile ''", 1, "expected the name of a file");
  expectError(train + "--profile p.json", 1,
              "--profile: not supported for target cpu");
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
  // One plainly, one in the capture.
  EXPECT_EQ(count(log, "product by algorithm 2"), 2u);
  EXPECT_EQ(count(log, "product by"), 2u);
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

  // A tile that no proposal has is faster.
  ASSERT_EQ(runCuda("tune -o wide.json --search --quiet --repeat 5").code, 0);
  json &wide = (tuned = json::parse(readFile(path("wide.json"))))["problems"];
  EXPECT_NEAR(double(wide[0]["us"]), 0.5, 1e-3);
  EXPECT_EQ(wide[0]["candidates"], 4);
  outcome = runCuda(use + "wide.json", "FAKE_CUDA_LOG=log2.txt");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(readFile(path("log2.txt")), "product by algorithm 4"), 2u);
}

namespace {

int64_t seenIndex = 0;
std::vector<FakeMap> seenMaps;

} // namespace

extern "C" {
extern const FakeKernel unit_double, unit_greedy, unit_maps, unit_read;
const FakeKernel unit_double = {[](void *const *args) {
                                  auto *x = static_cast<float *>(args[0]);
                                  for (int i = 0; i < 4; ++i)
                                    x[i] *= 2;
                                },
                                1};
const FakeKernel unit_greedy = {[](void *const *) {}, 1, 64 * 1024};
const FakeKernel unit_maps = {[](void *const *args) {
                                seenMaps.clear();
                                for (int i : {2, 3})
                                  seenMaps.push_back(
                                      *static_cast<FakeMap *>(args[i]));
                              },
                              2, 0, 2};
const FakeKernel unit_read = {
    [](void *const *args) { std::memcpy(&seenIndex, args[0], 8); }, 1};
}

namespace {

/// The stand-in inside this process.
class Cuda : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    setenv("BLURT_LIBCUDA", BLURT_FAKE_CUDA, 1);
    setenv("BLURT_CUBLASLT", BLURT_FAKE_CUDA, 1);
  }
  void TearDown() override { unsetenv("FAKE_CUDA_FAIL"); }

  /// A program of these kernels and products and nothing else.
  const blurt_program &program() {
    image = {BLURT_IMAGE_PTX, 80, 0, 0, source.size() + 1, source.c_str(),
             kernels.data()};
    code = {1,
            int32_t(kernels.size()),
            int32_t(products.size()),
            0,
            &image,
            products.data(),
            0,
            4096,
            0};
    table = {};
    table.abi_version = BLURT_ABI_VERSION;
    table.name = "unit";
    table.target = "cuda";
    table.plan_hash = "0";
    table.peak_bytes = 1 << 16;
    table.device = &code;
    return table;
  }
  static blurt_device_kernel kernel(const char *symbol, uint32_t shared = 0,
                                    uint32_t threads = 64) {
    return {symbol,  "an op", {1, 1, 1}, {threads, 1, 1}, shared, 1, 0, 0,
            nullptr, 0,       0};
  }

  std::string source = "ptx";
  std::vector<blurt_device_kernel> kernels;
  std::vector<blurt_device_gemm> products;
  blurt_image image;
  blurt_device_code code;
  blurt_program table;
};

float roundedTo(int32_t dtype, float value) {
  return dtype == BLURT_BF16 ? fromBf16(toBf16(value)) : value;
}

/// Values as the device stores them.
std::vector<std::byte> stored(const std::vector<float> &values, int32_t dtype) {
  uint64_t size = dtypeSize(dtype);
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t narrow = toBf16(values[i]);
    std::memcpy(bytes.data() + i * size,
                dtype == BLURT_BF16 ? static_cast<const void *>(&narrow)
                                    : &values[i],
                size);
  }
  return bytes;
}

} // namespace

TEST_F(Cuda, ProductsAreTheRowMajorOnesOfTheTable) {
  constexpr int64_t m = 3, n = 5, k = 4, batch = 2;
  for (int bits = 0; bits < 64; ++bits) {
    bool transA = bits & 1, transB = bits & 2, add = bits & 4, bias = bits & 8,
         many = bits & 16, half = bits & 32;
    int32_t type = half ? BLURT_BF16 : BLURT_F32;
    blurt_device_gemm g = {};
    g.source = "an op";
    g.compute = half ? BLURT_COMPUTE_BF16 : BLURT_COMPUTE_F32;
    g.epilogue = bias ? BLURT_EPILOGUE_BIAS : BLURT_EPILOGUE_NONE;
    g.dtype_ab = type;
    g.dtype_c = BLURT_F32;
    g.dtype_extra = type;
    g.trans_a = transA;
    g.trans_b = transB;
    g.accumulate = add;
    g.batch = many ? batch : 1;
    g.m = m;
    g.n = n;
    g.k = k;
    // Rows are further apart than they are long; B is the same for all.
    g.lda = 7;
    g.ldb = 6;
    g.ldc = 8;
    g.stride_a = 30;
    g.stride_b = 0;
    g.stride_c = 40;
    g.align_a = g.align_b = g.align_c = 16;
    products = {g};
    CudaDevice device(0, 13000);
    std::unique_ptr<Backend> backend = createCudaBackend(device);
    CachingAllocator allocator(*backend);
    CudaCode loaded(device, program());
    auto *memory = static_cast<std::byte *>(allocator.allocate(65536, "test"));
    loaded.prepareProducts(memory, "");
    std::mt19937 random(7);
    auto numbers = [&](size_t count, int32_t dtype) {
      std::vector<float> values(count);
      for (float &v : values)
        v = roundedTo(dtype, float(int(random() % 17) - 8) / 4);
      return values;
    };
    std::vector<float> a = numbers(64, type), b = numbers(64, type),
                       c = numbers(128, BLURT_F32), extra = numbers(n, type);
    auto upload = [&](uint64_t at, const std::vector<float> &values,
                      int32_t dtype) {
      std::vector<std::byte> bytes = stored(values, dtype);
      device.write(memory + at, bytes.data(), bytes.size());
    };
    upload(8192, a, type);
    upload(16384, b, type);
    upload(24576, c, BLURT_F32);
    upload(32768, extra, type);
    loaded.product(0, memory + 8192, memory + 16384, memory + 24576,
                   bias ? memory + 32768 : nullptr);
    loaded.rethrow();
    std::vector<float> got(c.size());
    device.read(got.data(), memory + 24576, got.size() * 4);
    for (int64_t q = 0; q < g.batch; ++q)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          float sum = 0;
          for (int64_t l = 0; l < k; ++l)
            sum += a[size_t(q * g.stride_a +
                            (transA ? l * g.lda + i : i * g.lda + l))] *
                   b[size_t(transB ? j * g.ldb + l : l * g.ldb + j)];
          float &value = c[size_t(q * g.stride_c + i * g.ldc + j)];
          value = sum + (add ? value : 0) + (bias ? extra[size_t(j)] : 0);
        }
    EXPECT_EQ(got, c) << bits;
    allocator.deallocate(memory);
  }
}

TEST_F(Cuda, KeepsTheFirstErrorAndQueuesNothingAfterIt) {
  kernels = {kernel("unit_double"), kernel("unit_read")};
  CudaDevice device(0, 13000);
  std::unique_ptr<Backend> backend = createCudaBackend(device);
  CudaCode loaded(device, program());
  auto *memory = static_cast<std::byte *>(backend->allocate(512));
  std::vector<float> values = {1, 2, 3, 4};
  device.write(memory, values.data(), 16);
  void *args[] = {memory};
  loaded.launch(0, args);
  setenv("FAKE_CUDA_FAIL", "cuLaunchKernel:0:1", 1);
  loaded.launch(1, args);
  unsetenv("FAKE_CUDA_FAIL");
  loaded.launch(0, args);
  EXPECT_ERROR(loaded.rethrow(), ExitFailure,
               "cuLaunchKernel (kernel 'unit_read' of an op) failed on device "
               "0 (Fake GPU, sm_90): CUDA_ERROR_INVALID_VALUE");
  device.read(values.data(), memory, 16);
  EXPECT_EQ(values, (std::vector<float>{2, 4, 6, 8}));
  // Reported once; then it goes on.
  loaded.rethrow();
  loaded.storeI64(memory + 64, -5);
  args[0] = memory + 64;
  loaded.launch(1, args);
  device.synchronize("test");
  EXPECT_EQ(seenIndex, -5);
  backend->free(memory, 512);
}

TEST_F(Cuda, EncodesTensorMapsOfArguments) {
  const blurt_device_map maps[] = {{1,
                                    BLURT_BF16,
                                    4,
                                    128,
                                    {64, 12, 1000, 3},
                                    {2, 128, 4608, 4608000},
                                    {64, 1, 64, 1},
                                    0},
                                   {0, BLURT_F32, 1, 0, {36000}, {4}, {64}, 0}};
  kernels = {kernel("unit_maps")};
  kernels[0].num_args = 2;
  kernels[0].num_maps = 2;
  kernels[0].maps = maps;
  verifyProgram(program());
  CudaDevice device(0, 13000);
  std::unique_ptr<Backend> backend = createCudaBackend(device);
  CudaCode loaded(device, program());
  auto *memory = static_cast<std::byte *>(backend->allocate(4096));
  void *args[] = {memory, memory + 1024};
  loaded.launch(0, args);
  // The parameters of this launch are another one's.
  void *others[] = {memory + 2048, memory};
  std::vector<FakeMap> seen;
  device.synchronize("test");
  seen = seenMaps;
  loaded.launch(0, others);
  device.synchronize("test");
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].address, memory + 1024);
  EXPECT_EQ(seen[1].address, memory);
  EXPECT_EQ(seenMaps[0].address, memory);
  EXPECT_EQ(seenMaps[1].address, memory + 2048);
  EXPECT_EQ(seen[0].type, 9u);
  EXPECT_EQ(seen[1].type, 7u);
  EXPECT_EQ(seen[0].rank, 4u);
  EXPECT_EQ(seen[0].swizzle, 3u);
  EXPECT_EQ(seen[1].swizzle, 0u);
  EXPECT_EQ(seen[0].extents[2], 1000u);
  EXPECT_EQ(seen[0].strides[0], 128u);
  EXPECT_EQ(seen[0].strides[2], 4608000u);
  EXPECT_EQ(seen[0].box[2], 64u);
  EXPECT_EQ(seen[1].extents[0], 36000u);
  setenv("FAKE_CUDA_FAIL", "cuTensorMapEncodeTiled:0:1", 1);
  loaded.launch(0, args);
  unsetenv("FAKE_CUDA_FAIL");
  EXPECT_ERROR(loaded.rethrow(), ExitFailure,
               "cuTensorMapEncodeTiled (kernel 'unit_maps' of an op) failed");
  backend->free(memory, 4096);
}

TEST_F(Cuda, KernelsAreThoseOfTheChosenImage) {
  kernels = {kernel("unit_double")};
  const blurt_program &both = program();
  const blurt_device_kernel others[] = {kernel("unit_read", 64)};
  const blurt_image images[] = {
      image, {BLURT_IMAGE_CUBIN, 90, 1, 0, 4, "bin", others}};
  code.num_images = 2;
  code.images = images;
  verifyProgram(both);
  CudaDevice device(0, 13000);
  std::unique_ptr<Backend> backend = createCudaBackend(device);
  auto *memory = static_cast<std::byte *>(backend->allocate(64));
  void *args[] = {memory};
  int64_t number = 77;
  for (bool ptx : {false, true}) {
    if (ptx)
      setenv("BLURT_FORCE_PTX", "1", 1);
    CudaCode loaded(device, both);
    unsetenv("BLURT_FORCE_PTX");
    device.write(memory, &number, 8);
    seenIndex = 0;
    loaded.launch(0, args);
    device.synchronize("test");
    EXPECT_EQ(seenIndex, ptx ? 0 : 77);
  }
  backend->free(memory, 64);
}

TEST_F(Cuda, GraphsRunOnWhatIsInMemory) {
  kernels = {kernel("unit_double"), kernel("unit_read")};
  CudaDevice device(0, 13000);
  std::unique_ptr<Backend> backend = createCudaBackend(device);
  CudaCode loaded(device, program());
  auto *memory = static_cast<std::byte *>(backend->allocate(512));
  std::vector<float> values = {1, 2, 3, 4};
  device.write(memory, values.data(), 16);
  auto queue = [&] {
    void *args[] = {memory}, *store[] = {memory + 64};
    loaded.launch(0, args);
    loaded.storeI64(store[0], -5);
    loaded.launch(1, store);
    loaded.launch(0, args);
  };
  setenv("FAKE_CUDA_FAIL", "cuLaunchKernel:0:1", 1);
  EXPECT_ERROR(CudaGraph(device, loaded, "e", queue), ExitFailure,
               "capturing the graph of entry 'e': cuLaunchKernel (kernel "
               "'unit_double' of an op) failed");
  unsetenv("FAKE_CUDA_FAIL");
  {
    CudaGraph graph(device, loaded, "e", queue);
    // Nothing ran yet.
    device.read(values.data(), memory, 16);
    EXPECT_EQ(values, (std::vector<float>{1, 2, 3, 4}));
    graph.launch();
    graph.launch();
    device.read(values.data(), memory, 16);
    EXPECT_EQ(values, (std::vector<float>{16, 32, 48, 64}));
    EXPECT_EQ(seenIndex, -5);
    values = {0, -1, 1, 2};
    device.write(memory, values.data(), 16);
    graph.launch();
    device.read(values.data(), memory, 16);
    EXPECT_EQ(values, (std::vector<float>{0, -4, 4, 8}));
    EXPECT_EQ(device.reserves().back().name, "graph of 'e'");
    EXPECT_EQ(device.reserves().back().bytes, 65536u);
  }
  backend->free(memory, 512);
}

TEST_F(Cuda, ChecksKernelsWhenTheProgramStarts) {
  CudaDevice device(0, 13000);
  kernels = {kernel("unit_none")};
  EXPECT_ERROR(CudaCode(device, program()), ExitFailure,
               "cuModuleGetFunction (kernel 'unit_none' of an op) failed");
  kernels = {kernel("unit_greedy", 40 * 1024)};
  EXPECT_ERROR(CudaCode(device, program()), ExitFailure,
               "kernel 'unit_greedy' of an op: expected at most 102400 bytes "
               "of shared memory a block on device 0 (Fake GPU, sm_90), got "
               "106496");
  kernels = {kernel("unit_double", 0, 2048)};
  EXPECT_ERROR(CudaCode(device, program()), ExitFailure,
               "expected at most 1024 threads a block");
  kernels = {kernel("unit_double")};
  source = "bad";
  EXPECT_ERROR(CudaCode(device, program()), ExitFailure,
               "line 3: syntax error");
  // A program of products alone needs no image.
  kernels = {};
  EXPECT_NO_THROW(CudaCode(device, program()));
}

TEST_F(Cuda, AllocatorServesDeviceMemory) {
  CudaDevice device(0, 13000);
  for (auto &backend :
       {createCudaBackend(device), createPinnedBackend(device)}) {
    CachingAllocator allocator(*backend);
    std::mt19937 random(3);
    std::vector<std::pair<void *, uint64_t>> live;
    std::vector<std::byte> pattern, read;
    for (int i = 0; i < 200; ++i) {
      if (live.size() > 8 || (!live.empty() && random() % 3 == 0)) {
        auto [address, bytes] = live.back();
        live.pop_back();
        pattern.assign(bytes, std::byte(live.size()));
        read.resize(bytes);
        backend->copy(read.data(), address, bytes);
        EXPECT_EQ(read, pattern);
        allocator.deallocate(address);
        continue;
      }
      uint64_t bytes = 1 + random() % 100000;
      void *address = allocator.allocate(bytes, "test");
      pattern.assign(bytes, std::byte(live.size()));
      backend->copy(address, pattern.data(), bytes);
      live.emplace_back(address, bytes);
    }
    for (auto [address, bytes] : live)
      allocator.deallocate(address);
    allocator.trim();
    EXPECT_EQ(allocator.stats().reserved, 0u);
    void *fresh = backend->allocate(4096);
    read.assign(4096, std::byte(1));
    backend->copy(read.data(), fresh, 4096);
    EXPECT_EQ(read, std::vector<std::byte>(4096));
    backend->free(fresh, 4096);
  }
}

TEST_F(Cuda, DebugBuildsPoisonDeviceMemory) {
  CudaDevice device(0, 13000);
  std::unique_ptr<Backend> backend = createCudaBackend(device);
  auto *memory = static_cast<std::byte *>(backend->allocate(512));
  ShadowMemory shadow(memory, 512);
  shadow.setPoison([&](void *address, uint64_t bytes) {
    device.fill(address, 0xFF, bytes);
  });
  shadow.define(memory, 512, "all");
  shadow.retire(memory + 64, 64, "some");
  std::vector<std::byte> got(512), expected(512);
  std::fill_n(expected.begin() + 64, 64, std::byte(0xFF));
  device.read(got.data(), memory, 512);
  EXPECT_EQ(got, expected);
  backend->free(memory, 512);
}

TEST_F(Cuda, VerifiesTheTable) {
  auto broken = [&](auto &&change, const char *part) {
    blurt_program copy = program();
    change(copy);
    EXPECT_ERROR(verifyProgram(copy), ExitFailure, part);
  };
  verifyProgram(program());
  broken([](auto &p) { p.target = "cpu"; }, "target 'cpu' has no use for it");
  broken([](auto &p) { p.device = nullptr; }, "target 'cuda' needs it");
  broken([&](auto &) { code.workspace_bytes = 1 << 17; },
         "the workspace ends outside the arena");
  broken([&](auto &) { code.counters_offset = (1 << 16) - 8; },
         "the counters end outside the arena");
  broken([&](auto &) { image.size = 3; }, "expected PTX that ends in a 0 byte");
  broken([&](auto &) { image.kind = 2; }, "expected a cubin or PTX");
  kernels = {kernel("unit_double", 0, 0)};
  broken([](auto &) {}, "kernel 'unit_double': expected a grid and blocks");
  kernels = {kernel("unit_double")};
  broken([&](auto &) { image.kernels = nullptr; },
         "expected kernels of every image");
  blurt_device_map map = {0, BLURT_F32, 2, 128, {32, 8}, {4, 128}, {32, 8}, 0};
  kernels[0].num_maps = 1;
  kernels[0].maps = &map;
  verifyProgram(program());
  auto brokenMap = [&](auto change, const char *part) {
    blurt_device_map good = map;
    change();
    EXPECT_ERROR(verifyProgram(program()), ExitFailure, part);
    map = good;
  };
  brokenMap([&] { map.operand = 1; },
            "kernel 'unit_double': tensor map 0: expected the number of an "
            "argument, got 1");
  brokenMap([&] { map.dtype = BLURT_I32; }, "expected f32 or bf16, got i32");
  brokenMap([&] { map.rank = 6; }, "expected 1 to 5 dimensions, got 6");
  brokenMap([&] { map.swizzle = 32; }, "expected a swizzle of 0, 64 or 128");
  brokenMap([&] { map.box[1] = 257; }, "a box of 1 to 256 elements");
  brokenMap([&] { map.strides[1] = 40; }, "multiples of 16 bytes");
  kernels = {};
  blurt_device_gemm g = {};
  g.source = "an op";
  g.dtype_ab = g.dtype_c = BLURT_F32;
  g.batch = g.m = g.n = g.k = g.lda = g.ldb = g.ldc = 4;
  g.align_a = g.align_b = g.align_c = 16;
  products = {g};
  verifyProgram(program());
  broken([&](auto &) { products[0].lda = 3; },
         "product 0 (an op): expected rows at least as far apart");
  products = {g};
  broken([&](auto &) { products[0].dtype_ab = BLURT_BF16; },
         "expected f32 or bf16 that fits how it is computed, got bf16");
  products = {g};
  broken([&](auto &) { products[0].align_b = 3; },
         "expected alignments that are powers of two, got 3");
}
