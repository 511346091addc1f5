//===- FakeKernel.h - Kernels of the stand-in driver ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_TEST_FAKEKERNEL_H
#define BLURT_TEST_FAKEKERNEL_H

/// What FakeCuda.cpp finds in the executable under a kernel's symbol.
struct FakeKernel {
  void (*run)(void *const *args);
  int numArgs;
  int staticShared = 0;
};

#endif // BLURT_TEST_FAKEKERNEL_H
