//===- Eval.cpp - The command `eval` --------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "blurt/Error.h"
#include "blurt/Weights.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

using namespace blurt;

void blurt::writeResult(const EvalOptions &options, const std::string &line) {
  if (options.metrics.empty())
    return;
  LineFile(options.metrics, /*keep=*/false).append(line);
  std::printf("%s\n", line.c_str());
}

const blurt_tensor &blurt::requireNumber(const blurt_entry &entry,
                                         std::string_view name) {
  const blurt_tensor *t = findTensor(entry, BLURT_OUTPUT, name);
  if (!t)
    throw badInput(std::string("entry '") + entry.name +
                   "': expected an output '" + std::string(name) + "'");
  if (elementCount(*t) != 1)
    throw failure(std::string("entry '") + entry.name + "': output '" +
                  t->name + "': expected one number, got " + typeString(*t));
  return *t;
}

Evaluator::Evaluator(Session &session, const blurt_entry &entry,
                     const DataOptions &options, int64_t batches,
                     std::string_view command)
    : session(session), world(session.runContext().world), entry(entry),
      loss(requireNumber(entry, "loss")),
      data(openBatches(session.program(), entry, options, command,
                       shareOf(world))),
      batches(uint64_t(batches)) {
  for (const blurt_tensor &t : tensorsOf(entry))
    if (t.role == BLURT_SCALAR)
      throw badInput(std::string("entry '") + entry.name + "': scalar '" +
                     t.name + "' is not one that evaluation knows");
  if (data->labelled())
    logits = findTensor(entry, BLURT_OUTPUT, "logits");
  if (batches == 0) {
    this->batches = data->windows() / uint64_t(data->rows());
    // The last token is a target only.
    left = data->size() - (data->labelled() ? 0 : 1) - unitCount();
  }
}

uint64_t Evaluator::countCorrect(uint64_t window, uint64_t count) {
  size_t classes = size_t(logits->shape[logits->rank - 1]);
  std::vector<double> rows =
      session.readElements(*logits, 0, data->rowsHere() * int64_t(classes));
  uint64_t correct = 0, first = data->rowOf(0);
  for (uint64_t i = 0; i < uint64_t(data->rowsHere()); ++i) {
    if (first + i >= count)
      break;
    auto begin = rows.begin() + std::ptrdiff_t(i * classes);
    auto best = std::max_element(begin, begin + std::ptrdiff_t(classes));
    correct += best - begin == data->label(window + first + i);
  }
  return world ? world->sum(correct, "counting correct labels") : correct;
}

Share blurt::shareOf(const World *world) {
  return world ? Share{world->rank(), world->size()} : Share{};
}

Evaluation Evaluator::evaluate() {
  double sum = 0;
  uint64_t correct = 0, rows = uint64_t(data->rows());
  auto call = [&](uint64_t window) {
    data->stage(session, window);
    uint64_t number = session.queue(entry);
    session.finish(number);
    return session.number(number, loss);
  };
  for (uint64_t i = 0; i < batches; ++i) {
    sum += call(i * rows);
    if (logits)
      correct += countCorrect(i * rows, rows);
  }
  Evaluation result{sum / double(batches), std::nullopt};
  if (!std::isfinite(result.loss))
    throw failure("the loss on the validation data is not finite");
  if (logits) {
    // A call that begins with the last images goes on with the first ones.
    if (left > 0) {
      call(batches * rows);
      correct += countCorrect(batches * rows, left);
    }
    result.accuracy = double(correct) / double(batches * rows + left);
  }
  return result;
}

void blurt::runEval(const blurt_program &program, const EvalOptions &options) {
  if (!options.hellaswag.empty())
    return runHellaSwag(program, options);
  const blurt_entry &entry = requireEntry(program, "eval", "eval");
  Session session(program, options.session());
  Evaluator evaluator(session, entry,
                      {"--data", options.data, "--labels", options.labels},
                      options.batches, "eval");
  loadParameters(options.weights, program, session.arena(), session.pool(),
                 options.world);
  if (!options.metrics.empty() && options.leads())
    checkWritable("--metrics", options.metrics, 256, /*device=*/true);
  Evaluation result = evaluator.evaluate();
  if (options.world)
    options.world->most(0, "the end of evaluation");
  if (!options.leads())
    return;
  reportMemoryCheck(session);
  auto left = static_cast<unsigned long long>(evaluator.skipped());
  if (left && !options.quiet)
    std::fprintf(stderr,
                 "note: the last %llu %s fill no whole batch and are left "
                 "out%s\n",
                 left, evaluator.unitName(),
                 result.accuracy ? " of the loss" : "");
  std::string accuracy;
  if (result.accuracy) {
    char text[64];
    std::snprintf(text, sizeof(text), ", accuracy %.4f", *result.accuracy);
    accuracy = text;
  }
  std::printf("loss %.6f, perplexity %.4f%s, %llu %s in %llu batches\n",
              result.loss, std::exp(result.loss), accuracy.c_str(),
              static_cast<unsigned long long>(evaluator.unitCount()),
              evaluator.unitName(),
              static_cast<unsigned long long>(evaluator.batchCount()));
  nlohmann::ordered_json line;
  line["val_loss"] = result.loss;
  line["perplexity"] = std::exp(result.loss);
  if (result.accuracy)
    line["accuracy"] = *result.accuracy;
  line[evaluator.unitName()] = evaluator.unitCount();
  line["batches"] = evaluator.batchCount();
  writeResult(options, line.dump());
}
