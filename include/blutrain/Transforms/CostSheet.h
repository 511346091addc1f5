//===- CostSheet.h - what a plan for several devices costs ------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_TRANSFORMS_COSTSHEET_H
#define BLUTRAIN_TRANSFORMS_COSTSHEET_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace blutrain {

/// The time of a collective on the links between devices: what a call takes
/// however little it moves, and what each byte that a device sends adds.
struct LinkModel {
  double latency;   ///< seconds a call
  double bandwidth; ///< bytes a second that a device sends

  double getSeconds(int64_t bytes) const {
    return latency + double(bytes) / bandwidth;
  }
  /// Assumed where nothing else is said: for `cuda` NVLink of an H200, else
  /// ranks on one host.
  static LinkModel getDefault(llvm::StringRef target);
  /// `latency_us=10,gb_per_s=200`, either of which may be left out.
  static llvm::Expected<LinkModel> parse(llvm::StringRef text,
                                         LinkModel defaults);
};

struct PlanReport;

/// All that a call of an entry, a step, sends.
struct EntryCost {
  std::string entry;
  int64_t calls = 0, bytes = 0;
  double seconds = 0;
};

/// Bytes of one kind of tensors in training, on each device.
struct MemoryCost {
  std::string name;
  int64_t bytes = 0;    ///< the most that is kept at one time
  int64_t formula = -1; ///< what ZeRO's formula says, if it does
};

struct CostSheet {
  int64_t devices = 1; ///< no sheet for one
  int64_t zero = 0;
  LinkModel link = LinkModel::getDefault("cpu");
  std::vector<EntryCost> entries;
  std::vector<MemoryCost> memory;
  /// Bytes of gradients and weights that a device sends a step by the formula,
  /// for stage 3 the most that it can be.
  int64_t sentFormula = 0;
};

/// Of a module in tensor form, of which `report` has owners and collectives;
/// sets their expected seconds.
CostSheet computeCost(mlir::ModuleOp module, LinkModel link,
                      PlanReport &report);

} // namespace blutrain

#endif // BLUTRAIN_TRANSFORMS_COSTSHEET_H
