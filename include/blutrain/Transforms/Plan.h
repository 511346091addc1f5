//===- Plan.h - the plan stage as a library ---------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// What `blurt-plan` does, for tools that want the report as data. The steps, in
// order: normalizeForPlan (copies that no placement can avoid), Lifetimes and
// Placement (Analysis), packBuffers (Analysis), and the rewriting to plan form.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_TRANSFORMS_PLAN_H
#define BLUTRAIN_TRANSFORMS_PLAN_H

#include "blutrain/Analysis/Packing.h"
#include "blutrain/Analysis/Placement.h"
#include "blutrain/Transforms/CostSheet.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include <optional>
#include <string>
#include <vector>

namespace blutrain {

struct PlanOptions {
  /// Refuse a plan with a higher peak; 0 means no limit.
  int64_t memoryLimit = 0;
  /// Bytes, at least, that are kept for the partial results of device kernels
  /// and library calls, one operation at a time; 0 for targets that need none.
  int64_t workspaceBytes = 0;
  RowPadding rowPadding;
  /// Emit calls of blurt_debug_define, _use and _retire.
  bool debugMemory = false;
  /// Emit calls of blurt_debug_finite.
  bool debugNonfinite = false;
  PackingOptions packing;
  /// Between the devices of a mesh.
  LinkModel link = LinkModel::getDefault("cpu");
};

/// One storage of the plan: who holds which bytes when.
struct PlanOwner {
  std::string name;     ///< tensor or kernel
  std::string location; ///< file:line:column of the source, if known
  std::string category; ///< param, moment1, moment2, cache, input, scalar,
                        ///< output, gradient, activation or workspace
  std::string entry;    ///< empty for state, which all entries share
  int64_t bytes = 0, offset = 0;
  /// Program positions, both included; state lives always (0, -1).
  int64_t begin = 0, end = -1;
};

struct PlanKernel {
  std::string name, entry;
  int64_t count = 0; ///< operations that launch it, loops counted once
};

/// A kernel, a library call or a loop, at its program position.
struct PlanStep {
  std::string name, location, entry;
  int64_t position = 0;
  int64_t depth = 0; ///< loops around it
  int64_t count = 1; ///< iterations, if it is a loop
};

/// A collective at its program position.
struct PlanCollective {
  std::string kind, location, entry, axis;
  int64_t size = 0; ///< devices that take part
  int64_t values = 0;
  int64_t position = 0;
  int64_t count = 1;  ///< how often it runs in a call of the entry
  int64_t bytes = 0;  ///< that a device sends each time
  double seconds = 0; ///< expected each time
  bool isAsync = false;
  bool isAhead = false; ///< of the next iteration of its loop
  /// What it is waited for in front of.
  std::vector<std::string> waits;
};

/// Memory of the device that is not in the arena.
struct PlanReserve {
  std::string name, note;
  std::optional<int64_t> bytes; ///< none if only the machine can tell
};

struct PlanEntry {
  std::string name;
  int64_t peakBytes = 0;
  /// State plus the most scratch that is live at one time.
  int64_t lowerBound = 0;
};

struct PlanReport {
  int64_t peakBytes = 0, lowerBound = 0, stateBytes = 0;
  /// Where the workspace lies; scratch begins after it.
  int64_t workspaceOffset = 0, workspaceBytes = 0;
  int64_t counterBytes = 0; ///< of what kernels count, behind the workspace
  int64_t scratchOffset() const {
    return workspaceOffset + workspaceBytes + counterBytes;
  }
  std::vector<PlanEntry> entries;
  std::vector<PlanOwner> owners;
  std::vector<PlanKernel> kernels;
  std::vector<PlanStep> schedule; ///< by entry, in order
  std::vector<PlanReserve> reserves;
  std::vector<PlanCollective> collectives; ///< by entry, in order
  CostSheet cost;
  int64_t copies = 0; ///< copies that placement could not avoid
};

/// Plans all functions of the module and rewrites them to plan form.
mlir::FailureOr<PlanReport> planModule(mlir::ModuleOp module,
                                       const PlanOptions &options);

/// Writes the report as one JSON object with the keys peak_bytes, lower_bound,
/// state_bytes, copies, entries, owners, reserves, kernels, schedule and
/// collectives, and for several devices cost.
void writePlanReportJson(const PlanReport &report, llvm::raw_ostream &os);
/// Writes it as a page that draws the arena over time and needs nothing else.
void writePlanReportHtml(const PlanReport &report, llvm::raw_ostream &os);
/// Writes what the name of the file asks for: `.html` the page, else JSON.
void writePlanReport(const PlanReport &report, llvm::StringRef path,
                     llvm::raw_ostream &os);

/// `blurt-plan` with options from C++; fills `report` if it is not null, which
/// must outlive the pass.
std::unique_ptr<mlir::Pass> createPlanPass(const PlanOptions &options,
                                           PlanReport *report);

/// Inserts, in tensor form, the copies that every placement needs: before a
/// reshape that no strides express, before a library call that cannot read the
/// strides of its operand, and of carried values that change places.
void normalizeForPlan(mlir::func::FuncOp func);

/// What blurt-verify-plan checks.
mlir::LogicalResult verifyPlan(mlir::ModuleOp module);

} // namespace blutrain

#endif // BLUTRAIN_TRANSFORMS_PLAN_H
