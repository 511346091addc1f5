//===- WholeState.h - state without its cuts ---------------------*- C++
//-*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Checkpoints hold whole tensors whatever plan wrote them. Of a program whose
// state is cut among its ranks this is the same program with whole state, as
// far as reading and writing state goes, in memory of the host.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_WHOLESTATE_H
#define BLURT_WHOLESTATE_H

#include "blurt/Arena.h"
#include "blurt/Program.h"
#include "blurt/World.h"

#include <cstddef>
#include <vector>

namespace blurt {

class WholeState {
public:
  /// The program outlives the object.
  explicit WholeState(const blurt_program &program);

  /// Whether anything is cut; if not, `program` is the program itself.
  bool isCut() const { return cut; }
  const blurt_program &program() const { return cut ? whole : original; }

  /// Copies the state of all ranks into `to`, on rank 0 alone; all ranks call.
  void collect(World *world, const Arena &from, std::vector<std::byte> &to);
  /// Copies this rank's part of `from` into the state.
  void distribute(const World *world, const std::vector<std::byte> &from,
                  const Arena &to) const;

private:
  const blurt_program &original;
  bool cut = false;
  blurt_program whole;
  std::vector<blurt_tensor> tensors;
};

} // namespace blurt

#endif // BLURT_WHOLESTATE_H
