//===- PlanMutation.h - mistakes in sharded programs ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// What a faulty pass could do to a program, one mistake at a time. Left out are
// changes that leave the same program:
// - the order of pieces in a `blu.local_shard` of gradients, which ZeRO-0 has
//   for the norm alone: it adds up squares;
// - two collectives that change places on one device and move the same number,
//   as the two counts of labels are.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_TEST_UNIT_PLANMUTATION_H
#define BLUTRAIN_TEST_UNIT_PLANMUTATION_H

#include "mlir/IR/BuiltinOps.h"

#include <random>
#include <string>

namespace blutrain::test {

enum class Mutation {
  DroppedCollective, ///< a device goes on with what it has itself
  WrongAxis,         ///< along another axis, or met by another number
  DoubledScale,      ///< what is moved is multiplied or divided by two
  UnsyncedNorm,      ///< the norm is not that of all gradients
  SwappedOrder,      ///< of values in a call, or of calls on one device
};

/// Changes `module`, which the shard stage left. Returns what was done, or
/// nothing if this mistake cannot be made in it. Sets `isOfOneDevice` if it is
/// one that only one device makes.
std::string mutatePlan(mlir::ModuleOp module, Mutation mutation,
                       std::mt19937_64 &random, bool &isOfOneDevice);

} // namespace blutrain::test

#endif // BLUTRAIN_TEST_UNIT_PLANMUTATION_H
