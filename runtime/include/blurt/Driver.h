//===- Driver.h - Command line of a compiled program ------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLURT_DRIVER_H
#define BLURT_DRIVER_H

#include "blurt/blurt.h"

namespace blurt {

/// The whole of `./program <command> …`: parses the command line, runs the
/// command, prints errors to stderr. Returns the exit code.
int runProgram(const blurt_program &program, int argc, char **argv);

} // namespace blurt

#endif // BLURT_DRIVER_H
