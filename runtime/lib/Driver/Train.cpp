//===- Train.cpp - The command `train` ------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Metrics.h"
#include "Outliers.h"
#include "Profile.h"
#include "Progress.h"
#include "blurt/Checkpoint.h"
#include "blurt/Error.h"
#include "blurt/File.h"
#include "blurt/Hash.h"
#include "blurt/Weights.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <sys/resource.h>

using namespace blurt;

namespace {

volatile std::sig_atomic_t stopSignal = 0;

/// While it lives, the first SIGINT or SIGTERM asks for a stop; another one of
/// the same kind ends the process as usual.
class StopSignals {
public:
  StopSignals() {
    stopSignal = 0;
    struct sigaction action = {};
    action.sa_handler = [](int signal) { stopSignal = signal; };
    action.sa_flags = SA_RESTART | int(SA_RESETHAND);
    for (size_t i = 0; i < 2; ++i)
      ::sigaction(kSignals[i], &action, &before[i]);
  }
  ~StopSignals() {
    for (size_t i = 0; i < 2; ++i)
      ::sigaction(kSignals[i], &before[i], nullptr);
  }
  StopSignals(const StopSignals &) = delete;
  StopSignals &operator=(const StopSignals &) = delete;

  static const char *raised() {
    return stopSignal == SIGINT    ? "SIGINT"
           : stopSignal == SIGTERM ? "SIGTERM"
                                   : nullptr;
  }

private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM};
  struct sigaction before[2];
};

class Trainer {
public:
  Trainer(const blurt_program &program, const TrainOptions &options)
      : options(options), program(program),
        entry(requireEntry(program, "train", "train")),
        loss(requireNumber(entry, "loss")),
        outliers(options.outlierZ, options.outlierWindow),
        isCut(hasCutState(program)), seed(options.seed) {
    if (findTensor(entry, BLURT_OUTPUT, "grad_norm"))
      gradNorm = &requireNumber(entry, "grad_norm");
    if (findTensor(entry, BLURT_OUTPUT, "applied"))
      applied = &requireNumber(entry, "applied");
    if (!applied && (options.skipNonfinite || options.outlierZ > 0))
      throw badInput(
          std::string(options.skipNonfinite ? "--on-nonfinite skip"
                                            : "--outlier-z") +
          ": this program applies every step, whatever its numbers are");
    if (options.debugNonfinite &&
        (!applied || !findMetadata(program, "debug_nonfinite")))
      throw badInput("--debug-nonfinite: expected a program compiled with "
                     "bt-compile --debug-nonfinite");
    checkScalars();
    checkOutputs();
    data = openBatches(program, entry,
                       {"--data", options.data, "--labels", options.labels},
                       "train", shareOf(options.world));
    openCheckpoints();
    if (options.shuffle)
      data->shuffle(uint64_t(seed));
    SessionOptions sessionOptions = options.session();
    sessionOptions.graphs &= !options.kernelTimes;
    session.emplace(program, sessionOptions);
    if (options.world && session->device())
      options.world->requireSame("file of --tune (its digest)",
                                 session->code()->tuneHash());
    // Late enough that caches and clocks have settled, if there is time.
    int64_t left = options.steps - firstStep;
    int64_t count = std::min<int64_t>(options.kernelTimes ? 1 : 3, left);
    int64_t late = options.kernelTimes ? 10 : 5;
    if (options.kernelTimes || !options.profile.empty())
      profile.emplace(*session, firstStep + std::min(late, left - count),
                      count);
    if (!options.val.empty())
      validation.emplace(
          *session, requireEntry(program, "eval", "--val"),
          DataOptions{"--val", options.val, "--val-labels", options.valLabels},
          options.valBatches, "--val");
    initialiseState();
  }

  void run() {
    StopSignals signals;
    Progress progress(options.steps, options.quiet, flopsPerToken(),
                      peakFlops(), [this] { return memoryInUse(); });
    if (resumed && !options.metrics.empty())
      dropMetricsFrom(options.metrics, firstStep);
    for (int64_t step = firstStep; step < options.steps; ++step) {
      if (options.valEvery > 0 && step % options.valEvery == 0) {
        retire(0, progress);
        validate(step, progress);
      }
      if (profile)
        profile->before(step);
      queueStep(step);
      if (profile)
        profile->after(step);
      bool first = step == firstStep && !options.dumpGrads.empty();
      const char *signal = step + 1 < options.steps ? stopAsked() : nullptr;
      bool due = options.checkpointEvery > 0 &&
                 (step + 1) % options.checkpointEvery == 0;
      // A step is looked through before the next one is there.
      bool wait = first || due || signal || options.debugNonfinite;
      retire(wait ? 0 : session->callsAhead(), progress);
      if (first)
        saveTensors(options.dumpGrads,
                    instances(tensorsOf(entry), BLURT_GRADIENT),
                    session->arena(), weightsMetadata(program), options.world);
      if (saving.valid() &&
          saving.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
        finishSaving();
      if (due || signal)
        saveCheckpoint(step + 1);
      if (signal)
        return stopped(signal, step + 1, progress);
    }
    retire(0, progress);
    saveCheckpoint(options.steps);
    validate(options.steps, progress);
    finishSaving();
    progress.finish();
    reportSkipped();
    if (!options.metrics.empty())
      openMetrics();
    if (!options.save.empty())
      saveTensors(options.save, instances(stateOf(program), BLURT_PARAM),
                  session->arena(), weightsMetadata(program), options.world);
    reportMemoryCheck(*session);
    reportDevice();
  }

private:
  using Clock = std::chrono::steady_clock;

  static bool hasCutState(const blurt_program &program) {
    return std::ranges::any_of(
        stateOf(program), [](const blurt_tensor &t) { return t.shards > 0; });
  }

  /// The signal that asks for a stop, the same on every rank: each may have it
  /// at another step.
  const char *stopAsked() {
    if (!options.world)
      return StopSignals::raised();
    const char *own = StopSignals::raised();
    uint64_t mine = !own ? 0 : std::string_view(own) == "SIGINT" ? 1 : 2;
    uint64_t asked = options.world->most(mine, "asking for a stop");
    return asked == 1 ? "SIGINT" : asked == 2 ? "SIGTERM" : nullptr;
  }

  /// A step that was queued and whose numbers were not read yet.
  struct Pending {
    int64_t step;
    uint64_t call;
    double rate;
    OutlierLimits::Limits limits;
    Clock::time_point start;
  };

  struct Result {
    double loss;
    double gradNorm; ///< meaningful if the program has that output
    double rate;
    double seconds;
    bool skipped;
    std::vector<uint64_t> counters; ///< by blurt_counter, since the start
  };

  /// Reads the numbers of queued steps until only `ahead` are left.
  void retire(size_t ahead, Progress &progress) {
    while (pending.size() > ahead) {
      Pending step = pending.front();
      pending.pop_front();
      Result result = readStep(step, progress);
      record(step.step, step.call, result);
      StepReport numbers{step.step,    result.loss,     result.rate,
                         std::nullopt, tokensPerStep(), result.seconds};
      if (gradNorm)
        numbers.gradNorm = result.gradNorm;
      progress.step(numbers);
    }
    // What comes next does not follow at once.
    if (ahead == 0)
      previousCall.reset();
  }

  /// Finds where to go on before anything is allocated.
  void openCheckpoints() {
    if (!options.initFrom.empty())
      initial = findCheckpoint("--init-from", options.initFrom);
    if (options.checkpointDir.empty())
      return;
    digest = data->digest();
    std::optional<std::string> newest;
    if (options.leads()) {
      checkpoints.emplace(options.checkpointDir, checkpointBytes(program));
      newest = checkpoints->newest();
    }
    if (options.world) {
      std::string path = options.world->fromLeader(
          newest.value_or(""), "finding the newest checkpoint");
      newest = path.empty() ? std::nullopt : std::optional(path);
    }
    if (newest && !options.resume)
      throw badInput("--checkpoint-dir: expected a folder without checkpoints, "
                     "found " +
                     *newest + "; --resume goes on from it");
    if (!newest) {
      if (options.resume)
        note("--resume: no checkpoint in " + options.checkpointDir +
             ", starting from step 0");
      return;
    }
    resumed.emplace(*newest);
    resumed->requireProgram(program);
    adopt(resumed->state());
  }

  void adopt(const CheckpointState &state) {
    const std::string where = " of " + resumed->path() + ", got ";
    firstStep = state.step;
    if (options.steps < firstStep)
      throw badInput("--steps: expected at least the " +
                     std::to_string(firstStep) + " steps" + where +
                     std::to_string(options.steps));
    if (options.seedGiven && options.seed != state.seed)
      throw badInput("--seed: expected the seed " + std::to_string(state.seed) +
                     where + std::to_string(options.seed));
    if (options.shuffle != state.shuffle)
      throw badInput("--shuffle: expected data in the order" + where +
                     (options.shuffle ? "one shuffled by the seed"
                                      : "the order of the shards"));
    seed = state.seed;
    tokensBefore = state.tokens;
    outliers.restore(state.history);
    bool sameData =
        state.dataTokens == data->size() && state.dataDigest == digest;
    if (!sameData && !options.newData)
      throw badInput("--data: expected the data" + where +
                     "other data; --new-data starts with it from its start");
    if (sameData)
      firstWindow = state.position / uint64_t(data->length());
    if (resumed->planHash() != program.plan_hash)
      note(resumed->path() +
           " is of a program with another plan: what follows can differ in "
           "rounding from what it would have computed");
    note("going on from " + resumed->path());
  }

  void note(const std::string &text) const {
    if (!options.quiet)
      std::fprintf(stderr, "note: %s\n", text.c_str());
  }

  void initialiseState() {
    if (resumed) {
      if (session->device() &&
          session->code()->tuneHash() != resumed->state().tuneHash)
        note(resumed->path() +
             " was trained with another --tune: what follows can differ in "
             "rounding from what it would have computed");
      return resumed->restore(program, session->arena(), options.world);
    }
    std::string weights = options.init;
    if (!initial.empty()) {
      Checkpoint from(initial);
      from.verifyWeights();
      weights = from.weights();
    }
    if (weights.empty())
      initialiseParameters(program, uint64_t(seed), session->arena(),
                           session->pool(), options.world);
    else
      loadParameters(weights, program, session->arena(), session->pool(),
                     options.world);
  }

  /// Copies the state and leaves writing it to another thread, unless it is cut
  /// among ranks. Every step before `step` has been retired.
  void saveCheckpoint(int64_t step) {
    if (options.checkpointDir.empty() || step == savedStep ||
        (resumed && step == firstStep))
      return;
    if (!checkpoints) {
      // Rank 0 writes; what it lacks it gets from the others.
      if (isCut)
        sendState(program, session->arena(), *options.world);
      savedStep = step;
      return;
    }
    finishSaving();
    if (savedStep < 0)
      checkpoints->saveConfig(options.written);
    if (metrics)
      metrics->sync();
    CheckpointState state;
    state.step = step;
    uint64_t done = uint64_t(step - firstStep);
    state.tokens = tokensBefore + done * uint64_t(tokensPerStep());
    state.position = (firstWindow + done * uint64_t(data->rows())) *
                     uint64_t(data->length());
    state.dataTokens = data->size();
    state.dataDigest = digest;
    state.shuffle = options.shuffle;
    state.seed = seed;
    state.history = outliers.history();
    if (session->device())
      state.tuneHash = session->code()->tuneHash();
    auto flag = [&](const char *name, const nlohmann::json &value) {
      state.flags.emplace_back(
          name, value.is_string() ? value.get<std::string>() : value.dump());
    };
    flag("data", options.data);
    flag("steps", options.steps);
    flag("batch_tokens", tokensPerStep());
    flag("lr", options.schedule.peak);
    flag("schedule", scheduleName(options.schedule.kind));
    flag("warmup", options.schedule.warmup);
    flag("decay_steps", options.schedule.decay);
    flag("min_lr", options.schedule.least);
    flag("weight_decay", options.weightDecay);
    flag("beta1", options.beta1);
    flag("beta2", options.beta2);
    flag("eps", options.eps);
    flag("momentum", options.momentum);
    flag("clip", options.clip);
    flag("on_nonfinite", options.skipNonfinite ? "skip" : "stop");
    flag("outlier_z", options.outlierZ);
    flag("outlier_window", options.outlierWindow);
    savedStep = step;
    // No rank has room for all pieces: each tensor goes to the file as soon as
    // it is together, and the others wait.
    if (isCut) {
      lastSaved = checkpoints->save(program, state, session->arena(),
                                    options.keep, options.world);
      return;
    }
    snapshot.resize(program.state_bytes);
    session->arena().read(0, snapshot.data(), snapshot.size());
    saving = std::async(std::launch::async, [this, state] {
      return checkpoints->save(program, state, Arena(snapshot.data()),
                               options.keep);
    });
  }

  /// Waits for the checkpoint that is being written, or fails as it did.
  void finishSaving() {
    if (saving.valid())
      lastSaved = saving.get();
  }

  void stopped(const char *signal, int64_t step, Progress &progress) {
    finishSaving();
    progress.finish();
    reportSkipped();
    note(std::string("stopped by ") + signal + " after " +
         std::to_string(step) + " of " + std::to_string(options.steps) +
         " steps" + (lastSaved.empty() ? "" : "; saved " + lastSaved));
  }

  /// Of products, forward and twice as many backward: what the compiler
  /// counted, or what the matrices of the parameters take.
  double flopsPerToken() const {
    if (std::optional<int64_t> ops = findMetadataInt(program, "product_ops"))
      return 3 * double(*ops) /
             double(entry.batch * std::max<int64_t>(entry.seq, 1));
    double elements = 0;
    for (const TensorInstance &t : instances(stateOf(program), BLURT_PARAM))
      if (t.shape().size() >= 2)
        elements += double(t.elements);
    return 6 * elements;
  }

  double peakFlops() const {
    if (options.peakTflops > 0)
      return options.peakTflops * 1e12;
    return session->device()
               ? knownPeak(session->device()->name(), program.precision)
               : 0;
  }

  /// The device's, or the most that this process had of the host's.
  uint64_t memoryInUse() const {
    if (session->device())
      return session->deviceMemory().used;
    struct rusage usage = {};
    ::getrusage(RUSAGE_SELF, &usage);
    return uint64_t(usage.ru_maxrss) * 1024;
  }

  int64_t tokensPerStep() const { return data->units(); }

  /// Every scalar that the entry reads must be known, and every optimizer flag
  /// given must be read.
  void checkScalars() const {
    for (const blurt_tensor &t : tensorsOf(entry)) {
      static const std::set<std::string_view> known = {
          "lr",   "beta1", "beta2", "eps",        "weight_decay", "momentum",
          "clip", "step",  "seed",  "loss_limit", "norm_limit",   "dp_index"};
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
      if (options.leads())
        checkWritable("--dump-grads", options.dumpGrads, savedBytes(gradients));
    }
    if (!options.save.empty() && options.leads())
      checkWritable("--save", options.save,
                    savedBytes(instances(stateOf(program), BLURT_PARAM)));
    if (!options.metrics.empty())
      checkWritable("--metrics", options.metrics, uint64_t(options.steps) * 128,
                    /*device=*/true);
    if (!options.profile.empty())
      checkWritable("--profile", options.profile, uint64_t(1) << 20);
  }

  uint64_t windowOf(int64_t step) const {
    return firstWindow + uint64_t(step - firstStep) * uint64_t(data->rows());
  }

  void writeScalars(const Pending &queued) {
    auto set = [&](const char *name, auto value) {
      if (const blurt_tensor *t = findTensor(entry, BLURT_SCALAR, name))
        session->writeScalar(*t, value);
    };
    set("lr", queued.rate);
    set("beta1", options.beta1);
    set("beta2", options.beta2);
    set("eps", options.eps);
    set("weight_decay", options.weightDecay);
    set("momentum", options.momentum);
    set("clip", options.clip);
    set("loss_limit", queued.limits.loss);
    set("norm_limit", queued.limits.norm);
    set("dp_index", options.world ? options.world->rank() : int64_t(0));
    set("step", queued.step + 1);
    set("seed", seed);
  }

  void queueStep(int64_t step) {
    Pending queued{step, 0, options.schedule.rate(step), outliers.before(step),
                   Clock::now()};
    Clock::time_point from = queued.start;
    auto spent = [&](const char *what) {
      if (profile)
        profile->host(what, step, from);
      from = Clock::now();
    };
    data->stage(*session, windowOf(step));
    spent("read the batch");
    writeScalars(queued);
    queued.call = session->queue(entry);
    spent("queue the step");
    pending.push_back(queued);
  }

  Result readStep(const Pending &queued, Progress &progress) {
    Clock::time_point from = Clock::now();
    session->finish(queued.call);
    if (profile)
      profile->host("wait for the results", queued.step, from);
    Result result{session->number(queued.call, loss),
                  gradNorm ? session->number(queued.call, *gradNorm) : 0,
                  queued.rate,
                  0,
                  false,
                  session->counters(queued.call)};
    if (session->device()) {
      bool follows = previousCall && *previousCall + 1 == queued.call;
      result.seconds = session->milliseconds(queued.call, follows) * 1e-3;
      previousCall = queued.call;
      if (profile)
        profile->took(queued.step, result.seconds);
    } else {
      std::chrono::duration<double> took = Clock::now() - queued.start;
      result.seconds = took.count();
    }
    std::string fault = findFault(queued, result);
    if (!fault.empty()) {
      fault = "step " + std::to_string(queued.step) + ": " + fault;
      if (options.debugNonfinite)
        fault += findOrigin(queued);
      if (!options.skipNonfinite)
        throw failure(fault);
      result.skipped = true;
      ++skippedSteps;
      progress.note(fault + "; skipped");
    }
    outliers.add(queued.step, result.loss, result.gradNorm);
    return result;
  }

  /// Why a step was not applied, or should not have been; empty if it is fine.
  std::string findFault(const Pending &queued, const Result &result) {
    if (!std::isfinite(result.loss))
      return "the loss is " + std::to_string(result.loss);
    if (!std::isfinite(result.gradNorm))
      return "the gradient norm is " + std::to_string(result.gradNorm);
    if (!applied || session->number(queued.call, *applied) != 0)
      return {};
    bool isLoss = result.loss >= queued.limits.loss;
    char text[160];
    std::snprintf(text, sizeof(text),
                  "the %s %.6g is an outlier: the limit by the %lld steps "
                  "before is %.6g",
                  isLoss ? "loss" : "gradient norm",
                  isLoss ? result.loss : result.gradNorm,
                  static_cast<long long>(options.outlierWindow),
                  isLoss ? queued.limits.loss : queued.limits.norm);
    return text;
  }

  /// Does a step again that changed nothing, and looks on.
  std::string findOrigin(const Pending &queued) {
    data->stage(*session, windowOf(queued.step));
    writeScalars(queued);
    std::string origin = session->findNonfinite(entry);
    return origin.empty()
               ? "; all values are finite"
               : "; the first value that is not finite is of " + origin;
  }

  void reportSkipped() const {
    if (skippedSteps > 0)
      note("skipped " + std::to_string(skippedSteps) + " of " +
           std::to_string(options.steps - firstStep) + " steps");
  }

  /// The file of an earlier run stays until there is something to write.
  LineFile &openMetrics() {
    if (!metrics) {
      metrics.emplace(options.metrics, /*keep=*/resumed.has_value());
      // A pipe or a terminal has no place beside it.
      if (std::filesystem::is_regular_file(options.metrics))
        saveConfig(std::filesystem::path(options.metrics)
                       .replace_extension(".config.toml"));
    }
    return *metrics;
  }

  /// Writes the options of this run, defaults included.
  void saveConfig(const std::string &path) const {
    AtomicFile file(path);
    file.write(options.written);
    file.commit();
  }

  void record(int64_t step, uint64_t call, const Result &result) {
    if (options.metrics.empty())
      return;
    nlohmann::ordered_json line;
    line["step"] = step;
    line["loss"] = result.loss;
    if (gradNorm)
      line["grad_norm"] = result.gradNorm;
    line["lr"] = result.rate;
    if (result.skipped)
      line["skipped"] = true;
    line["tokens"] =
        int64_t(tokensBefore) + (step + 1 - firstStep) * tokensPerStep();
    line["step_ms"] = result.seconds * 1e3;
    line["tokens_per_s"] = double(tokensPerStep()) / result.seconds;
    if (options.world) {
      const TransferCounts &sent = session->transfers(call);
      line["collective_calls"] = sent.calls;
      line["collective_bytes"] = sent.bytes;
    }
    addCounters(line, result.counters);
    if (session->device())
      addDevice(step, line);
    openMetrics().append(line.dump());
  }

  /// What was counted since the line before.
  void addCounters(nlohmann::ordered_json &line,
                   const std::vector<uint64_t> &counters) {
    static constexpr const char *kNames[BLURT_NUM_COUNTERS] = {
        "fp32tc_bf16_gemms", "fp32tc_recomputed_rows"};
    lastCounters.resize(counters.size());
    for (size_t i = 0; i != counters.size(); ++i)
      line[kNames[i]] = counters[i] - lastCounters[i];
    lastCounters = counters;
  }

  void addDevice(int64_t step, nlohmann::ordered_json &line) {
    if (step == 0) {
      line["device"] = session->device()->name();
      if (!session->code()->tuneHash().empty())
        line["gemm_file"] = session->code()->tuneHash();
    }
    if (step + 1 == options.steps) {
      DeviceMemory memory = session->deviceMemory();
      line["arena_bytes"] = memory.arena;
      line["allocated_bytes"] = memory.reserved;
      line["pinned_bytes"] = memory.pinned;
      line["device_bytes"] = memory.used;
      line["device_bytes_at_start"] = memory.usedFirst;
      for (const DeviceReserve &reserve : session->device()->reserves())
        if (reserve.name != "arena")
          line["reserves"][reserve.name] = reserve.bytes;
    }
  }

  void reportDevice() {
    if (!session->device())
      return;
    if (!options.quiet) {
      DeviceMemory memory = session->deviceMemory();
      std::fprintf(stderr,
                   "note: device memory: arena %s, allocated %s; in use on %s: "
                   "%s, of which %s before the program's own\n",
                   formatBytes(memory.arena).c_str(),
                   formatBytes(memory.reserved).c_str(),
                   session->device()->description().c_str(),
                   formatBytes(memory.used).c_str(),
                   formatBytes(memory.usedFirst).c_str());
    }
    if (profile && options.steps > firstStep)
      profile->print();
    if (!options.profile.empty())
      profile->write(options.profile, program);
  }

  void validate(int64_t step, Progress &progress) {
    if (!validation)
      return;
    Evaluation value = validation->evaluate();
    if (!options.metrics.empty()) {
      nlohmann::ordered_json line;
      line["step"] = step;
      line["val_loss"] = value.loss;
      if (value.accuracy)
        line["val_accuracy"] = *value.accuracy;
      openMetrics().append(line.dump());
    }
    progress.validation(step, value.loss, value.accuracy);
  }

  const TrainOptions &options;
  const blurt_program &program;
  const blurt_entry &entry;
  const blurt_tensor &loss;
  const blurt_tensor *gradNorm = nullptr, *applied = nullptr;
  OutlierLimits outliers;
  int64_t skippedSteps = 0;
  std::vector<uint64_t> lastCounters;
  const bool isCut; ///< whether ranks have pieces of the state
  std::unique_ptr<Batches> data;
  std::optional<Session> session;
  std::optional<Evaluator> validation;
  std::optional<LineFile> metrics;
  std::deque<Pending> pending;
  std::optional<uint64_t> previousCall;
  std::optional<Profile> profile;
  // Where the run starts, which a checkpoint may say.
  std::optional<CheckpointFolder> checkpoints;
  std::optional<Checkpoint> resumed;
  std::string initial; ///< the checkpoint whose weights to start with
  std::string digest;
  int64_t firstStep = 0, seed;
  uint64_t firstWindow = 0, tokensBefore = 0;
  int64_t savedStep = -1;
  std::string lastSaved;
  std::vector<std::byte> snapshot;
  std::future<std::string> saving; ///< goes first: it uses the others
};

} // namespace

void blurt::runTrain(const blurt_program &program,
                     const TrainOptions &options) {
  if (!options.world)
    return Trainer(program, options).run();
  options.world->requireSame(
      "options (digest of them)",
      hexString(xxh64(options.written.data(), options.written.size())));
  TrainOptions own = options;
  if (!options.leads()) {
    // Rank 0 speaks and writes for all.
    for (std::string *file : {&own.metrics, &own.profile})
      file->clear();
    own.quiet = true;
  }
  Trainer trainer(program, own);
  trainer.run();
  // Nobody takes his device away while another still talks to it.
  options.world->most(0, "the end of training");
}
