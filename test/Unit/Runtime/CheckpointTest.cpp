//===- CheckpointTest.cpp - Checkpoints, faults, and going on -------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Checkpoint.h"
#include "CommandLine.h"
#include "blurt/Hash.h"
#include "blurt/Safetensors.h"

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <random>
#include <set>
#include <sys/file.h>
#include <unistd.h>

using namespace blurt;
using namespace blurt::test;

TEST(Xxh64, PublishedValues) {
  auto hash = [](const std::string &text) {
    return hexString(xxh64(text.data(), text.size()));
  };
  EXPECT_EQ(hash(""), "ef46db3751d8e999");
  EXPECT_EQ(hash("a"), "d24ec4f1a98c6e5b");
  EXPECT_EQ(hash("abc"), "44bc2cf5ad770999");
  EXPECT_EQ(hash("Nobody inspects the spammish repetition"),
            "fbcea83c8a378bf1");
}

namespace {

class Checkpoints : public CommandLine {
protected:
  /// The command line without --steps, which tests vary.
  const std::string base =
      "train --data 'train_*.bin' --lr 0.1 --quiet --metrics m.jsonl "
      "--save w.st --val val.bin --val-every 3 --checkpoint-dir c ";

  virtual Outcome program(const std::string &arguments,
                          const std::string &before = "") {
    return run(arguments, "", before);
  }

  std::set<std::string> names(const std::string &name = "c") {
    std::set<std::string> found;
    for (auto &entry : std::filesystem::directory_iterator(path(name)))
      found.insert(entry.path().filename());
    found.erase("config.toml");
    return found;
  }

  /// Metrics without what differs from run to run.
  std::vector<json> metrics(const std::string &name = "m.jsonl") {
    std::vector<json> found = lines(name);
    for (json &line : found)
      for (const char *key :
           {"step_ms", "tokens_per_s", "device", "arena_bytes",
            "allocated_bytes", "pinned_bytes", "device_bytes",
            "device_bytes_at_start", "reserves"})
        line.erase(key);
    return found;
  }

  /// A run of `steps` steps without a stop.
  void makeReference(int steps, const std::string &more = "") {
    Outcome whole = program("train --data 'train_*.bin' --lr 0.1 --quiet "
                            "--metrics whole.jsonl --save whole.st --val "
                            "val.bin --val-every 3 --steps " +
                            std::to_string(steps) + " " + more);
    ASSERT_EQ(whole.code, 0) << whole.err;
  }
  void expectReference() {
    EXPECT_EQ(metrics(), metrics("whole.jsonl"));
    EXPECT_EQ(readFile(path("w.st")), readFile(path("whole.st")));
  }

  void expectFault(const std::string &spec, const std::string &part) {
    std::filesystem::remove_all(path("c"));
    ASSERT_EQ(program(base + "--steps 3").code, 0);
    std::string before = readFile(path("c/step-00000003/manifest.json"));
    Outcome failed = program(base + "--steps 6 --resume", faults(spec));
    EXPECT_EQ(failed.code, 2) << spec << failed.err;
    EXPECT_NE(failed.err.find(part), std::string::npos)
        << spec << "\ngot: " << failed.err << "\nexpected: " << part;
    EXPECT_EQ(names(), std::set<std::string>{"step-00000003"}) << spec;
    EXPECT_EQ(readFile(path("c/step-00000003/manifest.json")), before);
    Outcome resumed = program(base + "--steps 6 --resume");
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    expectReference();
  }

  std::string faults(const std::string &spec) {
    return "FAULT_IO_PATH=unfinished- LD_PRELOAD='" BLURT_FAULT_IO
           "' FAULT_IO=" +
           spec + " ";
  }
};

class CudaCheckpoints : public Checkpoints {
protected:
  Outcome program(const std::string &arguments,
                  const std::string &before) override {
    return run(arguments, "-cuda",
               "BLURT_LIBCUDA='" BLURT_FAKE_CUDA
               "' BLURT_CUBLASLT='" BLURT_FAKE_CUDA "' " +
                   before);
  }
};

} // namespace

TEST_F(Checkpoints, GoesOnWithTheSameBits) {
  for (const std::string more : {"", "--shuffle --seed 7 "}) {
    makeReference(12, more);
    for (int stop : {1, 3, 7, 12}) {
      std::filesystem::remove_all(path("c"));
      std::string first = base + more + "--steps " + std::to_string(stop);
      ASSERT_EQ(program(first).code, 0);
      EXPECT_EQ(program(base + more + "--steps 12 --resume").code, 0);
      expectReference();
    }
  }
}

TEST_F(CudaCheckpoints, GoesOnWithTheSameBits) {
  makeReference(12);
  for (int stop : {1, 7}) {
    std::filesystem::remove_all(path("c"));
    ASSERT_EQ(program(base + "--steps " + std::to_string(stop), "").code, 0);
    Outcome resumed = program(base + "--steps 12 --resume", "");
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    expectReference();
  }
  // A checkpoint of one target starts a program of another.
  ASSERT_EQ(run(base + "--steps 14 --resume").code, 0);
}

TEST_F(Checkpoints, KeepsTheNewest) {
  ASSERT_EQ(program(base + "--steps 7 --checkpoint-every 2").code, 0);
  EXPECT_EQ(names(), (std::set<std::string>{"step-00000006", "step-00000007"}));
  ASSERT_EQ(
      program(base + "--steps 9 --checkpoint-every 1 --resume --keep 0").code,
      0);
  EXPECT_EQ(names().size(), 4u);
  ASSERT_EQ(program(base + "--steps 10 --resume --keep 1").code, 0);
  EXPECT_EQ(names(), std::set<std::string>{"step-00000010"});
}

TEST_F(Checkpoints, RemovesWhatAKillLeft) {
  std::filesystem::create_directories(path("c/unfinished-step-00000001"));
  for (const char *name : {"c/config.toml.tmp.1", "c/notes.tmp.1",
                           "c/unfinished-step-00000001/weights.safetensors"})
    std::ofstream(path(name)) << "x";
  ASSERT_EQ(program(base + "--steps 2").code, 0);
  EXPECT_EQ(names(), (std::set<std::string>{"notes.tmp.1", "step-00000002"}));
}

TEST_F(Checkpoints, HoldsWhatItSays) {
  ASSERT_EQ(program(base + "--steps 4 --seed 5").code, 0);
  json manifest = json::parse(readFile(path("c/step-00000004/manifest.json")));
  EXPECT_EQ(manifest["step"], 4);
  EXPECT_EQ(manifest["tokens"], 4 * 32);
  EXPECT_EQ(manifest["data"]["position"], 4 * 32);
  EXPECT_EQ(manifest["random"]["seed"], 5);
  EXPECT_EQ(manifest["program"]["model"], "mock");
  EXPECT_EQ(manifest["flags"]["lr"], "0.1");
  SafetensorsFile weights(path("c/step-00000004/weights.safetensors")),
      moments(path("c/step-00000004/optimizer.safetensors"));
  EXPECT_EQ(readFile(weights.path()), readFile(path("w.st")));
  EXPECT_EQ(weights.size(), 4u);
  EXPECT_EQ(typeString(*moments.find("moment2.wte.weight")), "F32[256, 256]");
  // The weights alone start another run.
  ASSERT_EQ(run("train --data val.bin --lr 0 --steps 0 --init-from c "
                "--save again.st")
                .code,
            0);
  EXPECT_EQ(readFile(path("again.st")), readFile(path("w.st")));
}

TEST_F(Checkpoints, StartsWhereThereIsNone) {
  makeReference(5);
  Outcome started =
      program("train --data 'train_*.bin' --lr 0.1 --metrics m.jsonl --save "
              "w.st --val val.bin --val-every 3 --checkpoint-dir c/d "
              "--steps 5 --resume");
  EXPECT_EQ(started.code, 0) << started.err;
  EXPECT_NE(started.err.find("note: --resume: no checkpoint in c/d, starting "
                             "from step 0"),
            std::string::npos);
  expectReference();
}

TEST_F(Checkpoints, RefusesWhatDoesNotFit) {
  ASSERT_EQ(program(base + "--steps 4").code, 0);
  expectError(base + "--steps 8", 1,
              "--checkpoint-dir: expected a folder without checkpoints, found "
              "c/step-00000004; --resume goes on from it");
  expectError(base + "--steps 3 --resume", 1,
              "--steps: expected at least the 4 steps of c/step-00000004, got "
              "3");
  expectError(base + "--steps 8 --resume --seed 2", 1,
              "--seed: expected the seed 1 of c/step-00000004, got 2");
  expectError(base + "--steps 8 --resume --shuffle", 1,
              "--shuffle: expected data in the order of");
  const std::string other =
      "train --data val.bin --lr 1 --steps 8 --checkpoint-dir c --resume ";
  expectError(other, 1, "--data: expected the data of c/step-00000004");
  EXPECT_EQ(run(other + "--new-data --quiet").code, 0);
  // Given again, it does not start the data again.
  EXPECT_EQ(Checkpoint(path("c/step-00000008")).state().position, 4u * 32u);
  EXPECT_EQ(run("train --data val.bin --lr 1 --steps 9 --checkpoint-dir c "
                "--resume --new-data --quiet")
                .code,
            0);
  EXPECT_EQ(Checkpoint(path("c/step-00000009")).state().position, 5u * 32u);
  expectError(base + "--steps 10 --resume", 1,
              "c/step-00000009: expected the optimizer 'sgd' of this program, "
              "got 'adamw'",
              "-sgd");
  expectError(train + "--checkpoint-every 5", 1, "--checkpoint-dir");
  expectError(train + "--resume", 1, "--checkpoint-dir");
  expectError(train + "--checkpoint-dir val.bin", 1,
              "--checkpoint-dir: val.bin: cannot");
  expectError(train + "--init-from none", 1,
              "--init-from: none: expected a folder");
  int lock = ::open(path("c").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  expectError(base + "--steps 9 --resume", 1,
              "--checkpoint-dir: c: another run is using it");
  ::close(lock);
}

TEST_F(Checkpoints, DropsTheMetricsThatComeAgain) {
  makeReference(8);
  ASSERT_EQ(program(base + "--steps 5").code, 0);
  // Steps past the checkpoint, and a line that was cut short.
  std::string text = readFile(path("m.jsonl"));
  writeFile(path("m.jsonl"),
            text + R"({"step": 5, "loss": 1})" + "\n" + R"({"step": 6, "lo)");
  ASSERT_EQ(program(base + "--steps 8 --resume").code, 0);
  expectReference();
  writeFile(path("m.jsonl"), "{}\n");
  expectError(base + "--steps 9 --resume", 1,
              "--metrics: m.jsonl: line 1: expected an object with a step");
}

TEST_F(Checkpoints, FindsEveryFlippedBit) {
  ASSERT_EQ(program(base + "--steps 2").code, 0);
  for (const std::string file :
       {"manifest.json", "weights.safetensors", "optimizer.safetensors"}) {
    const std::string name = path("c/step-00000002/" + file);
    const std::string good = readFile(name);
    size_t stride = file == "manifest.json" ? 41 : good.size() / 9 + 1;
    for (size_t at = 0; at < good.size(); at += stride) {
      std::string bad = good;
      bad[at] = char(bad[at] ^ (1 << at % 8));
      writeFile(name, bad);
      Outcome outcome = program(base + "--steps 4 --resume");
      EXPECT_EQ(outcome.code, 1) << file << " byte " << at << outcome.err;
      EXPECT_NE(outcome.err.find(file), std::string::npos) << outcome.err;
    }
    writeFile(name, good);
  }
  const std::string name = path("c/step-00000002/weights.safetensors");
  std::string bad = readFile(name);
  bad.back() = char(bad.back() ^ 1);
  writeFile(name, bad);
  expectError(base + "--steps 4 --resume", 1,
              "c/step-00000002/weights.safetensors: tensor "
              "'h.3.scale.weight': damaged: expected the checksum ");
  expectError("train --data val.bin --lr 1 --steps 1 --init-from c", 1,
              "'h.3.scale.weight': damaged");
  writeFile(name, bad.substr(0, bad.size() - 5));
  expectError(base + "--steps 4 --resume", 1, "the file is truncated");
}

namespace {

/// A program without code, whose state can be saved.
class FlippedBits : public TestFolder {
protected:
  FlippedBits() {
    const std::pair<const char *, int32_t> roles[] = {
        {"w", BLURT_PARAM},   {"b", BLURT_PARAM},   {"w", BLURT_MOMENT1},
        {"b", BLURT_MOMENT1}, {"w", BLURT_MOMENT2}, {"b", BLURT_MOMENT2}};
    uint64_t offset = 0;
    for (auto [name, role] : roles) {
      bool matrix = *name == 'w';
      state.push_back({name, name, role, BLURT_F32, matrix ? 2 : 1, matrix,
                       extents, offset, 0, 0, 0, 0, 0, 0, 0, 0, 0, nullptr});
      offset += matrix ? 24 * 4 : 6 * 4;
    }
    program.abi_version = BLURT_ABI_VERSION;
    program.name = program.target = program.precision = program.optimizer =
        program.plan_hash = "test";
    program.state = state.data();
    program.num_state = int32_t(state.size());
    program.state_bytes = program.peak_bytes = offset;
    for (size_t i = 0; i < offset; ++i)
      bytes.push_back(std::byte(i * 37));
  }

  const int64_t extents[2] = {6, 4};
  std::vector<blurt_tensor> state;
  blurt_program program{};
  std::vector<std::byte> bytes;
};

} // namespace

TEST_F(FlippedBits, AreAllFound) {
  CheckpointState saved;
  saved.step = 7;
  saved.flags = {{"data", "train_*.bin"}, {"lr", "0.1"}};
  std::string folder = CheckpointFolder(path("c"), 1 << 20)
                           .save(program, saved, Arena(bytes.data()), 0);
  std::vector<std::string> files, good;
  uint64_t total = 0;
  for (auto &entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
    good.push_back(readFile(files.back()));
    total += good.back().size();
  }
  ASSERT_EQ(files.size(), 3u);
  std::vector<std::byte> into(bytes.size());
  auto load = [&] { Checkpoint(folder).restore(program, Arena(into.data())); };
  load();
  ASSERT_EQ(into, bytes);
  std::mt19937_64 random(1);
  int inTensors = 0;
  for (int flip = 0; flip < 10'000; ++flip) {
    uint64_t at = random() % total;
    size_t file = 0;
    while (at >= good[file].size())
      at -= good[file++].size();
    int descriptor = ::open(files[file].c_str(), O_WRONLY);
    char bad = char(good[file][at] ^ (1 << random() % 8));
    ASSERT_EQ(::pwrite(descriptor, &bad, 1, off_t(at)), 1);
    std::string name = std::filesystem::path(files[file]).filename();
    if (name != "manifest.json") {
      uint64_t header = 8;
      for (int i = 7; i >= 0; --i)
        header += uint64_t(uint8_t(good[file][size_t(i)])) << (8 * i);
      if (at >= header) {
        ++inTensors;
        bool moments = name == "optimizer.safetensors";
        // The matrix and then the vector, of each role.
        uint64_t place = (at - header) % 120;
        name = std::string("tensor '") +
               (!moments            ? ""
                : at - header < 120 ? "moment1."
                                    : "moment2.") +
               (place < 96 ? "w" : "b") + "': damaged";
      }
    }
    EXPECT_ERROR(load(), ExitBadInput, name);
    ASSERT_EQ(::pwrite(descriptor, &good[file][at], 1, off_t(at)), 1);
    ::close(descriptor);
  }
  EXPECT_GT(inTensors, 500);
  load();
}

TEST_F(Checkpoints, AFaultLeavesTheEarlierOne) {
  makeReference(6);
  const std::string files[] = {"weights.safetensors", "optimizer.safetensors",
                               "manifest.json"};
  expectFault("mkdir:1:28", "c/unfinished-step-00000006: cannot create: No "
                            "space left on device");
  // The first file that is opened there tries whether it can be.
  for (size_t i = 0; i < 3; ++i) {
    const std::string at = std::to_string(i + 1);
    const std::string name = "c/unfinished-step-00000006/" + files[i] + ": ";
    expectFault("open:" + std::to_string(i + 2) + ":28",
                name + "cannot write: No space left on device");
    expectFault("fsync:" + std::to_string(2 * i + 1) + ":5",
                name + "cannot sync: Input/output error");
    expectFault("rename:" + at + ":5", name + "cannot rename into place");
  }
  // The header and its length, then the tensors.
  expectFault("write:1:28", files[0] + ": cannot write: No space left");
  expectFault("write:4:short", files[0] + ": cannot write: No space left");
  expectFault("write:9:short", files[1] + ": cannot write: No space left");
  expectFault("write:11:short", files[2] + ": cannot write: No space left");
  expectFault("rename:4:5", "c/step-00000006: cannot rename into place");
}

TEST_F(Checkpoints, AFaultAtAnyCallIsNamedAndLosesNothing) {
  makeReference(6);
  ASSERT_EQ(program(base + "--steps 3 --keep 1").code, 0);
  std::filesystem::rename(path("c"), path("saved"));
  std::string metrics = readFile(path("m.jsonl"));
  int failures = 0;
  for (const std::string fault : {"28", "5", "short"})
    for (int call = 1;; ++call) {
      std::filesystem::remove_all(path("c"));
      std::filesystem::copy(path("saved"), path("c"),
                            std::filesystem::copy_options::recursive);
      writeFile(path("m.jsonl"), metrics);
      std::string spec = "any:" + std::to_string(call) + ":" + fault;
      std::filesystem::remove(path("calls"));
      Outcome failed = program(
          base + "--steps 6 --keep 1 --resume",
          "FAULT_IO_PATH=/c/ FAULT_IO_LOG='" + path("calls") +
              "' LD_PRELOAD='" BLURT_FAULT_IO "' FAULT_IO=" + spec + " ");
      std::string log = readFile(path("calls"));
      if (std::count(log.begin(), log.end(), '\n') < call) {
        EXPECT_EQ(failed.code, 0) << spec << failed.err;
        break;
      }
      // The folder is tried out before; that a close then fails is no matter.
      if (failed.code == 0) {
        EXPECT_TRUE(call == 1 || fault == "short") << spec;
        expectReference();
        continue;
      }
      ++failures;
      EXPECT_TRUE(failed.code == 1 || failed.code == 2) << spec << failed.err;
      EXPECT_NE(failed.err.find("c/"), std::string::npos) << spec << failed.err;
      EXPECT_TRUE(failed.err.find("Input/output error") != std::string::npos ||
                  failed.err.find("No space left") != std::string::npos)
          << spec << failed.err;
      // One of the two is there, complete.
      std::string left = path("c/step-00000003");
      if (!std::filesystem::exists(left))
        left = path("c/step-00000006");
      Checkpoint(left).verifyWeights();
      Outcome resumed = program(base + "--steps 6 --keep 1 --resume");
      ASSERT_EQ(resumed.code, 0) << spec << resumed.err;
      expectReference();
    }
  EXPECT_GT(failures, 60);
}

TEST_F(Checkpoints, AFaultEndsTheRunSoon) {
  Outcome failed = program(base + "--steps 1000000 --checkpoint-every 2",
                           faults("fsync:3:28"));
  EXPECT_EQ(failed.code, 2) << failed.err;
  EXPECT_NE(failed.err.find("optimizer.safetensors: cannot sync: No space"),
            std::string::npos)
      << failed.err;
  EXPECT_TRUE(names().empty());
  EXPECT_LT(int64_t(lines("m.jsonl").back()["step"]), 5);
}

TEST_F(Checkpoints, AKillAnywhereLosesNoCheckpoint) {
  makeReference(6);
  ASSERT_EQ(program(base + "--steps 3 --keep 1").code, 0);
  std::filesystem::rename(path("c"), path("saved"));
  int kills = 0;
  for (int call = 1;; ++call) {
    std::filesystem::remove_all(path("c"));
    std::filesystem::copy(path("saved"), path("c"),
                          std::filesystem::copy_options::recursive);
    Outcome outcome =
        program(base + "--steps 6 --keep 1 --resume 2>/dev/null; exit $?;",
                faults("any:" + std::to_string(call) + ":kill"));
    if (outcome.code == 0)
      break;
    ASSERT_EQ(outcome.code, 128 + SIGKILL) << outcome.err;
    ++kills;
    Outcome resumed = program(base + "--steps 6 --keep 1 --resume");
    ASSERT_EQ(resumed.code, 0) << "call " << call << "\n" << resumed.err;
    expectReference();
    // After the save but before the removal, the old one stays until the next.
    std::set<std::string> left = names();
    left.erase("step-00000003");
    EXPECT_EQ(left, std::set<std::string>{"step-00000006"}) << call;
  }
  EXPECT_GT(kills, 25);
}

TEST_F(Checkpoints, ASignalStopsAtTheEndOfAStep) {
  const std::pair<int, std::string> signals[] = {{SIGTERM, "SIGTERM"},
                                                 {SIGINT, "SIGINT"}};
  for (const auto &[signal, name] : signals) {
    std::filesystem::remove_all(path("c"));
    std::filesystem::remove(path("m.jsonl"));
    // Not by a shell, which starts background commands with SIGINT ignored.
    pid_t child = ::fork();
    if (child == 0) {
      bool ready = ::chdir(folder.c_str()) == 0 &&
                   std::freopen("err.txt", "w", stderr) != nullptr;
      if (ready)
        ::execl(BLURT_MOCK_FOLDER "/blurt-mock", "blurt-mock", "train",
                "--data", "train_*.bin", "--lr", "0.1", "--steps", "1000000",
                "--metrics", "m.jsonl", "--checkpoint-dir", "c", "--save",
                "late.st", nullptr);
      ::_exit(99);
    }
    // The first line is written after a step, so the run listens.
    for (int i = 0; i < 3000 && readFile(path("m.jsonl")).empty(); ++i)
      ::usleep(10'000);
    ASSERT_EQ(::kill(child, signal), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    std::string text = readFile(path("err.txt"));
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
    EXPECT_NE(text.find("note: stopped by " + name + " after "),
              std::string::npos)
        << text;
    EXPECT_FALSE(std::filesystem::exists(path("late.st")));
    ASSERT_EQ(names().size(), 1u);
    Checkpoint saved(path("c/" + *names().begin()));
    EXPECT_EQ(saved.state().step, int64_t(lines("m.jsonl").back()["step"]) + 1);
  }
}
