//===- Batches.cpp - What goes into an entry's inputs ---------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Batches.h"
#include "blurt/Error.h"
#include "blurt/Images.h"
#include "blurt/Random.h"
#include "blurt/TokenShards.h"

#include <optional>

using namespace blurt;

namespace {

class TokenBatches : public Batches {
public:
  TokenBatches(const blurt_tensor &tokens, const blurt_tensor &targets,
               const blurt_entry &entry, const DataOptions &options,
               int64_t vocabulary, Share share)
      : Batches(entry.batch, entry.microbatches, entry.seq, share),
        tokens(tokens), targets(targets),
        stream(options.flag, options.files, vocabulary),
        whole(options.flag, stream, rows(), entry.seq),
        reader(options.flag, stream, entry.batch, entry.seq) {
    if (!options.labels.empty())
      throw badInput(options.labelsFlag +
                     ": this model reads tokens, which have no labels");
  }

  uint64_t size() const override { return stream.size(); }
  std::string digest() const override { return stream.digest(); }
  uint64_t windows() const override {
    return (stream.size() - 1) / uint64_t(length());
  }
  void shuffle(uint64_t seed) override { reader.shuffle(seed); }
  void stage(Session &session, uint64_t window) const override {
    auto *in = reinterpret_cast<int32_t *>(session.stage(tokens));
    auto *out = reinterpret_cast<int32_t *>(session.stage(targets));
    for (int64_t k = 0; k < microbatchesACall(); ++k) {
      reader.readFrom(window + rowOf(k), in, out);
      in += rowsHere() * length();
      out += rowsHere() * length();
      // Comes from the disk while this call runs.
      reader.prefetch(window + uint64_t(rows()) + rowOf(k));
    }
  }
  const char *unitName() const override { return "tokens"; }

private:
  const blurt_tensor &tokens, &targets;
  TokenStream stream;
  BatchReader whole; ///< checks that there is a batch for all ranks
  BatchReader reader;
};

class ImageBatches : public Batches {
public:
  ImageBatches(const blurt_tensor &image, const blurt_tensor &label,
               const blurt_entry &entry, const DataOptions &options,
               int64_t classes, Share share)
      : Batches(entry.batch, entry.microbatches, 1, share), imageInput(image),
        labelInput(label),
        elements(
            uint64_t(elementCount(image) / (entry.batch * entry.microbatches))),
        images(options.flag, options.files, options.labelsFlag, options.labels,
               elements, uint64_t(classes)) {
    if (images.size() < uint64_t(rows()))
      throw badInput(options.flag + ": expected at least " +
                     std::to_string(rows()) + " images for one batch, got " +
                     std::to_string(images.size()));
  }

  uint64_t size() const override { return images.size(); }
  std::string digest() const override { return images.digest(); }
  uint64_t windows() const override { return images.size(); }
  void shuffle(uint64_t seed) override { shuffleSeed = seed; }
  void stage(Session &session, uint64_t window) const override {
    std::byte *to = session.stage(imageInput);
    if (imageInput.dtype == BLURT_F64)
      fill(reinterpret_cast<double *>(to), window);
    else
      fill(reinterpret_cast<float *>(to), window);
    auto *labels = reinterpret_cast<int32_t *>(session.stage(labelInput));
    forRows(
        [&](uint64_t row) { *labels++ = images.label(drawn(window + row)); });
  }
  bool labelled() const override { return true; }
  int64_t label(uint64_t window) const override {
    return images.label(drawn(window));
  }
  const char *unitName() const override { return "images"; }

private:
  uint64_t drawn(uint64_t window) const {
    uint64_t count = images.size();
    return shuffleSeed
               ? permuted(*shuffleSeed, window / count, window % count, count)
               : window % count;
  }

  /// Bytes become numbers from 0 to 1.
  template <typename T> void fill(T *to, uint64_t window) const {
    forRows([&](uint64_t row) {
      const uint8_t *from = images.image(drawn(window + row));
      for (uint64_t i = 0; i < elements; ++i)
        *to++ = T(from[i]) / T(255);
    });
  }

  /// The rows of the batch that are this rank's.
  template <typename Fn> void forRows(Fn &&use) const {
    for (int64_t k = 0; k < microbatchesACall(); ++k)
      for (int64_t row = 0; row < rowsHere(); ++row)
        use(rowOf(k) + uint64_t(row));
  }

  const blurt_tensor &imageInput, &labelInput;
  uint64_t elements;
  ImageSet images;
  std::optional<uint64_t> shuffleSeed;
};

} // namespace

/// Throws Error (run-time failure) unless an input is of one of the dtypes and
/// `fits`; `elements` says what it would have to have.
static void requireInput(const blurt_entry &entry, const blurt_tensor &t,
                         std::initializer_list<int32_t> dtypes, bool fits,
                         const std::string &elements) {
  bool known = false;
  std::string names;
  for (int32_t dtype : dtypes) {
    known |= t.dtype == dtype;
    names += (names.empty() ? "" : " or ") + std::string(dtypeName(dtype));
  }
  if (!known || !fits)
    throw failure(std::string("program table: entry '") + entry.name +
                  "': input '" + t.name + "': expected " + names + " with " +
                  elements + ", got " + typeString(t));
}

/// How many classes the logits of a classifier tell apart.
static int64_t classCount(const blurt_program &program) {
  const blurt_entry *eval = findEntry(program, "eval");
  const blurt_tensor *logits =
      eval ? findTensor(*eval, BLURT_OUTPUT, "logits") : nullptr;
  if (!logits || logits->rank < 1)
    throw badInput("this model reads images, but has no result 'logits' that "
                   "says how many classes there are");
  return logits->shape[logits->rank - 1];
}

std::unique_ptr<Batches> blurt::openBatches(const blurt_program &program,
                                            const blurt_entry &entry,
                                            const DataOptions &options,
                                            std::string_view command,
                                            Share share) {
  std::string names;
  int count = 0;
  for (const blurt_tensor &t : tensorsOf(entry))
    if (t.role == BLURT_INPUT) {
      names += (names.empty() ? "" : ", ") + std::string(t.name);
      ++count;
    }
  auto input = [&](const char *name) {
    return findTensor(entry, BLURT_INPUT, name);
  };
  int64_t rows = entry.batch * entry.microbatches;
  auto multiple = [&](const std::string &what, int64_t elements) {
    return std::to_string(elements) + " elements (microbatches × batch" + what +
           ")";
  };
  if (count == 2 && input("tokens") && input("targets")) {
    for (const blurt_tensor *t : {input("tokens"), input("targets")})
      requireInput(entry, *t, {BLURT_I32},
                   entry.seq > 0 && elementCount(*t) == rows * entry.seq,
                   multiple(" × seq", rows * entry.seq));
    return std::make_unique<TokenBatches>(
        *input("tokens"), *input("targets"), entry, options,
        findMetadataInt(program, "vocab_size").value_or(0), share);
  }
  if (count == 2 && input("image") && input("label")) {
    const blurt_tensor &image = *input("image"), &label = *input("label");
    requireInput(entry, image, {BLURT_F32, BLURT_F64},
                 rows > 0 && elementCount(image) % rows == 0,
                 "a multiple of " + multiple("", rows));
    requireInput(entry, label, {BLURT_I32}, elementCount(label) == rows,
                 multiple("", rows));
    return std::make_unique<ImageBatches>(image, label, entry, options,
                                          classCount(program), share);
  }
  throw badInput("this model's inputs (" + names +
                 ") need a data format that " + std::string(command) +
                 " does not read yet");
}
