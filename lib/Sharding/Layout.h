//===- Layout.h - what a layout file says -----------------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_SHARDING_LAYOUT_H
#define BLUTRAIN_LIB_SHARDING_LAYOUT_H

#include "Blu/Sharding.h"

#include <vector>

namespace blutrain {

/// How tensors are cut where it is not as by default.
class Layout {
public:
  /// Fails after an error at a line of the file.
  static mlir::FailureOr<Layout> read(mlir::MLIRContext *context,
                                      llvm::StringRef path);

  /// The sharding of the input of that name, whose dims are without that of
  /// microbatches; nothing if the file leaves it as it is. Fails after an error
  /// if it cannot be cut like this.
  mlir::FailureOr<std::optional<mlir::blu::Sharding>>
  getInput(llvm::StringRef name, mlir::RankedTensorType type,
           const mlir::blu::Mesh &mesh);

  /// Whether a parameter and its state stay whole on every replica. `type` is
  /// without the dim of a stack. Fails after an error if the file wants it cut.
  mlir::FailureOr<bool> isUnsharded(llvm::StringRef name,
                                    mlir::RankedTensorType type,
                                    const mlir::blu::Mesh &mesh);

  /// Fails after an error for a name that no tensor has.
  mlir::LogicalResult checkUsed() const;

private:
  struct Entry {
    enum class Kind { Input, Parameter, Unsharded } kind;
    std::string name;
    mlir::Location loc;
    mlir::blu::Sharding sharding = {};
    bool isUsed = false;
  };
  class Reader;

  std::vector<Entry> entries;
};

} // namespace blutrain

#endif // BLUTRAIN_LIB_SHARDING_LAYOUT_H
