//===- Error.cpp - Errors with an exit code -------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Error.h"

#include <system_error>

std::string blurt::systemMessage(const std::string &path,
                                 const std::string &what, int errnum) {
  return path + ": " + what + ": " + std::generic_category().message(errnum);
}
