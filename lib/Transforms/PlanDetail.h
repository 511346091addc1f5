//===- PlanDetail.h - shared by the parts of the planner --------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_TRANSFORMS_PLANDETAIL_H
#define BLUTRAIN_LIB_TRANSFORMS_PLANDETAIL_H

#include "Blurt/Collective.h"
#include "blutrain/Analysis/Placement.h"
#include "blutrain/Transforms/Plan.h"
#include "mlir/IR/Builders.h"

namespace blutrain {

/// An identity group "copy" of `source`: into `target` in memref form, to a new
/// result if `target` is null.
mlir::blurt::GroupOp createCopy(mlir::OpBuilder &builder, mlir::Location loc,
                                mlir::Value source, mlir::Value target);

/// The value's bytes.
int64_t getTensorBytes(mlir::ShapedType type);

/// A function in the middle of being planned.
struct PlannedFunction {
  mlir::func::FuncOp func;
  std::unique_ptr<Lifetimes> lifetimes;
  std::optional<Placement> placement;
  /// Of each storage, in the arena.
  llvm::SmallVector<int64_t> offsets;
  int64_t peakBytes = 0, lowerBound = 0;
};

/// Emits the calls of `debug-memory` and `debug-nonfinite`.
class DebugEmitter {
public:
  DebugEmitter(mlir::ModuleOp module, mlir::Value context)
      : module(module), context(context) {}

  enum class Action { Define, Use, Retire, Check };
  /// Calls the runtime for each contiguous run of `memref`.
  void emit(mlir::OpBuilder &builder, mlir::Location loc, Action action,
            mlir::Value memref, llvm::StringRef what);

private:
  mlir::func::FuncOp getCallee(Action action);
  mlir::Value getString(mlir::OpBuilder &builder, mlir::Location loc,
                        llvm::StringRef what);

  mlir::ModuleOp module;
  mlir::Value context;
};

/// Replaces the function by its plan form; returns the number of copies. Sets
/// `planned.func` to the new function.
int64_t rewriteToPlan(PlannedFunction &planned, const PlanOptions &options);

/// A wait for an asynchronous collective, and what it is in front of.
struct PlacedWait {
  mlir::blurt::CollectiveOp collective;
  mlir::Operation *before;
};
/// Numbers the asynchronous collectives of a function in plan form and waits
/// for them where that is needed first.
llvm::SmallVector<PlacedWait> placeWaits(mlir::func::FuncOp func);

/// The kernel, library call or other operation and its place in the source.
std::string describeOperation(mlir::Operation *op);

/// The part of blurt-verify-plan that is about asynchronous collectives.
mlir::LogicalResult verifyWaits(mlir::func::FuncOp func);

/// A readable name of a location.
std::string getLocationString(mlir::Location loc);

/// The owners of a function's storages outside the state area.
void addOwners(const PlannedFunction &planned, PlanReport &report);

/// The name and category of a content, for reports and debug calls.
std::pair<std::string, std::string> describeContent(mlir::func::FuncOp func,
                                                    const Content &content);

} // namespace blutrain

#endif // BLUTRAIN_LIB_TRANSFORMS_PLANDETAIL_H
