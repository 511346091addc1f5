//===- SplitProducts.cpp - products of operands in pieces -----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Analysis/SplitProducts.h"

using namespace blutrain;
using namespace mlir;

/// Chooses the parts of the depth by a model of the time: a processor takes two
/// microseconds for 64 of the depth of a tile and as long to finish one;
/// partial products are written, read and written once more at 3.5 TB/s.
static void chooseParts(SplitProduct &p) {
  int64_t steps = llvm::divideCeil(p.k, SplitProduct::kDepth);
  constexpr double kStep = 2e-6, kFinish = 2e-6, kLaunch = 3e-6;
  constexpr double kBytesPerSecond = 3.5e12;
  constexpr int64_t kMostParts = 16, kLeastSteps = 8;
  // Batches are not cut.
  int64_t least =
      p.batch > 1 ? 1 : llvm::divideCeil(p.k, SplitProduct::kMostPartDepth);
  double best = 0;
  for (int64_t parts = least; parts <= std::max(least, kMostParts); ++parts) {
    int64_t each = llvm::divideCeil(steps, parts);
    if (parts > least && (p.batch > 1 || each < kLeastSteps))
      break;
    int64_t used = llvm::divideCeil(steps, each);
    auto waves =
        double(llvm::divideCeil(p.tiles() * used, SplitProduct::kProcessors));
    double time = waves * (double(each) * kStep + kFinish);
    if (used > 1)
      time += kLaunch + double(2 * used + 1) * 4 * double(p.m) * double(p.n) /
                            kBytesPerSecond;
    if (parts > least && time >= best)
      continue;
    best = time;
    p.parts = used;
    p.partDepth = each * SplitProduct::kDepth;
  }
}

void SplitProduct::layOut() {
  chooseParts(*this);
  bytes = 0;
  auto place = [&](int64_t size) {
    int64_t offset = bytes;
    bytes = int64_t(llvm::alignTo(bytes + size, 1024));
    return offset;
  };
  flag = place(4);
  maximaA = place(a.maximaBytes());
  maximaB = place(b.maximaBytes());
  scalesA = place(a.scaleBytes());
  scalesB = place(b.scaleBytes());
  planesA = place(SplitOperand::kMaxPlanes * a.batch * a.planeBytes());
  planesB = place(SplitOperand::kMaxPlanes * b.batch * b.planeBytes());
  partials = place(parts > 1 ? 4 * parts * m * n : 0);
}

int64_t blutrain::getSplitWorkspaceBytes(blurt::GemmOp op) {
  auto a = cast<ShapedType>(op.getA().getType());
  auto b = cast<ShapedType>(op.getB().getType());
  auto extents = [](ShapedType type) {
    return type.getRank() == 3 ? type.getDimSize(0) : 1;
  };
  int64_t first = a.getRank() - 2;
  int64_t m = a.getDimSize(first + (op.getTransA() ? 1 : 0));
  int64_t k = a.getDimSize(first + (op.getTransA() ? 0 : 1));
  int64_t n = b.getDimSize(first + (op.getTransB() ? 0 : 1));
  int64_t batchA = extents(a), batchB = extents(b);
  int64_t batch = std::max(batchA, batchB);
  int64_t most = 0;
  auto consider = [&](int64_t entries, int64_t rows, int64_t entriesA,
                      int64_t entriesB) {
    for (bool swapped : {false, true})
      for (bool alongA : {false, true})
        for (bool alongB : {false, true}) {
          SplitProduct p;
          p.batch = entries;
          p.m = rows, p.n = n, p.k = k;
          p.a = {alongA, entriesA, rows, k};
          p.b = {alongB, entriesB, n, k};
          if (swapped) {
            std::swap(p.m, p.n);
            std::swap(p.a, p.b);
          }
          p.layOut();
          most = std::max(most, p.bytes);
        }
  };
  consider(batch, m, batchA, batchB);
  // Row blocks with one right-hand side may become one tall product.
  if (batch > 1 && batchB == 1)
    consider(1, m * batch, 1, 1);
  return most;
}
