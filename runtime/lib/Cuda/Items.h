//===- Items.h - Numbers of what a program queues ---------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Kernel i of the table is item i, product i is item -1 - i; collective i and
// waiting for it, and what no table has, are numbers that those never reach.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_LIB_CUDA_ITEMS_H
#define BLURT_LIB_CUDA_ITEMS_H

#include <cstdint>

namespace blurt {

enum Item : int32_t {
  kPause = INT32_MIN, ///< not timed, or nothing in the queue
  kStore,             ///< the store of an index
  kCopiesIn,          ///< inputs and scalars
  kCopiesOut,         ///< outputs of one number
  kFirstWait = INT32_MIN / 4 * 3,
  kFirstCollective = INT32_MIN / 2
};

} // namespace blurt

#endif // BLURT_LIB_CUDA_ITEMS_H
