//===- Tune.cpp - The command `tune` --------------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "blurt/Error.h"
#include "blurt/File.h"

using namespace blurt;

void blurt::runTune(const blurt_program &program, const TuneOptions &options) {
  verifyProgram(program);
  checkWritable("-o", options.output,
                uint64_t(program.device->num_gemms) * 1024);
  tuneProducts(program, options.device, int(options.repeat), options.search,
               options.output, options.quiet);
}
