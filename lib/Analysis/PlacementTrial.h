//===- PlacementTrial.h - may this content lie here? ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_ANALYSIS_PLACEMENTTRIAL_H
#define BLUTRAIN_LIB_ANALYSIS_PLACEMENTTRIAL_H

#include "blutrain/Analysis/Placement.h"

namespace blutrain {

/// Supposes that `content` lay at `view`, and answers what would follow.
class Placement::Trial {
public:
  Trial(const Placement &placement, ContentId content, ArenaView view)
      : placement(placement), lifetimes(*placement.lifetimes), id(content),
        content(lifetimes[content]), view(std::move(view)) {}

  /// Whether the view moves only with loops around the content's definition.
  bool isReachable() const;
  /// Fills `views` for all values of the content; false if some reshape has no
  /// strides there.
  bool computeViews();
  /// Whether all producers and readers accept the strides. After computeViews.
  bool isLayoutAccepted() const;
  /// Whether the content would destroy `other` or be destroyed by it: the end
  /// of the lifetime of `other` that is in the way.
  std::optional<int64_t> collides(ContentId other) const;

  Views views;

private:
  struct Side {
    ContentId id;
    const Content &content;
    const ArenaView &place;
  };

  const ArenaView &getView(mlir::Value value) const;
  ArenaView getRegion(const Side &side, const Lifetime &lifetime) const;
  ArenaView getSlot(const Side &side, const Lifetime &lifetime) const;
  bool collide(const Side &a, const Lifetime &lifeA, const Side &b,
               const Lifetime &lifeB) const;
  /// Whether `lifetime` says that its region holds the elements of `other`.
  bool holdsSame(const Side &side, const Lifetime &lifetime,
                 const Side &other) const;
  /// Whether `concat` holds the elements of `part`, in their place.
  bool isPart(const Side &concat, const Side &part) const;
  /// Whether `saved` begins with the elements of `initial`, in their place.
  bool isInitial(const Side &saved, const Side &initial) const;
  /// Whether the operation at the end of `reader` and the begin of `writer` may
  /// write the one over the other.
  bool mayOverwrite(const Side &reader, const Side &writer, int64_t time) const;
  bool mayGroupOverwrite(mlir::blurt::GroupOp group, const Side &reader,
                         const Side &writer) const;

  const Placement &placement;
  const Lifetimes &lifetimes;
  ContentId id;
  const Content &content;
  ArenaView view;
};

/// Where iteration i of `content`'s loop writes, if the content lies at `view`.
ArenaView getWriteSlotView(const Content &content, const ArenaView &view);

/// Where the initial value of a carry belongs, if the content lies at `view`.
ArenaView getSavedInitialView(const Content &content, const ArenaView &view);

} // namespace blutrain

#endif // BLUTRAIN_LIB_ANALYSIS_PLACEMENTTRIAL_H
