//===- Generate.cpp - The command `generate` ------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "blurt/Error.h"
#include "blurt/Random.h"
#include "blurt/Vocabulary.h"
#include "blurt/Weights.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>

using namespace blurt;

namespace {

std::vector<int32_t> parseTokens(const std::string &text, int64_t vocab) {
  std::vector<int32_t> ids;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    int64_t id = -1;
    auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc() || (next != end && *next != ','))
      throw badInput("--prompt-tokens: expected token ids separated by commas, "
                     "got '" +
                     text + "'");
    if (id < 0 || id >= vocab)
      throw badInput(
          "--prompt-tokens: expected ids below the vocabulary size " +
          std::to_string(vocab) + ", got " + std::to_string(id));
    ids.push_back(static_cast<int32_t>(id));
    if (next == end)
      return ids;
    at = next + 1;
  }
}

class Generator {
public:
  Generator(const blurt_program &program, const GenerateOptions &options)
      : options(options), program(program),
        prefill(requireEntry(program, "prefill", "generate")),
        decode(requireEntry(program, "decode", "generate")),
        vocabSize(required("vocab_size")), context(required("context")),
        vocabulary(chooseVocabulary()), session(program, options.session()),
        random(uint64_t(options.seed), "generate") {
    for (const blurt_entry *entry : {&prefill, &decode})
      checkEntry(*entry);
    prompt = choosePrompt();
    if (int64_t(prompt.size()) >= context)
      throw badInput("--prompt: expected fewer tokens than the context of " +
                     std::to_string(context) + ", got " +
                     std::to_string(prompt.size()));
    loadParameters(options.weights, program, session.arena(), session.pool(),
                   options.world);
  }

  void run() {
    session.clearCaches(prefill);
    session.clearCaches(decode);
    if (options.hasPrompt)
      emitText(options.prompt);
    else
      for (int32_t id : prompt)
        emit(id);
    bool full = false, ended = false;
    int64_t position = 0, promptLength = int64_t(prompt.size());
    int64_t chunk = elementCount(*findTensor(prefill, BLURT_INPUT, "tokens"));
    // A padded chunk that would reach past the cache is decoded token by token.
    while (position < promptLength && position + chunk <= context) {
      int64_t count = std::min(chunk, promptLength - position);
      step(prefill, prompt.data() + position, count, position);
      position += count;
    }
    for (; position < promptLength; ++position)
      step(decode, prompt.data() + position, 1, position);
    for (int64_t made = 0; made < options.maxTokens; ++made) {
      int32_t id = sample(uint64_t(made));
      if (vocabulary.endOfText() == id) {
        ended = true;
        break;
      }
      emit(id);
      if (made + 1 == options.maxTokens)
        break;
      if (position == context) {
        full = true;
        break;
      }
      step(decode, &id, 1, position++);
    }
    emitText("\n");
    if (options.world)
      options.world->most(0, "the end of generation");
    if (!options.leads())
      return;
    reportMemoryCheck(session);
    if (std::fflush(stdout) != 0)
      throw failure(systemMessage("standard output", "cannot write", errno));
    if (options.quiet)
      return;
    if (full)
      std::fprintf(stderr,
                   "note: stopped at the model's context of %lld tokens\n",
                   static_cast<long long>(context));
    if (ended)
      std::fprintf(stderr, "note: stopped at the end of the text\n");
  }

private:
  int64_t required(const char *key) const {
    std::optional<int64_t> value = findMetadataInt(program, key);
    if (!value)
      throw badInput(std::string("generate: this program's metadata lacks '") +
                     key + "'");
    return *value;
  }

  Vocabulary chooseVocabulary() const {
    if (!options.vocabFile.empty())
      return Vocabulary::fromFile(options.vocabFile, vocabSize);
    if (vocabSize > 256)
      throw badInput("generate: --vocab-file is required for a vocabulary of " +
                     std::to_string(vocabSize) + " tokens");
    return Vocabulary::bytes(vocabSize);
  }

  std::vector<int32_t> choosePrompt() const {
    std::vector<int32_t> ids;
    if (!options.promptTokens.empty())
      ids = parseTokens(options.promptTokens, vocabSize);
    else if (!options.prompt.empty())
      ids = vocabulary.encode(options.prompt);
    else if (vocabulary.endOfText())
      ids = {*vocabulary.endOfText()};
    if (ids.empty())
      throw badInput("--prompt: expected at least one token");
    return ids;
  }

  void checkEntry(const blurt_entry &entry) const {
    const blurt_tensor *tokens = findTensor(entry, BLURT_INPUT, "tokens");
    const blurt_tensor *logits = findTensor(entry, BLURT_OUTPUT, "logits");
    if (!tokens || !logits)
      throw badInput(std::string("entry '") + entry.name +
                     "': expected an input 'tokens' and an output 'logits'");
    if (tokens->dtype != BLURT_I32 || elementCount(*tokens) < 1)
      throw failure(std::string("entry '") + entry.name +
                    "': input 'tokens': expected i32[1, chunk], got " +
                    typeString(*tokens));
    int64_t columns = logits->rank ? logits->shape[logits->rank - 1] : 0;
    if (columns < vocabSize ||
        elementCount(*logits) != columns * elementCount(*tokens))
      throw failure(std::string("entry '") + entry.name +
                    "': output 'logits': expected " +
                    std::to_string(elementCount(*tokens)) + " rows of " +
                    std::to_string(vocabSize) + ", got " + typeString(*logits));
    for (const blurt_tensor &t : tensorsOf(entry))
      if ((t.role == BLURT_SCALAR && std::string_view(t.name) != "position") ||
          (t.role == BLURT_INPUT && std::string_view(t.name) != "tokens"))
        throw badInput(std::string("entry '") + entry.name + "': input '" +
                       t.name + "' is not one that generate knows");
  }

  /// Feeds `count` tokens at `position` and keeps the logits after the last.
  void step(const blurt_entry &entry, const int32_t *ids, int64_t count,
            int64_t position) {
    const blurt_tensor &tokens = *findTensor(entry, BLURT_INPUT, "tokens");
    const blurt_tensor &out = *findTensor(entry, BLURT_OUTPUT, "logits");
    std::byte *to = session.stage(tokens);
    std::memset(to, 0, uint64_t(elementCount(tokens)) * sizeof(int32_t));
    std::memcpy(to, ids, uint64_t(count) * sizeof(int32_t));
    if (const blurt_tensor *t = findTensor(entry, BLURT_SCALAR, "position"))
      session.writeScalar(*t, position);
    session.run(entry);
    int64_t columns = out.shape[out.rank - 1];
    logits = session.readElements(out, (count - 1) * columns, vocabSize);
    for (double value : logits)
      if (std::isnan(value))
        throw failure("the logits at position " +
                      std::to_string(position + count - 1) +
                      " are not numbers");
  }

  int32_t sample(uint64_t draw) const {
    auto best = std::max_element(logits.begin(), logits.end());
    if (options.temperature == 0)
      return static_cast<int32_t>(best - logits.begin());
    std::vector<double> weights(logits.size());
    double sum = 0;
    for (size_t i = 0; i < logits.size(); ++i)
      sum += weights[i] = std::exp((logits[i] - *best) / options.temperature);
    double left = random.uniform(draw) * sum;
    for (size_t i = 0; i < weights.size(); ++i)
      if ((left -= weights[i]) < 0)
        return static_cast<int32_t>(i);
    return static_cast<int32_t>(best - logits.begin());
  }

  void emit(int32_t id) {
    if (vocabulary.endOfText() != id)
      emitText(vocabulary.text(id));
  }

  void emitText(std::string_view text) {
    if (!options.leads())
      return;
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() ||
        std::fflush(stdout) != 0)
      throw failure(systemMessage("standard output", "cannot write", errno));
  }

  const GenerateOptions &options;
  const blurt_program &program;
  const blurt_entry &prefill;
  const blurt_entry &decode;
  int64_t vocabSize, context;
  Vocabulary vocabulary;
  Session session;
  RandomStream random;
  std::vector<int32_t> prompt;
  std::vector<double> logits;
};

} // namespace

void blurt::runGenerate(const blurt_program &program,
                        const GenerateOptions &options) {
  Generator(program, options).run();
}
