//===- FuzzReader.cpp - Any bytes to a reader of the runtime --------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Built once for each reader, which READER names. A reader takes the file or
// throws Error. Anything else ends the program: another exception, a crash, a
// time-out, or one allocation of more than kFactor times the file: what a
// header claims must not decide how much is allocated.
//
//===----------------------------------------------------------------------===//

#include "Config.h"
#include "Metrics.h"
#include "blurt/Checkpoint.h"
#include "blurt/Error.h"
#include "blurt/Safetensors.h"
#include "blurt/ThreadPool.h"
#include "blurt/TokenShards.h"
#include "blurt/Vocabulary.h"
#include "blurt/Weights.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sanitizer/allocator_interface.h>
#include <string>
#include <unistd.h>
#include <vector>

using namespace blurt;

namespace {

/// A parsed value or a token of a byte or two takes this many in memory.
constexpr size_t kFactor = 64, kSlack = 1 << 20;
size_t allowed = 0; ///< bytes an allocation may have, 0 for any number

void onAllocation(const volatile void *, size_t bytes) {
  if (allowed && bytes > allowed) {
    std::fprintf(stderr, "allocation of %zu bytes, allowed are %zu\n", bytes,
                 allowed);
    std::abort();
  }
}

[[maybe_unused]] void read_shard(const std::string &path) {
  TokenStream stream("--data", path, 50'257);
  stream.digest();
  std::vector<int32_t> tokens(64);
  stream.read(stream.size() - 1, tokens.size(), tokens.data());
  stream.prefetch(0, stream.size());
}

[[maybe_unused]] void read_safetensors(const std::string &path) {
  SafetensorsFile file(path);
  for (const auto &[name, entry] : file.entries())
    for (uint64_t i = entry.begin; i < entry.end; i += 64)
      if (file.data(entry)[i - entry.begin] == std::byte(1))
        typeString(entry);
}

[[maybe_unused]] void read_manifest(const std::string &path) {
  Checkpoint checkpoint(path.substr(0, path.rfind('/')));
  checkpoint.verifyWeights();
}

[[maybe_unused]] void read_tokenizer(const std::string &path) {
  Vocabulary::fromFile(path, 0).encode("abab");
}

[[maybe_unused]] void read_metrics(const std::string &path) {
  dropMetricsFrom(path, 1);
}

[[maybe_unused]] void read_options(const std::string &path) {
  CLI::App app;
  CLI::App *train = app.add_subcommand("train");
  int64_t steps = 0;
  double rate = 0;
  std::string name;
  bool quiet = false;
  train->add_option("--steps", steps);
  train->add_option("--lr", rate);
  train->add_option("--name", name);
  train->add_flag("--quiet", quiet);
  std::string words[] = {"program", "train", "--config", path};
  char *arguments[] = {words[0].data(), words[1].data(), words[2].data(),
                       words[3].data()};
  readConfig(*train, 4, arguments);
  writtenConfig(*train);
}

[[maybe_unused]] void read_weights(const std::string &path) {
  static const int64_t matrix[] = {2, 2}, vector[] = {3};
  static const blurt_tensor state[] = {{"wte", "wte.weight", BLURT_PARAM,
                                        BLURT_F32, 2, 1, matrix, 0, 0, 0, 0, 0,
                                        0, 0, 0},
                                       {"v", "v", BLURT_PARAM, BLURT_F32, 1, 0,
                                        vector, 16, 0, 0, 0, 0, 0, 0, 0}};
  static ThreadPool pool(1);
  blurt_program program = {};
  program.name = "test";
  program.state = state;
  program.num_state = 2;
  program.state_bytes = 28;
  std::vector<std::byte> arena(28);
  loadParameters(path, program, Arena(arena.data()), pool);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::string path = [] {
    char folder[] = "/tmp/blurt-fuzz-XXXXXX";
    if (!::mkdtemp(folder))
      std::abort();
    __sanitizer_install_malloc_and_free_hooks(onAllocation,
                                              [](const volatile void *) {});
    return std::string(folder) + "/manifest.json";
  }();
  int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0 || ::write(file, data, size) != ssize_t(size))
    std::abort();
  ::close(file);
  allowed = kFactor * size + kSlack;
  try {
    READER(path);
  } catch (const Error &) {
  }
  allowed = 0;
  return 0;
}
