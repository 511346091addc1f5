//===- CommandLineTest.cpp - Commands of whole executables ----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Runs the mock programs as a user would: arguments in; exit code, output and
// files out.
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"
#include "blurt/Safetensors.h"

#include <cmath>
#include <cstring>
#include <regex>

using namespace blurt;
using namespace blurt::test;

TEST_F(CommandLine, TrainsEvaluatesAndGenerates) {
  Outcome trained =
      run(train + "--weight-decay 0 --save w.st --metrics m.jsonl "
                  "--val val.bin --val-every 20");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(std::regex_search(
      trained.err,
      std::regex("\nstep 40/40  loss [0-9.]+  lr 0\\.1  norm [0-9.e+-]+  "
                 "[0-9]+ tokens/s  [0-9.]+ MiB\n")))
      << trained.err;
  EXPECT_TRUE(std::regex_search(
      trained.err, std::regex("\nstep 1/40 .* MiB  [0-9]+s left\n")))
      << trained.err;
  std::vector<json> metrics = lines("m.jsonl");
  ASSERT_EQ(metrics.size(), 43u);
  EXPECT_EQ(metrics[0]["step"], 0);
  EXPECT_TRUE(metrics[0].contains("val_loss"));
  // Weights near zero: the loss of a uniform guess.
  EXPECT_NEAR(double(metrics[1]["loss"]), std::log(256.0), 0.02);
  EXPECT_EQ(metrics[1]["step"], 0);
  EXPECT_EQ(metrics[1]["lr"], 0.1);
  EXPECT_EQ(metrics[1]["tokens"], 32);
  EXPECT_GT(metrics[1]["grad_norm"], 0);
  EXPECT_GT(metrics[1]["step_ms"], 0);
  EXPECT_GT(metrics[1]["tokens_per_s"], 0);
  EXPECT_EQ(metrics[21]["step"], 20);
  EXPECT_TRUE(metrics[21].contains("val_loss"));
  EXPECT_EQ(metrics[41]["tokens"], 40 * 32);
  EXPECT_EQ(metrics[42]["step"], 40);
  double valLoss = metrics[42]["val_loss"];
  EXPECT_LT(valLoss, 1.5);

  Outcome evaluated =
      run("eval --data val.bin --weights w.st --metrics e.jsonl");
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  json line = lines("e.jsonl").at(0);
  // All of the data once: (55 - 1) / 16 whole batches.
  EXPECT_EQ(line["batches"], 3);
  EXPECT_EQ(line["tokens"], 48);
  EXPECT_EQ(line["val_loss"], valLoss);
  EXPECT_DOUBLE_EQ(line["perplexity"], std::exp(valLoss));
  EXPECT_EQ(evaluated.out.substr(evaluated.out.find('\n') + 1),
            readFile(path("e.jsonl")));
  EXPECT_NE(evaluated.err.find("the last 6 tokens"), std::string::npos);

  // Prompts of one chunk, of several, of a padded one, and past the last whole
  // chunk of the context (24) go through different entries.
  for (const char *prompt :
       {"t", "the ", "the cat sat", "the cat sat on the ma"}) {
    Outcome made = run(std::string("generate --weights w.st --temperature 0 "
                                   "--max-tokens 2 --prompt '") +
                       prompt + "'");
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(made.out.size(), std::strlen(prompt) + 3) << made.out;
    EXPECT_EQ(made.out.rfind(prompt, 0), 0u) << made.out;
  }
  EXPECT_EQ(run("generate --weights w.st --temperature 0 --max-tokens 3 "
                "--prompt-tokens 111")
                .out,
            "on t\n");
}

TEST_F(CommandLine, GeneratesDeterministicallyAndStopsAtTheContext) {
  ASSERT_EQ(run(train + "--quiet --save w.st").code, 0);
  const std::string base = "generate --weights w.st --prompt 'the ' "
                           "--temperature 3 --seed ";
  Outcome first = run(base + "1"), again = run(base + "1 --threads 2"),
          other = run(base + "2");
  EXPECT_EQ(first.code, 0);
  EXPECT_EQ(first.out, again.out);
  EXPECT_NE(first.out, other.out);
  // 4 prompt tokens, 20 in the cache, one more predicted from the last.
  EXPECT_EQ(first.out.size(), 4u + 21u + 1u);
  EXPECT_NE(first.err.find("note: stopped at the model's context of 24 tokens"),
            std::string::npos);
  expectError("generate --weights w.st --prompt '123456789012345678901234'", 1,
              "expected fewer tokens than the context of 24, got 24");
  expectError("generate --weights w.st --prompt ''", 1, "at least one token");
  expectError("generate --weights w.st --prompt-tokens 1,256", 1,
              "below the vocabulary size 256, got 256");
  expectError("generate --weights w.st --prompt-tokens 1,,2", 1,
              "expected token ids separated by commas");
  expectError("generate --weights w.st --prompt a --temperature -1", 1,
              "--temperature: expected a number from 0");
  expectError("generate --weights w.st --prompt a", 1,
              "expected a program with an entry 'prefill'", "-plain");
}

TEST_F(CommandLine, SameBitsForAnyThreadsAndReruns) {
  ASSERT_EQ(run(train + "--quiet --threads 1 --save a.st --shuffle").code, 0);
  ASSERT_EQ(run(train + "--quiet --threads 2 --save b.st --shuffle").code, 0);
  ASSERT_EQ(
      run(train + "--quiet --save c.st --shuffle", "", "BLURT_THREADS=3").code,
      0);
  ASSERT_EQ(run(train + "--quiet --save d.st --shuffle --seed 2").code, 0);
  EXPECT_EQ(readFile(path("a.st")), readFile(path("b.st")));
  EXPECT_EQ(readFile(path("a.st")), readFile(path("c.st")));
  EXPECT_NE(readFile(path("a.st")), readFile(path("d.st")));
}

TEST_F(CommandLine, SavedWeightsStartTheNextRun) {
  ASSERT_EQ(run("train --data 'train_*.bin' --lr 0 --steps 0 --save a.st").code,
            0);
  ASSERT_EQ(run("train --data 'train_*.bin' --lr 0 --steps 0 --init a.st "
                "--save b.st")
                .code,
            0);
  EXPECT_EQ(readFile(path("a.st")), readFile(path("b.st")));
  SafetensorsFile file(path("a.st"));
  ASSERT_EQ(file.size(), 4u);
  EXPECT_EQ(typeString(*file.find("h.3.scale.weight")), "F32[3, 2]");
}

TEST_F(CommandLine, DumpsTheFirstGradients) {
  ASSERT_EQ(run(train + "--quiet --clip 0.001 --dump-grads g.st "
                        "--metrics m.jsonl")
                .code,
            0);
  SafetensorsFile file(path("g.st"));
  ASSERT_EQ(file.size(), 4u);
  const SafetensorsEntry entry = *file.find("wte.weight");
  double sum = 0;
  for (uint64_t at = entry.begin; at < entry.end; at += 4) {
    float value;
    std::memcpy(&value, file.data(entry) + at - entry.begin, 4);
    sum += double(value) * double(value);
  }
  // Before clipping: their norm is the one reported.
  EXPECT_NEAR(std::sqrt(sum), double(lines("m.jsonl")[0]["grad_norm"]), 1e-9);
  expectError(
      train + "--dump-grads g.st", 1,
      "--dump-grads: this program was compiled without gradient outputs",
      "-plain");
}

TEST_F(CommandLine, SchedulesTheLearningRate) {
  ASSERT_EQ(run("train --data 'train_*.bin' --lr 0.2 --steps 10 --quiet "
                "--schedule linear --warmup 2 --min-lr 0.1 --metrics m.jsonl")
                .code,
            0);
  std::vector<json> metrics = lines("m.jsonl");
  EXPECT_DOUBLE_EQ(metrics[0]["lr"], 0.1);
  EXPECT_DOUBLE_EQ(metrics[1]["lr"], 0.2);
  EXPECT_DOUBLE_EQ(metrics[2]["lr"], 0.2);
  EXPECT_DOUBLE_EQ(metrics[6]["lr"], 0.15);
  ASSERT_EQ(run("train --data 'train_*.bin' --lr 0.2 --steps 10 --quiet "
                "--schedule wsd --warmup 2 --min-lr 0.1 --metrics m.jsonl")
                .code,
            0);
  metrics = lines("m.jsonl");
  EXPECT_DOUBLE_EQ(metrics[0]["lr"], 0.1);
  EXPECT_DOUBLE_EQ(metrics[8]["lr"], 0.2);
  EXPECT_NEAR(metrics[9]["lr"], 0.15, 1e-15);
}

TEST_F(CommandLine, SkipsStepsThatAreNotFinite) {
  const std::string skip = train + "--on-nonfinite skip --metrics m.jsonl ";
  // Nothing changes at step 5: the weights after it are those after step 4.
  const std::string five = "train --data 'train_*.bin' --lr 0.1 --quiet "
                           "--checkpoint-dir ";
  ASSERT_EQ(run(five + "a --steps 4").code, 0);
  for (const char *what : {"NAN", "INFINITE"}) {
    const std::string bad = std::string("BLURT_MOCK_") + what + "_STEP=5";
    std::string name = std::string("b") + what;
    ASSERT_EQ(run(five + name + " --steps 5 --on-nonfinite skip", "", bad).code,
              0);
    for (const char *file : {"weights", "optimizer"})
      EXPECT_EQ(
          readFile(
              path("a/step-00000004/" + std::string(file) + ".safetensors")),
          readFile(path(name + "/step-00000005/" + file + ".safetensors")));
    Outcome skipped = run(skip + "--threads 1", "", bad);
    ASSERT_EQ(skipped.code, 0) << skipped.err;
    bool isNan = std::string(what) == "NAN";
    EXPECT_NE(skipped.err.find(isNan ? "note: step 4: the loss is nan; skipped"
                                     : "note: step 4: the gradient norm is "
                                       "inf; skipped"),
              std::string::npos)
        << skipped.err;
    EXPECT_NE(skipped.err.find("note: skipped 1 of 40 steps"),
              std::string::npos);
    std::vector<json> metrics = lines("m.jsonl");
    ASSERT_EQ(metrics.size(), 40u);
    EXPECT_EQ(metrics[4]["skipped"], true);
    EXPECT_EQ(metrics[4][isNan ? "loss" : "grad_norm"], nullptr);
    EXPECT_FALSE(metrics[3].contains("skipped"));
    EXPECT_FALSE(metrics[5].contains("skipped"));
    EXPECT_GT(metrics[39]["loss"], 0);
    Outcome stopped = run(train + "--save w.st", "", bad);
    EXPECT_EQ(stopped.code, 2);
    EXPECT_NE(stopped.err.find(isNan ? "error: step 4: the loss is nan"
                                     : "error: step 4: the gradient norm is "
                                       "inf"),
              std::string::npos)
        << stopped.err;
    EXPECT_FALSE(std::filesystem::exists(path("w.st")));
  }
  expectError(train + "--on-nonfinite ignore", 1,
              "--on-nonfinite: expected skip or stop, got 'ignore'");
  expectError(train + "--on-nonfinite skip", 1,
              "--on-nonfinite skip: this program applies every step", "-plain");
}

TEST_F(CommandLine, FindsWhatIsNotFinite) {
  const std::string debug = train + "--debug-nonfinite --on-nonfinite skip ";
  Outcome skipped =
      run(debug + "--save a.st", "-debug", "BLURT_MOCK_NAN_STEP=5");
  ASSERT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_NE(skipped.err.find("note: step 4: the loss is nan; the first value "
                             "that is not finite is of 'scatter at "
                             "mock.mlir:1': element 0 of 65536 is nan; "
                             "skipped"),
            std::string::npos)
      << skipped.err;
  // Looking changes nothing.
  ASSERT_EQ(run(train + "--on-nonfinite skip --save b.st", "-debug",
                "BLURT_MOCK_NAN_STEP=5")
                .code,
            0);
  EXPECT_EQ(readFile(path("a.st")), readFile(path("b.st")));
  Outcome stopped =
      run(train + "--debug-nonfinite", "-debug", "BLURT_MOCK_INFINITE_STEP=3");
  EXPECT_EQ(stopped.code, 2);
  EXPECT_NE(stopped.err.find("error: step 2: the gradient norm is inf; the "
                             "first value that is not finite is of 'norm at "
                             "mock.mlir:3': element 0 of 1 is inf"),
            std::string::npos)
      << stopped.err;
  stopped = run(train + "--debug-nonfinite --outlier-z 6 --outlier-window 9",
                "-debug", "BLURT_MOCK_HIGH_STEP=30");
  EXPECT_NE(stopped.err.find("; all values are finite"), std::string::npos)
      << stopped.err;
  expectError(train + "--debug-nonfinite", 1,
              "--debug-nonfinite: expected a program compiled with bt-compile "
              "--debug-nonfinite");
}

TEST_F(CommandLine, SkipsOutliers) {
  const std::string bad = "BLURT_MOCK_HIGH_STEP=30";
  const std::string flags =
      train + "--metrics m.jsonl --on-nonfinite skip --outlier-window 10 "
              "--outlier-z ";
  // The loss falls so fast that it is never far above the mean.
  Outcome none = run(flags + "6");
  ASSERT_EQ(none.code, 0) << none.err;
  EXPECT_EQ(none.err.find("skipped"), std::string::npos) << none.err;
  Outcome skipped = run(flags + "6", "", bad);
  ASSERT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_NE(skipped.err.find("note: step 29: the loss 5"), std::string::npos);
  EXPECT_NE(skipped.err.find("is an outlier: the limit by the 10 steps before "
                             "is "),
            std::string::npos)
      << skipped.err;
  std::vector<json> whole = lines("m.jsonl");
  EXPECT_EQ(whole[29]["skipped"], true);
  EXPECT_GT(whole[29]["loss"], 50);
  // Before there are ten steps, and with enough deviations, it counts.
  EXPECT_EQ(run(flags + "6", "", "BLURT_MOCK_HIGH_STEP=11").err.find("skipped"),
            std::string::npos);
  EXPECT_NE(run(flags + "6", "", "BLURT_MOCK_HIGH_STEP=12").err.find("skipped"),
            std::string::npos);
  EXPECT_EQ(run(flags + "1e9", "", bad).err.find("skipped"), std::string::npos);
  Outcome stopped = run(train + "--outlier-window 10 --outlier-z 6", "", bad);
  EXPECT_EQ(stopped.code, 2);
  EXPECT_NE(stopped.err.find("error: step 29: the loss 5"), std::string::npos);
  // A run that went on knows the steps before: of it and of the outlier's.
  for (const char *steps : {"25", "29", "30", "31"}) {
    const std::string part =
        "train --data 'train_*.bin' --lr 0.1 --metrics p.jsonl --on-nonfinite "
        "skip --outlier-window 10 --outlier-z 6 --resume --checkpoint-dir r" +
        std::string(steps) + " --steps ";
    ASSERT_EQ(run(part + steps, "", bad).code, 0);
    ASSERT_EQ(run(part + "40", "", bad).code, 0);
    std::vector<json> parts = lines("p.jsonl");
    ASSERT_EQ(parts.size(), 40u);
    for (size_t i = 0; i < 40; ++i)
      for (const char *key : {"loss", "grad_norm", "skipped"})
        EXPECT_EQ(parts[i].value(key, json()), whole[i].value(key, json()))
            << key << " at step " << i << ", stopped after " << steps;
  }
  expectError(train + "--outlier-z 0", 1,
              "--outlier-z: expected a number above 0, got 0");
  expectError(train + "--outlier-z nan", 1, "--outlier-z: expected a number");
  expectError(train + "--outlier-window 10", 1, "--outlier-z");
  expectError(train + "--outlier-z 3 --outlier-window 1", 1,
              "--outlier-window");
  expectError(train + "--outlier-z 3", 1,
              "--outlier-z: this program applies every step", "-plain");
}

TEST_F(CommandLine, Informs) {
  Outcome info = run("info --memory");
  EXPECT_EQ(info.code, 0) << info.err;
  for (const char *part :
       {"model         mock", "precision     fp32", "parameters    65554",
        "plan hash     00c0ffee", "train: batch 2, seq 8, 2 microbatches",
        "vocab_size = 256", "state       786688 bytes", "entry 'train': peak",
        "allocator: "})
    EXPECT_NE(info.out.find(part), std::string::npos) << part << "\n"
                                                      << info.out;
  EXPECT_EQ(run("info").out.find("allocator"), std::string::npos);
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_NE(run("train --help").out.find("--val-every"), std::string::npos);
}

TEST_F(CommandLine, BadUseExitsWithOne) {
  expectError("", 1, "subcommand is required");
  expectError("fly", 1, "unknown command 'fly'");
  expectError("train", 1, "--data is required");
  expectError(train + "--bogus 1", 1, "--bogus");
  expectError("train --data val.bin --lr 1 --steps x", 1, "--steps");
  expectError("train --data val.bin --lr 1 --steps -1", 1, "--steps");
  expectError(train + "--threads 0", 1, "--threads");
  expectError(train + "--schedule square", 1, "square");
  expectError("train --data val.bin --steps 1 --lr nan", 1,
              "--lr: expected a number from 0");
  expectError(train + "--beta1 1", 1, "--beta1: expected a number from 0");
  expectError(train + "--min-lr 0.1", 1, "--min-lr: needs --schedule");
  expectError(train + "--schedule cosine --decay-steps 3", 1,
              "--decay-steps: needs --schedule wsd");
  expectError(train + "--schedule wsd --warmup 30 --decay-steps 11", 1,
              "--decay-steps: expected at most the 10 steps after warm-up, "
              "got 11");
  expectError(train + "--val-every 2", 1, "--val-every: needs --val");
  expectError(train + "--momentum 0.9", 1,
              "--momentum: this program (optimizer adamw) does not read");
  expectError(train + "--clip 1", 1, "--clip: this program", "-plain");
  for (const char *flag : {"--timeout 3", "--devices 2"})
    expectError(train + flag, 1, "needs a program for several devices");
  expectError(train + "--tune f.json", 1, "--tune: not needed for target cpu");
  expectError("tune -o f.json", 1, "tune: not needed for target cpu");
}

TEST_F(CommandLine, BadInputExitsWithOne) {
  expectError("train --data 'none_*.bin' --lr 1 --steps 1", 1,
              "--data: no file matches 'none_*.bin'");
  expectError(train + "--val none.bin", 1, "--val: no file matches 'none.bin'");
  expectError(train + "--init none.st", 1, "none.st: cannot open");
  expectError("eval --data val.bin --weights val.bin", 1, "val.bin: ");
  expectError("eval --data val.bin --weights val.bin --val-batches 0", 1,
              "--val-batches");
  expectError("eval --data out.txt --weights val.bin", 1,
              "out.txt: expected a "
              "token file");
  writeFile(path("small.bin"), shard16({1, 2, 3}));
  expectError(
      "train --data small.bin --lr 1 --steps 1", 1,
      "--data: expected at least 33 tokens for one batch of 4 sequences "
      "of 8, got 3");
  writeFile(path("ids.bin"), shard16(std::vector<uint16_t>(100, 300)));
  expectError("train --data ids.bin --lr 1 --steps 1", 1,
              "ids.bin: token 0: expected an id below the vocabulary size 256, "
              "got 300");
  expectError(
      train, 1,
      "this model's inputs (left, right) need a data format that train does "
      "not read yet",
      "-pairs");
  expectError(train + "--labels l.idx", 1,
              "--labels: this model reads tokens, which have no labels");
  expectError("eval --weights w.st", 1, "eval: expected --data or --hellaswag");
  expectError("eval --weights w.st --hellaswag h.bin --data val.bin", 1,
              "--hellaswag");
  writeFile(path("h.bin"), shardHeader(20240522, 1, 1));
  expectError("eval --weights w.st --hellaswag h.bin", 1,
              "h.bin: example 0: the file is truncated");
  expectError(train, 1,
              "entry 'train': scalar 'rho' is not one that train knows",
              "-bad-scalar");
}

TEST_F(CommandLine, UnwritableOutputsAreFoundBeforeTraining) {
  std::filesystem::create_directory(path("folder"));
  for (const char *flag : {"--save", "--metrics", "--dump-grads"}) {
    Outcome missing = run(train + flag + " no/such/file");
    EXPECT_EQ(missing.code, 1);
    EXPECT_NE(missing.err.find(std::string(flag) +
                               ": no/such/file: cannot write: "
                               "No such file"),
              std::string::npos)
        << missing.err;
    EXPECT_EQ(missing.err.find("step"), std::string::npos) << missing.err;
    expectError(train + flag + " folder", 1, "expected a file, got a folder");
  }
  expectError(train + "--save /dev/null", 1, "expected a regular file");
  // A full device: the metrics file opens and then fails, and nothing is saved.
  if (std::filesystem::exists("/dev/full")) {
    std::filesystem::create_symlink("/dev/full", path("full.jsonl"));
    expectError(train + "--metrics full.jsonl --save w.st", 2,
                "full.jsonl: cannot write: No space left on device");
    EXPECT_FALSE(std::filesystem::exists(path("w.st")));
    Outcome info = run("info >/dev/full; exit $?;");
    EXPECT_EQ(info.code, 2);
  }
}

TEST_F(CommandLine, RunTimeFailuresExitWithTwo) {
  expectError("train --data 'train_*.bin' --lr 1e38 --steps 5 --save w.st", 2,
              "step 2: the loss is ");
  EXPECT_FALSE(std::filesystem::exists(path("w.st")));
  expectError(train, 2,
              "out of host memory: the arena of 'mock' (the plan of entry "
              "'train' needs 1024.00 TiB, state 768.25 KiB of it) asks for "
              "1024.00 TiB, free are ",
              "-huge");
}

TEST_F(CommandLine, DebugBuildsCheckMemory) {
  Outcome good = run(train + "--val val.bin --val-every 10", "-debug");
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_NE(good.err.find("note: memory check passed"), std::string::npos);
  expectError(train, 2, "memory check: op 'again' operand 1: reads offset ",
              "-use-retired");
}

TEST_F(CommandLine, ShowsUtilisationOfAKnownPeak) {
  Outcome trained = run(train + "--peak-tflops 1e-3");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_TRUE(std::regex_search(
      trained.err, std::regex("tokens/s  MFU [0-9.]+%  [0-9.]+ MiB\n")))
      << trained.err;
  expectError(train + "--peak-tflops -1", 1,
              "--peak-tflops: expected a number from 0");
}

TEST_F(CommandLine, TakesOptionsFromAFile) {
  writeFile(path("run.toml"), "# A run.\ndata = 'train_*.bin'\nsteps = 4\n"
                              "lr = 1e-1\nmetrics = \"m.jsonl\"\n"
                              "shuffle = true\nseed = 3\nsave = 'w.st'\n"
                              "resume = false\nwarmup = 2\n"
                              "on-nonfinite = 'skip'\noutlier-z = 40\n"
                              "outlier-window = 2\n");
  ASSERT_EQ(run("train --config run.toml --quiet").code, 0);
  std::string weights = readFile(path("w.st"));
  EXPECT_EQ(lines("m.jsonl").size(), 4u);
  ASSERT_EQ(
      run("train --data 'train_*.bin' --steps 4 --lr 0.1 --metrics n.jsonl "
          "--shuffle --seed 3 --save v.st --warmup 2 --on-nonfinite skip "
          "--outlier-z 40 --outlier-window 2")
          .code,
      0);
  EXPECT_EQ(readFile(path("v.st")), weights);
  // What was in effect is beside the metrics, and says the same again.
  std::string written = readFile(path("m.config.toml"));
  for (const std::string part :
       {"steps = 4\n", "lr = 0.1\n", "data = 'train_*.bin'\n",
        "shuffle = true\n", "beta1 = 0.9\n", "eps = 1e-08\n",
        "on-nonfinite = 'skip'\n", "outlier-z = 40\n", "outlier-window = 2\n"})
    EXPECT_NE(written.find(part), std::string::npos) << part << written;
  writeFile(path("again.toml"), written);
  ASSERT_EQ(run("train --config again.toml --save again.st").code, 0);
  EXPECT_EQ(readFile(path("again.st")), weights);
  EXPECT_EQ(readFile(path("m.config.toml")).find("save = 'w.st'"),
            std::string::npos);
  // The command line wins, over flags too.
  ASSERT_EQ(run("train --config=run.toml --steps=2 --shuffle=false "
                "--checkpoint-dir c")
                .code,
            0);
  EXPECT_EQ(lines("m.jsonl").size(), 2u);
  written = readFile(path("c/config.toml"));
  for (const std::string part : {"steps = 2\n", "shuffle = false\n",
                                 "checkpoint-dir = 'c'\n", "keep = 2\n"})
    EXPECT_NE(written.find(part), std::string::npos) << part << written;
}

TEST_F(CommandLine, RefusesABadConfiguration) {
  auto refused = [&](const std::string &text, const std::string &part) {
    writeFile(path("bad.toml"), "data = 'val.bin'\nlr = 1\n" + text);
    expectError("train --config bad.toml", 1, "error: bad.toml:" + part);
  };
  refused("stepss = 3\n",
          "3: unknown key 'stepss': expected an option of train");
  refused("config = 'x'\n", "3: unknown key 'config'");
  refused("help = true\n", "3: unknown key 'help'");
  refused("steps = -1\n", "3: steps: --steps: expected a whole number from 0");
  refused("steps = 1.5\n", "3: steps: --steps: expected a whole number");
  refused("\n\nsteps = true\n", "5: steps: expected a string or a number, got "
                                "boolean");
  refused("steps = [1]\n",
          "3: steps: expected a string or a number, got array");
  refused("[steps]\n", "3: expected a key and a value, got a table");
  refused("shuffle = 1\n", "3: shuffle: expected true or false, got integer");
  refused("schedule = 'up'\n", "3: schedule: --schedule: expected constant");
  refused("on-nonfinite = 'jump'\n",
          "3: on-nonfinite: --on-nonfinite: expected skip or stop, got 'jump'");
  refused("metrics = ''\n", "3: metrics: expected a value, got ''");
  refused("lr = 2\n", "3: key 'lr' appears twice");
  refused("steps = \n", "3: ");
  refused("steps = 'x\n", "3: ");
  expectError("train --config none.toml", 1, "none.toml: cannot open");
  writeFile(path("bad.toml"), "data = 'val.bin'\n");
  expectError("train --config bad.toml", 1, " is required");
  expectError("train --config", 1, "--config");
}
