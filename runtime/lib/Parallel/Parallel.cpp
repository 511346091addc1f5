//===- Parallel.cpp - Parallel loops of compiled programs -----------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Context.h"
#include "blurt/blurt.h"

using namespace blurt;

void blurt_parallel(void *ctx, blurt_kernel kernel, void *const *args,
                    int64_t tasks, int64_t grain) {
  static_cast<Context *>(ctx)->pool().forEach(
      tasks, grain,
      [=](int64_t begin, int64_t end) { kernel(args, begin, end); });
}
