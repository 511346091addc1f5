//===- Train.cpp - The command `train` ------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Progress.h"
#include "blurt/Error.h"
#include "blurt/Weights.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

using namespace blurt;

namespace {

SafetensorsMetadata fileMetadata(const blurt_program &program) {
  return {{"format", "pt"},
          {"model", program.name},
          {"plan_hash", program.plan_hash}};
}

class Trainer {
public:
  Trainer(const blurt_program &program, const TrainOptions &options)
      : options(options), program(program),
        entry(requireEntry(program, "train", "train")),
        inputs(requireTokenInputs(program, entry, "train")),
        loss(requireNumber(entry, "loss")) {
    if (findTensor(entry, BLURT_OUTPUT, "grad_norm"))
      gradNorm = &requireNumber(entry, "grad_norm");
    checkScalars();
    checkOutputs();
    stream.emplace("--data", options.data,
                   findMetadataInt(program, "vocab_size").value_or(0));
    reader.emplace("--data", *stream, inputs.rows, inputs.length);
    if (options.shuffle)
      reader->shuffle(uint64_t(options.seed));
    session.emplace(program, resolveThreadCount(options.threads));
    if (!options.val.empty())
      validation.emplace(*session, requireEntry(program, "eval", "--val"),
                         "--val", options.val, options.valBatches, "--val");
    if (options.init.empty())
      initialiseParameters(program, uint64_t(options.seed), session->arena(),
                           session->pool());
    else
      loadParameters(options.init, program, session->arena(), session->pool());
  }

  void run() {
    Progress progress(options.steps, options.quiet);
    for (int64_t step = 0; step < options.steps; ++step) {
      if (options.valEvery > 0 && step % options.valEvery == 0)
        validate(step, progress);
      auto start = std::chrono::steady_clock::now();
      Result result = runStep(step);
      std::chrono::duration<double> took =
          std::chrono::steady_clock::now() - start;
      record(step, result, took.count());
      if (step == 0 && !options.dumpGrads.empty())
        saveTensors(options.dumpGrads,
                    instances(tensorsOf(entry), BLURT_GRADIENT),
                    session->arena(), fileMetadata(program));
      progress.step(step, result.loss, tokensPerStep(), took.count());
    }
    validate(options.steps, progress);
    progress.finish();
    if (!options.metrics.empty())
      openMetrics();
    if (!options.save.empty())
      saveTensors(options.save, instances(stateOf(program), BLURT_PARAM),
                  session->arena(), fileMetadata(program));
    reportMemoryCheck(*session);
  }

private:
  struct Result {
    double loss;
    double gradNorm; ///< meaningful if the program has that output
    double rate;
  };

  int64_t tokensPerStep() const { return inputs.rows * inputs.length; }

  /// Every scalar that the entry reads must be known, and every optimizer flag
  /// given must be read.
  void checkScalars() const {
    for (const blurt_tensor &t : tensorsOf(entry)) {
      static const std::set<std::string_view> known = {
          "lr",       "beta1", "beta2", "eps", "weight_decay",
          "momentum", "clip",  "step",  "seed"};
      if (t.role == BLURT_SCALAR && !known.count(t.name))
        throw badInput(std::string("entry 'train': scalar '") + t.name +
                       "' is not one that train knows");
    }
    for (const std::string &name : options.given)
      if (!findTensor(entry, BLURT_SCALAR, name)) {
        std::string flag = name;
        std::replace(flag.begin(), flag.end(), '_', '-');
        throw badInput("--" + flag + ": this program (optimizer " +
                       program.optimizer + ") does not read '" + name + "'");
      }
  }

  /// Finds out before the first step what could only fail after the last.
  void checkOutputs() const {
    std::vector<TensorInstance> gradients =
        instances(tensorsOf(entry), BLURT_GRADIENT);
    if (!options.dumpGrads.empty()) {
      if (gradients.empty())
        throw badInput("--dump-grads: this program was compiled without "
                       "gradient outputs");
      checkWritable("--dump-grads", options.dumpGrads, savedBytes(gradients));
    }
    if (!options.save.empty())
      checkWritable("--save", options.save,
                    savedBytes(instances(stateOf(program), BLURT_PARAM)));
    if (!options.metrics.empty())
      checkWritable("--metrics", options.metrics, uint64_t(options.steps) * 128,
                    /*device=*/true);
  }

  Result runStep(int64_t step) {
    double rate = options.schedule.rate(step);
    reader->read(
        uint64_t(step),
        reinterpret_cast<int32_t *>(session->address(*inputs.tokens)),
        reinterpret_cast<int32_t *>(session->address(*inputs.targets)));
    auto set = [&](const char *name, auto value) {
      if (const blurt_tensor *t = findTensor(entry, BLURT_SCALAR, name))
        session->writeScalar(*t, value);
    };
    set("lr", rate);
    set("beta1", options.beta1);
    set("beta2", options.beta2);
    set("eps", options.eps);
    set("weight_decay", options.weightDecay);
    set("momentum", options.momentum);
    set("clip", options.clip);
    set("step", step + 1);
    set("seed", options.seed);
    session->run(entry);
    Result result{session->readElement(loss),
                  gradNorm ? session->readElement(*gradNorm) : 0, rate};
    if (!std::isfinite(result.loss))
      throw failure("step " + std::to_string(step) + ": the loss is " +
                    std::to_string(result.loss));
    if (!std::isfinite(result.gradNorm))
      throw failure("step " + std::to_string(step) + ": the gradient norm is " +
                    std::to_string(result.gradNorm));
    return result;
  }

  /// The file of an earlier run stays until there is something to write.
  LineFile &openMetrics() {
    if (!metrics)
      metrics.emplace(options.metrics, /*keep=*/false);
    return *metrics;
  }

  void record(int64_t step, const Result &result, double seconds) {
    if (options.metrics.empty())
      return;
    nlohmann::ordered_json line;
    line["step"] = step;
    line["loss"] = result.loss;
    if (gradNorm)
      line["grad_norm"] = result.gradNorm;
    line["lr"] = result.rate;
    line["tokens"] = (step + 1) * tokensPerStep();
    line["step_ms"] = seconds * 1e3;
    line["tokens_per_s"] = double(tokensPerStep()) / seconds;
    openMetrics().append(line.dump());
  }

  void validate(int64_t step, Progress &progress) {
    if (!validation)
      return;
    double value = validation->meanLoss();
    if (!options.metrics.empty()) {
      nlohmann::ordered_json line;
      line["step"] = step;
      line["val_loss"] = value;
      openMetrics().append(line.dump());
    }
    progress.validation(step, value);
  }

  const TrainOptions &options;
  const blurt_program &program;
  const blurt_entry &entry;
  TokenInputs inputs;
  const blurt_tensor &loss;
  const blurt_tensor *gradNorm = nullptr;
  std::optional<TokenStream> stream;
  std::optional<BatchReader> reader;
  std::optional<Session> session;
  std::optional<Evaluator> validation;
  std::optional<LineFile> metrics;
};

} // namespace

void blurt::runTrain(const blurt_program &program,
                     const TrainOptions &options) {
  Trainer(program, options).run();
}
