//===- Compile.h - model file to executable ---------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_DRIVER_COMPILE_H
#define BLUTRAIN_DRIVER_COMPILE_H

#include "blutrain/Pipelines/Stages.h"

#include <string>

namespace blutrain {

struct CompileOptions {
  std::string input = "-";
  std::string output;
  StageOptions stages;
  /// The input is what `from` leaves; the output is what `to` leaves, as MLIR
  /// text, or the executable if there is no `to`.
  Stage from = Stage::Input;
  std::optional<Stage> to;
  std::string dumpStages;  ///< folder for the IR at the exit of each stage
  std::string report;      ///< file for the plan report
  bool verifyPlan = false; ///< interpret the sharded program beside the whole
  std::string cpu = "native";
  std::string features;
  std::string linker;        ///< C++ driver that links
  std::string runtimeFolder; ///< where libblurt.a is, if not beside the tool
  bool saveTemps = false;    ///< keep OUTPUT.ll and OUTPUT.s
  /// As given but without --compile-to, for the reproducer line.
  std::string commandLine;
};

/// Compiles; diagnostics go to standard error. Returns the exit code: 0, or 1
/// for a program or options that cannot be compiled. Nothing is left
/// half-written.
int compile(const CompileOptions &options);

} // namespace blutrain

#endif // BLUTRAIN_DRIVER_COMPILE_H
