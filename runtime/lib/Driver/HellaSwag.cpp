//===- HellaSwag.cpp - `eval --hellaswag` ---------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/HellaSwag.h"
#include "Commands.h"
#include "blurt/Error.h"
#include "blurt/Weights.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

using namespace blurt;

namespace {

/// Scores endings, as many at a time as the entry has rows on all ranks.
class Scorer {
public:
  Scorer(Session &session, const blurt_entry &entry, const HellaSwagFile &file)
      : session(session), entry(entry), file(file),
        tokens(findTensor(entry, BLURT_INPUT, "tokens")),
        targets(findTensor(entry, BLURT_INPUT, "targets")),
        losses(findTensor(entry, BLURT_OUTPUT, "token_loss")),
        world(session.runContext().world), share(shareOf(world)),
        rows(uint64_t(entry.batch)), length(uint64_t(entry.seq)) {
    if (!tokens || !targets || !losses)
      throw badInput("--hellaswag: expected a model with inputs 'tokens' and "
                     "'targets' and a result 'token_loss'");
    for (const blurt_tensor *t : {tokens, targets, losses})
      if (uint64_t(elementCount(*t)) != rows * length || length == 0 ||
          (t != losses && t->dtype != BLURT_I32))
        throw failure(std::string("program table: entry '") + entry.name +
                      "': tensor '" + t->name + "': expected " +
                      std::to_string(rows * length) +
                      " elements (batch × seq), got " + typeString(*t));
    for (uint64_t i = 0; i < file.size(); ++i)
      for (const HellaSwagFile::Tokens &ending : file.example(i).endings)
        if (ending.count > length)
          throw badInput(file.path() + ": example " + std::to_string(i) +
                         ": expected endings of at most the " +
                         std::to_string(length) +
                         " tokens that the program was compiled for, got " +
                         std::to_string(ending.count));
  }

  /// The sum of the losses of each ending's tokens, examples in order.
  std::vector<double> score() {
    uint64_t count = file.size() * HellaSwagFile::kEndings;
    std::vector<double> sums(count);
    auto ranks = uint64_t(share.ranks);
    for (uint64_t all = 0; all < count; all += rows * ranks) {
      // Every rank makes every call, if only with padding.
      uint64_t first = std::min(all + uint64_t(share.rank) * rows, count);
      scoreRows(first, std::min(rows, count - first), sums);
    }
    if (!world)
      return sums;
    std::vector<double> each(count * ranks);
    world->gather(sums.data(), count * sizeof(double), each.data(),
                  "collecting the endings' losses");
    for (uint64_t i = 0; i < count; ++i)
      sums[i] = each[i / rows % ranks * count + i];
    shortened = world->sum(shortened, "counting cut contexts");
    return sums;
  }

  /// Contexts whose beginning was left out for want of room.
  uint64_t cut() const { return shortened; }
  HellaSwagFile::Tokens endingOf(uint64_t index) const {
    return file.example(index / HellaSwagFile::kEndings)
        .endings[index % HellaSwagFile::kEndings];
  }

private:
  void scoreRows(uint64_t first, uint64_t some, std::vector<double> &sums) {
    std::vector<uint64_t> begins(some);
    auto *in = reinterpret_cast<int32_t *>(session.stage(*tokens));
    auto *out = reinterpret_cast<int32_t *>(session.stage(*targets));
    // What follows a text changes nothing before it.
    std::fill_n(in, rows * length, 0);
    std::fill_n(out, rows * length, 0);
    for (uint64_t row = 0; row < some; ++row)
      begins[row] = write(first + row, in + row * length, out + row * length);
    session.run(entry);
    std::vector<double> all =
        session.readElements(*losses, 0, int64_t(some * length));
    for (uint64_t row = 0; row < some; ++row) {
      uint64_t begin = row * length + begins[row];
      for (uint64_t i = 0, n = endingOf(first + row).count; i < n; ++i)
        sums[first + row] += all[begin + i];
    }
  }

  /// Writes context and ending, and returns where the loss of the ending's
  /// first token is.
  uint64_t write(uint64_t index, int32_t *in, int32_t *out) {
    const HellaSwagFile::Example example =
        file.example(index / HellaSwagFile::kEndings);
    const HellaSwagFile::Tokens
        &context = example.context,
        &ending = example.endings[index % HellaSwagFile::kEndings];
    // The last token is a target only.
    uint64_t kept = std::min(context.count, length + 1 - ending.count);
    shortened += kept < context.count && index % HellaSwagFile::kEndings == 0;
    std::vector<int32_t> text;
    for (uint64_t i = context.count - kept; i < context.count; ++i)
      text.push_back(file.word(context.first + i));
    for (uint64_t i = 0; i < ending.count; ++i)
      text.push_back(file.word(ending.first + i));
    std::copy(text.begin(), text.end() - 1, in);
    std::copy(text.begin() + 1, text.end(), out);
    return kept - 1;
  }

  Session &session;
  const blurt_entry &entry;
  const HellaSwagFile &file;
  const blurt_tensor *tokens, *targets, *losses;
  World *world;
  Share share;
  uint64_t rows, length, shortened = 0;
};

} // namespace

void blurt::runHellaSwag(const blurt_program &program,
                         const EvalOptions &options) {
  const blurt_entry &entry = requireEntry(program, "eval", "eval");
  HellaSwagFile file(options.hellaswag,
                     findMetadataInt(program, "vocab_size").value_or(0));
  Session session(program, options.session());
  Scorer scorer(session, entry, file);
  loadParameters(options.weights, program, session.arena(), session.pool());
  if (!options.metrics.empty() && options.leads())
    checkWritable("--metrics", options.metrics, 256, /*device=*/true);
  std::vector<double> sums = scorer.score();
  if (!options.leads())
    return;
  reportMemoryCheck(session);
  uint64_t right = 0, rightByMean = 0;
  for (size_t i = 0; i < file.size(); ++i) {
    size_t best = 0, bestMean = 0;
    auto sum = [&](size_t k) { return sums[i * HellaSwagFile::kEndings + k]; };
    auto mean = [&](size_t k) {
      return sum(k) /
             double(scorer.endingOf(i * HellaSwagFile::kEndings + k).count);
    };
    for (size_t k = 1; k < HellaSwagFile::kEndings; ++k) {
      best = sum(k) < sum(best) ? k : best;
      bestMean = mean(k) < mean(bestMean) ? k : bestMean;
    }
    unsigned label = file.example(i).label;
    right += best == label;
    rightByMean += bestMean == label;
  }
  auto count = static_cast<unsigned long long>(file.size());
  if (scorer.cut() && !options.quiet)
    std::fprintf(stderr,
                 "note: %llu of %llu contexts are longer than the program was "
                 "compiled for and lose their beginning\n",
                 static_cast<unsigned long long>(scorer.cut()), count);
  double accuracy = double(right) / double(count);
  double normalised = double(rightByMean) / double(count);
  std::printf("HellaSwag: accuracy %.4f, normalised %.4f, %llu examples\n",
              accuracy, normalised, count);
  nlohmann::ordered_json line;
  line["hellaswag_accuracy"] = accuracy;
  line["hellaswag_accuracy_normalised"] = normalised;
  line["examples"] = count;
  writeResult(options, line.dump());
}
