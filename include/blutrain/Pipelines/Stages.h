//===- Stages.h - the stages of compilation ---------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A program goes through the stages below in this order. What holds at the exit
// of each is said in docs/Architecture.md and checked by
// `blutrain-verify-stage`, with which every stage's pipeline ends.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_PIPELINES_STAGES_H
#define BLUTRAIN_PIPELINES_STAGES_H

#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>

namespace blutrain {

enum class Stage { Input, Blu, Grad, Shard, Fuse, Plan, Kernel, LLVM };

llvm::StringRef stringifyStage(Stage stage);
std::optional<Stage> symbolizeStage(llvm::StringRef name);

/// What the pipelines depend on, as the flags of bt-compile set it.
struct StageOptions {
  int64_t batch = 0;        ///< sequences (samples) a microbatch; 0: as written
  int64_t seq = 0;          ///< tokens a sequence; 0: as written
  int64_t microbatches = 1; ///< microbatches a step
  std::string target = "cpu"; ///< or `cuda`
  /// Of the kernels of a program for CUDA.
  std::vector<std::string> archs{"sm_80", "sm_89", "sm_90a"};
  std::string cudaToolkit; ///< its folder; searched for if empty
  std::string ptxFile;     ///< prefix of files for the PTX, if any
  std::string precision = "fp32";
  std::string optimizer = "adamw";
  /// As blu-append-optimizer takes them.
  std::vector<std::string> paramGroups;
  double dropout = -1; ///< negative: as written
  /// What the backward pass computes again: `none` (views only), `cheap` (norms
  /// and activations), `full` (whole stack iterations).
  std::string remat = "cheap";
  /// Most bytes of logits a chunk; 0: no chunks, negative: as suits the target.
  int64_t lossHeadBytes = -1;
  /// What the columns of logits become a multiple of; 0: they stay what they
  /// are, negative: as suits the target.
  int64_t padVocab = -1;
  int64_t memoryLimit = 0; ///< bytes, 0: none
  std::string mesh;        ///< `dp=4`; empty: one device
  std::string layout;      ///< file that says how tensors are cut; none
  int64_t zero = 0;        ///< ZeRO stage
  std::string link;        ///< `latency_us=10,gb_per_s=200`; as LinkModel reads
  bool vjp = false;        ///< compile the vector-Jacobian product
  bool debugMemory = false;
  bool debugNonfinite = false;
};

struct PlanReport;

/// Appends the passes that take a module from the stage before to `stage`. The
/// plan stage fills `report` if it is given, which must outlive the manager.
void buildStage(Stage stage, mlir::OpPassManager &manager,
                const StageOptions &options, PlanReport *report = nullptr);

/// Registers `blutrain-STAGE` for each stage, with the options' defaults.
void registerStagePipelines();

} // namespace blutrain

#endif // BLUTRAIN_PIPELINES_STAGES_H
