//===- Sharding.h - meshes, shardings, collectives --------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// A mesh is the devices of a program in a grid with named axes. How a value is
// cut among them is said in terms of those axes, in the attribute
// `blu.sharding`: of an operation, one entry a result; of an argument of a step
// or of a region, its own. An entry is a dictionary: `dims`, for each dim the
// axes that it is cut along, the outermost first, and `partial`, the axes
// along which the devices hold the terms of a sum. A value without the
// attribute is whole on every device.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_SHARDING_H
#define BLU_SHARDING_H

#include "Blu/Blu.h"
#include "mlir/IR/BuiltinOps.h"

#define GET_OP_CLASSES
#include "Blu/BluShardingOps.h.inc"

namespace mlir::blu {

/// The names that a mesh may use, outermost first: replicas, pipeline stages,
/// parts of the context, parts of layers.
extern const llvm::StringLiteral kMeshAxes[4];

struct Mesh {
  /// Axes of more than one device, in the order of `kMeshAxes`.
  SmallVector<std::pair<std::string, int64_t>> axes;

  /// Devices along `axis`, 1 if the mesh does not have it.
  int64_t getSize(StringRef axis) const;
  int64_t getNumDevices() const;

  /// "dp=4,tp=2"; an error through `emitError` for anything else.
  static FailureOr<Mesh> parse(StringRef text,
                               function_ref<InFlightDiagnostic()> emitError);
  /// Of the attribute `blu.mesh` of a module, empty without one.
  static Mesh get(ModuleOp module);
  void set(ModuleOp module) const;
};

struct Sharding {
  using Axes = SmallVector<StringAttr, 1>;
  SmallVector<Axes> dims;
  Axes partial;

  static Sharding whole(Type type);
  bool isWhole() const;
  bool isCut() const;
  bool operator==(const Sharding &other) const = default;

  DictionaryAttr getAttr(MLIRContext *context) const;
  static FailureOr<Sharding> get(Attribute attr);

  /// The type of what a device has of a value of `type`.
  RankedTensorType getLocalType(RankedTensorType type, const Mesh &mesh) const;
  /// Fails, saying why, if `type` cannot be cut like this: an axis that is used
  /// twice or that the mesh lacks, an extent that does not divide.
  LogicalResult verify(RankedTensorType type, const Mesh &mesh,
                       function_ref<InFlightDiagnostic()> emitError) const;
};

/// Elements of a device's piece of `count` elements cut among `size`.
inline int64_t getPieceSize(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}
/// The type of a device's piece of a value, with dim 0 left alone if `batched`.
RankedTensorType getPieceType(RankedTensorType type, int64_t size,
                              bool batched);

} // namespace mlir::blu

#endif // BLU_SHARDING_H
