//===- Driver.cpp - Command line of a compiled program --------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Driver.h"
#include "Commands.h"
#include "Config.h"
#include "blurt/Error.h"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <new>

using namespace blurt;

namespace {

/// CLI11's own checks of integers go through floating point and let a number
/// that does not fit pass as the largest one.
CLI::Validator wholeNumber(int64_t least, int64_t most = 1'000'000'000'000) {
  return CLI::Validator(
      [least, most](const std::string &text) -> std::string {
        int64_t value = 0;
        const char *end = text.data() + text.size();
        auto [next, error] = std::from_chars(text.data(), end, value);
        if (error == std::errc() && next == end && value >= least &&
            value <= most)
          return {};
        return "expected a whole number from " + std::to_string(least) +
               " to " + std::to_string(most) + ", got '" + text + "'";
      },
      "");
}

/// An empty name would read as an option that is not there.
void checkNamed(const CLI::App &command,
                std::initializer_list<const char *> flags) {
  for (const char *flag : flags)
    if (command.count(flag) &&
        command.get_option(flag)->as<std::string>().empty())
      throw badInput(std::string(flag) + ": expected the name of a file");
}

CLI::Option *addData(CLI::App &command, const char *flag, std::string &files) {
  return command.add_option(flag, files,
                            "token shards, a glob pattern in quotes; for "
                            "classifiers an IDX file of images");
}

CLI::Option *addLabels(CLI::App &command, const char *flag, std::string &file) {
  return command.add_option(flag, file,
                            "IDX file of the images' labels (default: their "
                            "name with images-idx3 replaced by labels-idx1)");
}

/// The options that choose where a program for CUDA runs.
void addDevice(CLI::App &command, CommonOptions &options,
               const blurt_program &program) {
  if (!program.device)
    return;
  command
      .add_option("--device", options.device,
                  "GPU to use (default: BLURT_DEVICE, else 0)")
      ->check(wholeNumber(0, 1023));
}

void addTune(CLI::App &command, CommonOptions &options,
             const blurt_program &program) {
  if (program.device)
    command.add_option("--tune", options.tune,
                       "algorithms of matrix products, as the command tune "
                       "wrote them");
}

void addNoGraph(CLI::App &command, CommonOptions &options,
                const blurt_program &program) {
  if (program.device)
    command.add_flag("--no-graph", options.noGraph,
                     "queue kernels one by one instead of as one graph; the "
                     "results are the same");
}

/// How a program for several devices runs.
void addRanks(CLI::App &command, CommonOptions &options,
              const blurt_program &program) {
  if (program.devices <= 1)
    return;
  command
      .add_option("--devices", options.devices,
                  "start all ranks here, as many as the program has devices, "
                  "instead of with mpirun or another launcher")
      ->check(wholeNumber(1, 4096));
  command
      .add_option("--timeout", options.timeout,
                  "seconds to wait for another rank before giving up")
      ->capture_default_str();
}

/// Whether no rank has whole parameters, so that generation is for all of them.
bool needsAllRanks(const blurt_program &program) {
  return std::ranges::any_of(stateOf(program), [](const blurt_tensor &t) {
    return t.role == BLURT_PARAM && t.shards > 0;
  });
}

void addCommon(CLI::App &command, CommonOptions &options,
               const blurt_program &program) {
  addDevice(command, options, program);
  command
      .add_option(
          "--threads", options.threads,
          "threads to use (default: BLURT_THREADS, else all processors)")
      ->check(wholeNumber(1, 4096));
  command.add_flag("--quiet", options.quiet, "print results and errors only");
}

void checkFinite(const char *flag, double value, double least, double below) {
  if (!(value >= least && value < below)) {
    char text[160];
    std::snprintf(text, sizeof(text),
                  "--%s: expected a number from %g to below %g, got %g", flag,
                  least, below, value);
    throw badInput(text);
  }
}

/// Flags of the fixed command line that this build has no use for. They parse,
/// so that the message can say so.
struct Unsupported {
  std::vector<std::pair<CLI::Option *, std::string>> options;
  std::vector<std::string> values;
  bool seen = false;

  void option(CLI::App &command, const std::string &flag,
              const std::string &why = "not supported by this build") {
    options.emplace_back(
        command.add_option(flag, values, "")->group("")->expected(1), why);
  }
  void flag(CLI::App &command, const std::string &flag,
            const std::string &why = "not supported by this build") {
    options.emplace_back(command.add_flag(flag, seen, "")->group(""), why);
  }
  void check() const {
    for (const auto &[option, why] : options)
      if (option->count())
        throw badInput("--" + option->get_lnames().front() + ": " + why);
  }
};

void defineCheckpoints(CLI::App &command, TrainOptions &o) {
  auto *folder =
      command.add_option("--checkpoint-dir", o.checkpointDir,
                         "folder for checkpoints; there is one at the end, and "
                         "one when SIGINT or SIGTERM stops the run");
  command
      .add_option("--checkpoint-every", o.checkpointEvery,
                  "also write one after every N-th step")
      ->check(wholeNumber(1))
      ->needs(folder);
  command
      .add_option("--keep", o.keep,
                  "newest checkpoints to keep, 0 keeps all of them")
      ->capture_default_str()
      ->check(wholeNumber(0))
      ->needs(folder);
  auto *resume =
      command
          .add_flag("--resume", o.resume,
                    "go on from the newest checkpoint, or start if there is "
                    "none")
          ->needs(folder);
  command
      .add_flag("--new-data", o.newData,
                "go on with other data than before, from its start")
      ->needs(resume);
}

void defineGuard(CLI::App &command, TrainOptions &o) {
  command
      .add_option_function<std::string>(
          "--on-nonfinite",
          [&o](const std::string &action) {
            if (action != "skip" && action != "stop")
              throw badInput("--on-nonfinite: expected skip or stop, got '" +
                             action + "'");
            o.skipNonfinite = action == "skip";
          },
          "what to do with a step whose loss or gradient norm is not finite, "
          "or an outlier: leave weights and moments as they are and go on, or "
          "stop the run (default: stop)")
      ->option_text("skip|stop");
  command.add_flag("--debug-nonfinite", o.debugNonfinite,
                   "name the first operation that made a value which is not "
                   "finite, for programs compiled with --debug-nonfinite; runs "
                   "such a step twice");
  auto *z = command.add_option(
      "--outlier-z", o.outlierZ,
      "treat a loss or gradient norm as not finite that is so many standard "
      "deviations above the mean of the steps before (default: none is)");
  command
      .add_option("--outlier-window", o.outlierWindow,
                  "steps of that mean; until there are as many, no step is an "
                  "outlier")
      ->capture_default_str()
      ->check(wholeNumber(2, 100'000))
      ->needs(z);
}

void defineTrain(CLI::App &command, TrainOptions &o, Unsupported &unsupported,
                 const blurt_program &program) {
  addCommon(command, o, program);
  addTune(command, o, program);
  addNoGraph(command, o, program);
  addData(command, "--data", o.data)->required();
  addLabels(command, "--labels", o.labels);
  command.add_option("--steps", o.steps, "optimizer steps in all")
      ->required()
      ->check(wholeNumber(0));
  command.add_option("--lr", o.schedule.peak, "peak learning rate")->required();
  command
      .add_option_function<std::string>(
          "--schedule",
          [&o](const std::string &name) {
            static const std::map<std::string, ScheduleKind> kinds = {
                {"constant", ScheduleKind::Constant},
                {"linear", ScheduleKind::Linear},
                {"cosine", ScheduleKind::Cosine},
                {"wsd", ScheduleKind::WarmupStableDecay}};
            auto kind = kinds.find(name);
            if (kind == kinds.end())
              throw badInput(
                  "--schedule: expected constant, linear, cosine or wsd, got "
                  "'" +
                  name + "'");
            o.schedule.kind = kind->second;
          },
          "learning rate after warm-up (default: constant)")
      ->option_text("constant|linear|cosine|wsd");
  command.add_option("--warmup", o.schedule.warmup, "steps of linear warm-up")
      ->check(wholeNumber(0));
  command
      .add_option("--decay-steps", o.schedule.decay,
                  "last steps, in which wsd lowers the rate (default: a fifth "
                  "of all steps)")
      ->check(wholeNumber(1));
  command.add_option("--min-lr", o.schedule.least,
                     "rate that linear, cosine and wsd end at");
  command.add_option("--weight-decay", o.weightDecay, "decoupled weight decay")
      ->capture_default_str();
  command.add_option("--beta1", o.beta1, "decay of the first moment")
      ->capture_default_str();
  command.add_option("--beta2", o.beta2, "decay of the second moment")
      ->capture_default_str();
  command.add_option("--eps", o.eps, "added to the root of the second moment")
      ->capture_default_str();
  command.add_option("--momentum", o.momentum, "momentum of sgd")
      ->capture_default_str();
  command
      .add_option("--clip", o.clip,
                  "largest global gradient norm, 0 turns clipping off")
      ->capture_default_str();
  command
      .add_option("--seed", o.seed,
                  "seed of initialisation, dropout and "
                  "shuffling")
      ->capture_default_str()
      ->check(wholeNumber(0, INT64_MAX));
  command.add_flag("--shuffle", o.shuffle,
                   "draw windows in an order chosen by the seed");
  auto *init = command.add_option("--init", o.init,
                                  "weights to start from (safetensors)");
  command
      .add_option("--init-from", o.initFrom,
                  "checkpoint, or folder of them, to start from with the "
                  "weights alone")
      ->excludes(init);
  auto *val = command.add_option("--val", o.val,
                                 "validation data, named as the training data");
  addLabels(command, "--val-labels", o.valLabels)->needs(val);
  command
      .add_option("--val-every", o.valEvery,
                  "validate before every N-th step, and at the end (default: "
                  "at the end)")
      ->check(wholeNumber(1));
  command
      .add_option("--val-batches", o.valBatches,
                  "validation batches (default: all data once)")
      ->check(wholeNumber(1));
  command.add_option("--metrics", o.metrics, "JSON lines, one a step");
  command.add_option("--peak-tflops", o.peakTflops,
                     "what the device can do at most, for the MFU of the "
                     "progress line (default: known for some GPUs)");
  command.add_option("--save", o.save, "where to write the trained weights");
  command.add_option("--dump-grads", o.dumpGrads,
                     "where to write the gradients of the first step");
  defineGuard(command, o);
  defineCheckpoints(command, o);
  addRanks(command, o, program);
  if (program.devices <= 1)
    for (const char *flag : {"--timeout", "--devices"})
      unsupported.option(command, flag,
                         "needs a program for several devices, compiled with "
                         "bt-compile --mesh");
  if (program.device) {
    auto *times =
        command.add_flag("--kernel-times", o.kernelTimes,
                         "print the device's time by kernel in one step; "
                         "implies --no-graph");
    command
        .add_option("--profile", o.profile,
                    "write a trace of a few steps (Chrome's JSON, which "
                    "Perfetto reads too), and print the device's time by "
                    "kernel in them")
        ->excludes(times);
    return;
  }
  for (const char *flag : {"--tune", "--device"})
    unsupported.option(command, flag, "not needed for target cpu");
  unsupported.flag(command, "--no-graph", "not needed for target cpu");
  unsupported.option(command, "--profile", "not supported for target cpu");
}

void finishTrain(const CLI::App &command, TrainOptions &o) {
  const double infinity = std::numeric_limits<double>::infinity();
  checkFinite("lr", o.schedule.peak, 0, infinity);
  checkFinite("min-lr", o.schedule.least, 0, infinity);
  checkFinite("weight-decay", o.weightDecay, 0, infinity);
  checkFinite("beta1", o.beta1, 0, 1);
  checkFinite("beta2", o.beta2, 0, 1);
  checkFinite("eps", o.eps, 0, infinity);
  checkFinite("momentum", o.momentum, 0, 1);
  checkFinite("clip", o.clip, 0, infinity);
  checkFinite("peak-tflops", o.peakTflops, 0, infinity);
  if (command.count("--outlier-z") &&
      !(o.outlierZ > 0 && o.outlierZ < infinity))
    throw badInput("--outlier-z: expected a number above 0, got " +
                   command.get_option("--outlier-z")->as<std::string>());
  o.schedule.steps = o.steps;
  o.seedGiven = command.count("--seed") > 0;
  checkNamed(command, {"--init", "--init-from", "--val", "--metrics", "--save",
                       "--dump-grads", "--profile", "--checkpoint-dir",
                       "--labels", "--val-labels"});
  if (o.schedule.kind == ScheduleKind::Constant && command.count("--min-lr"))
    throw badInput("--min-lr: needs --schedule linear, cosine or wsd");
  if (o.schedule.kind == ScheduleKind::WarmupStableDecay) {
    if (!command.count("--decay-steps"))
      o.schedule.decay = std::min(
          o.steps / 5, std::max<int64_t>(0, o.steps - o.schedule.warmup));
    else if (o.schedule.decay > o.steps - o.schedule.warmup)
      throw badInput(
          "--decay-steps: expected at most the " +
          std::to_string(std::max<int64_t>(0, o.steps - o.schedule.warmup)) +
          " steps after warm-up, got " + std::to_string(o.schedule.decay));
  } else if (command.count("--decay-steps")) {
    throw badInput("--decay-steps: needs --schedule wsd");
  }
  if (o.val.empty())
    for (const char *flag : {"--val-every", "--val-batches"})
      if (command.count(flag))
        throw badInput(std::string(flag) + ": needs --val");
  const std::pair<const char *, const char *> scalars[] = {
      {"--weight-decay", "weight_decay"},
      {"--beta1", "beta1"},
      {"--beta2", "beta2"},
      {"--eps", "eps"},
      {"--momentum", "momentum"},
      {"--clip", "clip"}};
  for (auto [flag, scalar] : scalars)
    if (command.count(flag))
      o.given.insert(scalar);
}

void defineEval(CLI::App &command, EvalOptions &o,
                const blurt_program &program) {
  addCommon(command, o, program);
  addTune(command, o, program);
  addNoGraph(command, o, program);
  addRanks(command, o, program);
  auto *data = addData(command, "--data", o.data);
  addLabels(command, "--labels", o.labels)->needs(data);
  command
      .add_option("--hellaswag", o.hellaswag,
                  "answer the questions of llm.c's HellaSwag file instead")
      ->excludes(data);
  command.add_option("--weights", o.weights, "weights (safetensors)")
      ->required();
  command
      .add_option("--val-batches", o.batches,
                  "batches to read (default: all data once)")
      ->check(wholeNumber(1))
      ->needs(data);
  command.add_option("--metrics", o.metrics,
                     "also write the result as a JSON line, here and to "
                     "standard output");
}

void defineGenerate(CLI::App &command, GenerateOptions &o,
                    const blurt_program &program) {
  addCommon(command, o, program);
  addTune(command, o, program);
  addNoGraph(command, o, program);
  if (needsAllRanks(program))
    addRanks(command, o, program);
  command.add_option("--weights", o.weights, "weights (safetensors)")
      ->required();
  auto *prompt = command.add_option(
      "--prompt", o.prompt,
      "text to continue; with --vocab-file it is cut into the longest tokens "
      "that match, which can differ from byte-pair encoding");
  command
      .add_option("--prompt-tokens", o.promptTokens,
                  "token ids to continue, separated by commas")
      ->excludes(prompt);
  command.add_option("--max-tokens", o.maxTokens, "tokens to add")
      ->capture_default_str()
      ->check(wholeNumber(1));
  command
      .add_option("--temperature", o.temperature,
                  "sampling temperature, 0 takes the likeliest token")
      ->capture_default_str();
  command.add_option("--seed", o.seed, "seed of sampling")
      ->capture_default_str()
      ->check(wholeNumber(0, INT64_MAX));
  command.add_option("--vocab-file", o.vocabFile,
                     "llm.c tokenizer file; byte-level vocabularies need none");
}

void defineCall(CLI::App &command, CallOptions &o,
                const blurt_program &program) {
  addCommon(command, o, program);
  addTune(command, o, program);
  command.add_option("--entry", o.entry, "entry to call, once")->required();
  command
      .add_option("--inputs", o.inputs,
                  "inputs, scalars and parameters by name (safetensors)")
      ->required();
  command.add_option("--outputs", o.outputs,
                     "where to write outputs and gradients (safetensors)");
  command.add_flag("--state", o.state, "write the state after the call too");
}

int report(const Error &error) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", error.what());
  return error.exitCode();
}

/// Whether ranks are to be started, and have not been; else joins them.
bool startsRanks(const blurt_program &program, CommonOptions &options,
                 std::unique_ptr<World> &world) {
  checkFinite("timeout", options.timeout, 0.001, 1e9);
  if (options.devices > 0 && findLaunchedRank().rank < 0)
    return true;
  world = World::join(program, options.timeout);
  if (!world)
    return false;
  // That of a GPU is opened with its device.
  if (!program.device)
    world->setTransport(createHostTransport(*world));
  else if (options.device < 0)
    options.device = findLaunchedRank().localRank;
  options.world = world.get();
  return false;
}

int parseAndRun(const blurt_program &program, int argc, char **argv,
                std::unique_ptr<World> &world) {
  CLI::App app(std::string(program.name) + ", compiled by BluTrain");
  app.require_subcommand(1);
  TrainOptions train;
  EvalOptions eval;
  GenerateOptions generate;
  InfoOptions info;
  Unsupported unsupported;
  CLI::App *trainCommand = app.add_subcommand("train", "train the model");
  defineTrain(*trainCommand, train, unsupported, program);
  CLI::App *evalCommand = app.add_subcommand("eval", "loss, accuracy on data");
  defineEval(*evalCommand, eval, program);
  CLI::App *generateCommand = app.add_subcommand("generate", "continue a text");
  defineGenerate(*generateCommand, generate, program);
  CLI::App *infoCommand = app.add_subcommand("info", "what this program is");
  infoCommand->add_flag("--memory", info.memory,
                        "who owns the memory; allocates the arena");
  infoCommand->add_option("--snapshot", info.snapshot,
                          "where to write the allocators' blocks (JSON); "
                          "implies --memory");
  addDevice(*infoCommand, info, program);
  CallOptions call;
  CLI::App *callCommand = app.add_subcommand(
      "call", "run one entry on tensors from a file, for tests");
  defineCall(*callCommand, call, program);
  CLI::App *tuneCommand =
      app.add_subcommand("tune", "choose library algorithms for this machine");
  TuneOptions tune;
  tuneCommand->add_option("-o", tune.output, "where to write the choice");
  if (program.device) {
    addCommon(*tuneCommand, tune, program);
    tuneCommand->get_option("-o")->required();
    tuneCommand
        ->add_option("--repeat", tune.repeat, "times each candidate runs")
        ->capture_default_str()
        ->check(wholeNumber(1, 100'000));
    tuneCommand->add_flag("--search", tune.search,
                          "also try other tiles, clusters and stages than the "
                          "library proposes; takes some ten times as long");
  }
  readConfig(*trainCommand, argc, argv);
  auto named = [&](CLI::App *command) {
    return command->get_name() == argv[1];
  };
  if (argc > 1 && argv[1][0] != '-' && app.get_subcommands(named).empty())
    throw badInput(std::string("unknown command '") + argv[1] +
                   "' (see --help)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp &help) {
    app.exit(help);
    return ExitDone;
  } catch (const CLI::CallForAllHelp &help) {
    app.exit(help);
    return ExitDone;
  } catch (const CLI::ParseError &error) {
    throw badInput(std::string(error.what()) + " (see --help)");
  }
  if (*trainCommand) {
    unsupported.check();
    finishTrain(*trainCommand, train);
    train.written = writtenConfig(*trainCommand);
    if (startsRanks(program, train, world))
      return superviseRanks(program, train.devices, argc, argv);
    runTrain(program, train);
  } else if (*evalCommand) {
    checkNamed(*evalCommand,
               {"--metrics", "--data", "--hellaswag", "--labels"});
    if (!evalCommand->count("--data") && !evalCommand->count("--hellaswag"))
      throw badInput("eval: expected --data or --hellaswag");
    if (startsRanks(program, eval, world))
      return superviseRanks(program, eval.devices, argc, argv);
    runEval(program, eval);
  } else if (*generateCommand) {
    generate.hasPrompt = generateCommand->count("--prompt") > 0;
    checkFinite("temperature", generate.temperature, 0,
                std::numeric_limits<double>::infinity());
    if (needsAllRanks(program) && startsRanks(program, generate, world))
      return superviseRanks(program, generate.devices, argc, argv);
    runGenerate(program, generate);
  } else if (*infoCommand) {
    checkNamed(*infoCommand, {"--snapshot"});
    runInfo(program, info);
  } else if (*callCommand) {
    checkNamed(*callCommand, {"--outputs"});
    runCall(program, call);
  } else if (program.device) {
    checkNamed(*tuneCommand, {"-o"});
    runTune(program, tune);
  } else {
    throw badInput(std::string("tune: not needed for target ") +
                   program.target);
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    throw failure(systemMessage("standard output", "cannot write", errno));
  if (world)
    world->leave();
  return ExitDone;
}

} // namespace

SessionOptions CommonOptions::session() const {
  // Ranks of one host share its processors.
  int64_t own = threads;
  if (own == 0 && world && !std::getenv("BLURT_THREADS"))
    own = std::max<int64_t>(1, resolveThreadCount(0) /
                                   findLaunchedRank().localSize);
  return {resolveThreadCount(own), device, tune, !noGraph, world};
}

int blurt::runProgram(const blurt_program &program, int argc, char **argv) {
  std::unique_ptr<World> world;
  auto fail = [&](const Error &error) {
    // The others learn why, and none of them waits for this rank.
    if (world)
      world->fail(error.what(), error.exitCode());
    return report(error);
  };
  try {
    return parseAndRun(program, argc, argv, world);
  } catch (const Error &error) {
    return fail(error);
  } catch (const std::bad_alloc &) {
    return fail(failure("out of host memory"));
  } catch (const std::exception &error) {
    return fail(failure(error.what()));
  }
}
