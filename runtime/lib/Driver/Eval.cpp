//===- Eval.cpp - The command `eval` --------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "blurt/Error.h"
#include "blurt/Weights.h"

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

using namespace blurt;

TokenInputs blurt::requireTokenInputs(const blurt_program &program,
                                      const blurt_entry &entry,
                                      std::string_view command) {
  std::string names;
  bool known = true;
  for (const blurt_tensor &t : tensorsOf(entry)) {
    if (t.role != BLURT_INPUT)
      continue;
    names += (names.empty() ? "" : ", ") + std::string(t.name);
    known &= std::string_view(t.name) == "tokens" ||
             std::string_view(t.name) == "targets";
  }
  TokenInputs inputs{findTensor(entry, BLURT_INPUT, "tokens"),
                     findTensor(entry, BLURT_INPUT, "targets"),
                     entry.batch * entry.microbatches, entry.seq};
  if (!known || !inputs.tokens || !inputs.targets)
    throw badInput("this model's inputs (" + names +
                   ") need a data format that " + std::string(command) +
                   " does not read yet");
  for (const blurt_tensor *t : {inputs.tokens, inputs.targets})
    if (t->dtype != BLURT_I32 || inputs.length <= 0 ||
        elementCount(*t) != inputs.rows * inputs.length)
      throw failure(std::string("program table: entry '") + entry.name +
                    "': input '" + t->name + "': expected i32 with " +
                    std::to_string(inputs.rows * inputs.length) +
                    " elements (microbatches × batch × seq), got " +
                    typeString(*t));
  return inputs;
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

static int64_t vocabularySize(const blurt_program &program) {
  return findMetadataInt(program, "vocab_size").value_or(0);
}

Evaluator::Evaluator(Session &session, const blurt_entry &entry,
                     const std::string &flag, const std::string &pattern,
                     int64_t batches, std::string_view command)
    : session(session), entry(entry),
      inputs(requireTokenInputs(session.program(), entry, command)),
      loss(requireNumber(entry, "loss")),
      stream(flag, pattern, vocabularySize(session.program())),
      reader(flag, stream, inputs.rows, inputs.length),
      batches(uint64_t(batches)) {
  for (const blurt_tensor &t : tensorsOf(entry))
    if (t.role == BLURT_SCALAR)
      throw badInput(std::string("entry '") + entry.name + "': scalar '" +
                     t.name + "' is not one that evaluation knows");
  if (batches == 0) {
    this->batches = reader.batchesPerPass();
    skipped = stream.size() - 1 - tokenCount();
  }
}

uint64_t Evaluator::tokenCount() const {
  return batches * uint64_t(inputs.rows * inputs.length);
}

double Evaluator::meanLoss() {
  double sum = 0;
  for (uint64_t i = 0; i < batches; ++i) {
    reader.read(i, reinterpret_cast<int32_t *>(session.stage(*inputs.tokens)),
                reinterpret_cast<int32_t *>(session.stage(*inputs.targets)));
    uint64_t call = session.queue(entry);
    session.finish(call);
    sum += session.number(call, loss);
  }
  double mean = sum / double(batches);
  if (!std::isfinite(mean))
    throw failure("the loss on the validation data is not finite");
  return mean;
}

void blurt::runEval(const blurt_program &program, const EvalOptions &options) {
  const blurt_entry &entry = requireEntry(program, "eval", "eval");
  Session session(program, options.session());
  Evaluator evaluator(session, entry, "--data", options.data, options.batches,
                      "eval");
  loadParameters(options.weights, program, session.arena(), session.pool());
  if (!options.metrics.empty())
    checkWritable("--metrics", options.metrics, 256, /*device=*/true);
  double loss = evaluator.meanLoss();
  reportMemoryCheck(session);
  if (evaluator.skippedTokens() && !options.quiet)
    std::fprintf(stderr,
                 "note: the last %llu tokens fill no whole batch and are left "
                 "out\n",
                 static_cast<unsigned long long>(evaluator.skippedTokens()));
  std::printf("loss %.6f, perplexity %.4f, %llu tokens in %llu batches\n", loss,
              std::exp(loss),
              static_cast<unsigned long long>(evaluator.tokenCount()),
              static_cast<unsigned long long>(evaluator.batchCount()));
  if (!options.metrics.empty()) {
    nlohmann::ordered_json line;
    line["val_loss"] = loss;
    line["perplexity"] = std::exp(loss);
    line["tokens"] = evaluator.tokenCount();
    line["batches"] = evaluator.batchCount();
    std::string text = line.dump();
    LineFile(options.metrics, /*keep=*/false).append(text);
    std::printf("%s\n", text.c_str());
  }
}
