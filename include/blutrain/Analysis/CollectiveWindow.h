//===- CollectiveWindow.h - while a collective is under way -----*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// What may run while an asynchronous collective does, in tensor form: from its
// place to the first operation that uses what it gives. Where a loop does no
// more than collect that, it may go on through the next iteration; what it
// reads then lies in a ring of two slots, so that the next iteration's can be
// computed meanwhile.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_ANALYSIS_COLLECTIVEWINDOW_H
#define BLUTRAIN_ANALYSIS_COLLECTIVEWINDOW_H

#include "Blurt/Collective.h"

namespace blutrain {

/// Slots of a ring: one is read while the other is written.
constexpr int64_t kRingSlots = 2;

struct CollectiveWindow {
  /// Whether it goes on through the next iteration of the loop around it.
  bool isCarried = false;
  /// In the block of the collective, or of the loop around it if it is carried:
  /// the first operation that needs the results; the terminator if none does.
  mlir::Operation *end = nullptr;
};

/// Takes the users that are collectives for asynchronous only if marked so.
CollectiveWindow getWindow(mlir::blurt::CollectiveOp collective);

/// The first asynchronous collective that reads `value` or a view of it and is
/// carried, if the value belongs into a ring therefore: it is computed within
/// the iteration, and not collected itself.
mlir::blurt::CollectiveOp getRingReader(mlir::Value value);

/// On an all-gather at whose place iteration i starts what iteration i+1
/// gathers and waits for its own; what comes first is started before the loop.
constexpr llvm::StringLiteral kAheadAttr = "blurt.ahead";

/// Whether an all-gather in a loop may be started an iteration ahead: it reads
/// slices of the loop's, and nothing collects or carries what it gives.
bool canStartAhead(mlir::blurt::CollectiveOp collective);

/// Calls `visit` with the users of `value` and of views of it.
void forEachUser(mlir::Value value,
                 llvm::function_ref<void(mlir::OpOperand &)> visit);

} // namespace blutrain

#endif // BLUTRAIN_ANALYSIS_COLLECTIVEWINDOW_H
