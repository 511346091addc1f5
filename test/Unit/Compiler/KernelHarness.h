//===- KernelHarness.h - compile and run plan-form code -------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Builds one entry over an arena, compiles it the way bt-compile does (kernel
// emission, lowering, object emission), loads the object into the test with
// ORC, and runs it on the real runtime. The arena starts full of NaN bytes;
// after a run every byte outside the outs must be as before.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_TEST_KERNELHARNESS_H
#define BLUTRAIN_TEST_KERNELHARNESS_H

#include "Blurt/BlurtDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>
#include <random>
#include <vector>

namespace mlir::blurt::test {

/// A memref in the arena.
struct Buffer {
  MemRefType type;
  SmallVector<int64_t> strides;
  int64_t offset;
  Value value;
};

using Coordinates = std::vector<int64_t>;

/// Calls `body` for every point of a box, the last dim fastest.
void forEachPoint(ArrayRef<int64_t> extents,
                  const std::function<void(const Coordinates &)> &body);

class KernelHarness {
public:
  KernelHarness();
  ~KernelHarness();

  /// Adds a buffer; without `strides` it is contiguous.
  unsigned add(ArrayRef<int64_t> shape, Type element,
               ArrayRef<int64_t> strides = {});
  /// Another view of the bytes of `buffer`.
  unsigned alias(unsigned buffer, ArrayRef<int64_t> shape,
                 ArrayRef<int64_t> strides, int64_t elementOffset = 0);
  Value value(unsigned buffer) { return buffers[buffer].value; }
  const Buffer &buffer(unsigned i) const { return buffers[i]; }

  double get(unsigned buffer, const Coordinates &at) const;
  void set(unsigned buffer, const Coordinates &at, double value);
  void fill(unsigned buffer, const std::function<double()> &next);
  /// Random normals (floats), 0 … 9 (integers), 0 or 1 (i1).
  void randomize(unsigned buffer);
  void *address(unsigned buffer) { return arena + buffers[buffer].offset; }

  /// Compiles the entry; false, with the diagnostics printed, if that fails.
  bool compile();
  void run(unsigned threads = 2);
  /// Processor seconds of one call on one thread, without checks.
  double time();
  /// Gives the module a `blurt.program` attribute, to be set before compile().
  void setProgram(DictionaryAttr program);
  /// A public symbol of the object, null if there is none.
  void *lookup(StringRef name);
  void runEntry(void (*entry)(void *, void *));
  /// True if all bytes but those of elements of `outs` are as before the run.
  bool othersUntouched(ArrayRef<unsigned> outs) const;
  /// The bytes of one buffer's elements.
  std::vector<double> contents(unsigned buffer) const;
  std::string bytes() const { return std::string(arena, arenaUsed); }

  MLIRContext &context() { return ctx; }
  ImplicitLocOpBuilder &builder() { return b; }
  std::mt19937 &random() { return rng; }
  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(rng);
  }
  Type f32() { return b.getF32Type(); }
  Type f64() { return b.getF64Type(); }

  std::string dump; ///< plan-form text, for messages
  bool verbose = false;

private:
  char *elementAddress(unsigned buffer, const Coordinates &at) const;

  MLIRContext ctx;
  OwningOpRef<ModuleOp> module;
  ImplicitLocOpBuilder b;
  std::vector<Buffer> buffers;
  char *arena = nullptr;
  int64_t arenaUsed = 0;
  std::vector<char> before;
  struct Jit;
  std::unique_ptr<Jit> jit;
  std::mt19937 rng{12345};
};

/// What `group` (in memref form, over buffers of `harness`) computes, point by
/// point in f64. `outputs[i]` is indexed by the elements of out i in row-major
/// order. `magnitudes` gives for each output element the largest sum of
/// absolute values that entered it, by which to judge rounding.
void interpretGroup(KernelHarness &harness, GroupOp group,
                    ArrayRef<unsigned> inputs, ArrayRef<unsigned> tables,
                    std::vector<std::vector<double>> &outputs);

} // namespace mlir::blurt::test

#endif // BLUTRAIN_TEST_KERNELHARNESS_H
