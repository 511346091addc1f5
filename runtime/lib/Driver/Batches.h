//===- Batches.h - What goes into an entry's inputs -------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_DRIVER_BATCHES_H
#define BLURT_LIB_DRIVER_BATCHES_H

#include "blurt/Session.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace blurt {

/// Data on the command line: files, and the options that name them.
/// Which part of every batch is this rank's: equal runs of rows, in their
/// order.
struct Share {
  int64_t rank = 0, ranks = 1;
};

struct DataOptions {
  std::string flag, files;
  std::string labelsFlag, labels;
};

/// Data cut into windows (sequences of tokens, or images), of which each call
/// of an entry takes the same number.
class Batches {
public:
  virtual ~Batches() = default;

  /// Of all ranks together, like all numbers here but those of `rowOf`.
  int64_t rows() const { return rowsACall; }
  /// Tokens a window; an image counts as one.
  int64_t length() const { return unitsAWindow; }
  /// Tokens a call.
  int64_t units() const { return rowsACall * unitsAWindow; }

  /// Rows of this rank in a microbatch, and the row of the batch that the first
  /// one of microbatch `k` is.
  int64_t rowsHere() const { return ownRows; }
  int64_t microbatchesACall() const { return microbatches; }
  uint64_t rowOf(int64_t k) const {
    return uint64_t((k * share.ranks + share.rank) * ownRows);
  }

  /// Tokens in all of the data.
  virtual uint64_t size() const = 0;
  /// Hex digits that tell other data from this.
  virtual std::string digest() const = 0;
  /// Windows in one pass over the data.
  virtual uint64_t windows() const = 0;
  /// From now on the windows of each pass come in an order by `seed`.
  virtual void shuffle(uint64_t seed) = 0;
  /// Writes the inputs of the next call, which begins with the `window`-th
  /// window drawn. The data repeats without end.
  virtual void stage(Session &session, uint64_t window) const = 0;
  /// Whether windows have labels, and the label of a window drawn.
  virtual bool labelled() const { return false; }
  virtual int64_t label(uint64_t) const { return -1; }

  /// "tokens", "images".
  virtual const char *unitName() const = 0;

protected:
  /// `rows` is what one rank has in a microbatch.
  Batches(int64_t rows, int64_t microbatches, int64_t length, Share share)
      : ownRows(rows), microbatches(microbatches), share(share),
        rowsACall(rows * microbatches * share.ranks), unitsAWindow(length) {}

private:
  int64_t ownRows, microbatches;
  Share share;
  int64_t rowsACall, unitsAWindow;
};

/// Opens the data for an entry by its inputs: `tokens` and `targets`, or
/// `image` and `label`. Throws Error (bad input) if it has others.
std::unique_ptr<Batches> openBatches(const blurt_program &program,
                                     const blurt_entry &entry,
                                     const DataOptions &options,
                                     std::string_view command,
                                     Share share = {});

} // namespace blurt

#endif // BLURT_LIB_DRIVER_BATCHES_H
