//===- Commands.h - Commands of a compiled program --------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Each command throws Error. Results go to stdout, progress and notes to
// stderr.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_DRIVER_COMMANDS_H
#define BLURT_LIB_DRIVER_COMMANDS_H

#include "Batches.h"
#include "blurt/Schedule.h"
#include "blurt/Session.h"
#include "blurt/World.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace blurt {

struct CommonOptions {
  int64_t threads = 0; ///< 0: chosen by resolveThreadCount
  int64_t device = -1; ///< negative: chosen by resolveDevice
  std::string tune;
  bool noGraph = false;
  bool quiet = false;
  double timeout = 60;
  int64_t devices = 0;    ///< ranks to start here; 0: they are started
  World *world = nullptr; ///< of a program for several devices

  bool leads() const { return !world || world->leads(); }
  SessionOptions session() const;
};

struct TrainOptions : CommonOptions {
  std::string data, labels, val, valLabels, init, initFrom, metrics, save,
      dumpGrads, profile;
  std::string checkpointDir;
  int64_t steps = 0, valEvery = 0, valBatches = 0;
  int64_t checkpointEvery = 0; ///< 0: at the end and when stopped
  int64_t keep = 2;            ///< checkpoints, 0 for all
  bool resume = false, newData = false;
  Schedule schedule;
  double weightDecay = 0.1, beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double momentum = 0, clip = 1.0;
  double peakTflops = 0; ///< 0: by the device's name
  bool skipNonfinite = false, debugNonfinite = false;
  double outlierZ = 0; ///< 0: no step is an outlier
  int64_t outlierWindow = 128;
  int64_t seed = 1;
  bool seedGiven = false;
  bool shuffle = false, kernelTimes = false;
  std::string written; ///< all of them, as a configuration
  /// Optimizer flags given on the command line, by the scalar each sets.
  std::set<std::string> given;
};

struct EvalOptions : CommonOptions {
  std::string data, labels, hellaswag, weights, metrics;
  int64_t batches = 0;
};

struct GenerateOptions : CommonOptions {
  std::string weights, prompt, promptTokens, vocabFile;
  bool hasPrompt = false;
  int64_t maxTokens = 256;
  double temperature = 1.0;
  int64_t seed = 1;
};

struct InfoOptions : CommonOptions {
  bool memory = false;
  std::string snapshot;
};

struct TuneOptions : CommonOptions {
  std::string output;
  int64_t repeat = 20;
  bool search = false;
};

struct CallOptions : CommonOptions {
  std::string entry, inputs, outputs;
  bool state = false;
};

void runTrain(const blurt_program &program, const TrainOptions &options);
void runEval(const blurt_program &program, const EvalOptions &options);
void runHellaSwag(const blurt_program &program, const EvalOptions &options);
void runGenerate(const blurt_program &program, const GenerateOptions &options);
void runInfo(const blurt_program &program, const InfoOptions &options);
void runCall(const blurt_program &program, const CallOptions &options);
void runTune(const blurt_program &program, const TuneOptions &options);

/// Writes the line of JSON of a result where --metrics asks for it, and then to
/// standard output too.
void writeResult(const EvalOptions &options, const std::string &line);

/// In a debug build, says on stderr what its memory check saw.
void reportMemoryCheck(Session &session);

/// Which rows of a batch are this rank's; all without other ranks.
Share shareOf(const World *world);

/// The output `name` of `entry`, one number. Throws Error if it is not there.
const blurt_tensor &requireNumber(const blurt_entry &entry,
                                  std::string_view name);

/// What data says of the weights.
struct Evaluation {
  double loss;
  std::optional<double> accuracy; ///< of a classifier
};

/// The mean loss of `batches` batches from the start of the data, 0 meaning all
/// whole batches of one pass; of a classifier also the share of images whose
/// label has the largest logit, 0 batches meaning all images.
class Evaluator {
public:
  Evaluator(Session &session, const blurt_entry &entry,
            const DataOptions &options, int64_t batches,
            std::string_view command);

  /// Throws Error (run-time failure) if the loss is not finite.
  Evaluation evaluate();
  uint64_t batchCount() const { return batches; }
  uint64_t unitCount() const { return batches * uint64_t(data->units()); }
  const char *unitName() const { return data->unitName(); }
  /// Tokens or images at the end that fill no whole batch.
  uint64_t skipped() const { return left; }

private:
  /// Images of the last call, up to `count`, that are what their labels say.
  uint64_t countCorrect(uint64_t window, uint64_t count);

  Session &session;
  World *world;
  const blurt_entry &entry;
  const blurt_tensor &loss;
  std::unique_ptr<Batches> data;
  const blurt_tensor *logits = nullptr; ///< of a classifier
  uint64_t batches, left = 0;
};

} // namespace blurt

#endif // BLURT_LIB_DRIVER_COMMANDS_H
