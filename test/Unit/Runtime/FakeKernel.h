//===- FakeKernel.h - Kernels of the stand-in driver ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_TEST_FAKEKERNEL_H
#define BLURT_TEST_FAKEKERNEL_H

#include <cstdint>

/// What the stand-in's tensor maps say; as large as the driver's.
struct FakeMap {
  void *address;
  uint32_t type, rank, swizzle;
  uint32_t extents[5], strides[4], box[5];
  uint8_t rest[52];
};
static_assert(sizeof(FakeMap) == 128);

/// What FakeCuda.cpp finds in the executable under a kernel's symbol.
struct FakeKernel {
  void (*run)(void *const *args);
  int numArgs;
  int staticShared = 0;
  int numMaps = 0; ///< tensor maps; `run` gets the addresses of copies
};

#endif // BLURT_TEST_FAKEKERNEL_H
