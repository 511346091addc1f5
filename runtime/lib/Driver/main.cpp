//===- main.cpp - Main of a compiled program ------------------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blurt/Driver.h"

int main(int argc, char **argv) {
  return blurt::runProgram(blurt_program_main, argc, argv);
}
