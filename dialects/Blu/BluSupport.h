//===- BluSupport.h - shape rules and gradient helpers ----------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Shared by the op families: shape inference with located errors, and small
// builders that gradient rules are written with.
//
//===----------------------------------------------------------------------===//

#ifndef BLU_BLUSUPPORT_H
#define BLU_BLUSUPPORT_H

#include "Blu/Blu.h"
#include "mlir/IR/Builders.h"

namespace mlir::blu {

/// Where inference reports what is wrong: nowhere if there is no location.
struct InferSite {
  InferSite(std::optional<Location> loc, StringRef op = "")
      : loc(loc), op(op) {}
  InferSite(Location loc) : loc(loc) {}

  std::optional<Location> loc;
  StringRef op;
};

/// Emits `'op' op ARGS…` and fails.
template <typename... Args>
LogicalResult emitInferError(InferSite site, Args &&...args) {
  if (site.op.empty())
    return emitOptionalError(site.loc, std::forward<Args>(args)...);
  return emitOptionalError(site.loc, "'", site.op, "' op ",
                           std::forward<Args>(args)...);
}

/// `tensor<2x?xf32>` as it stands in a diagnostic about extents: `2x?`.
std::string shapeString(ArrayRef<int64_t> shape);

/// The shape that `shapes` broadcast to: aligned at the last dim, extents
/// equal, 1 or missing. An unknown extent meets any extent but is kept only
/// where no known one other than 1 decides. Emits an error naming the two
/// shapes on failure.
FailureOr<SmallVector<int64_t>>
inferBroadcast(InferSite site, ArrayRef<ArrayRef<int64_t>> shapes);

/// An extent as it stands in a diagnostic: `?` if it is unknown.
std::string extentString(int64_t extent);

/// True if both are equal or either is unknown.
bool extentsMatch(int64_t a, int64_t b);
bool shapesMatch(ArrayRef<int64_t> a, ArrayRef<int64_t> b);

/// Builders for gradient rules. All values are tensors of static shape.
class GradBuilder {
public:
  GradBuilder(OpBuilder &builder, Location loc) : b(builder), loc(loc) {}

  /// A rank-0 constant of `like`'s element type, to be broadcast.
  Value scalar(double value, Value like);
  /// Zeros of a type.
  Value zeros(RankedTensorType type);

  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value div(Value x, Value y);
  Value neg(Value x);
  Value compare(ComparePredicate predicate, Value x, Value y);
  Value select(Value condition, Value x, Value y);
  Value reduceSum(Value x, ArrayRef<int64_t> dims, bool keepDims);
  Value reshape(Value x, ArrayRef<int64_t> shape);
  Value transpose(Value x, ArrayRef<int64_t> permutation);
  Value broadcast(Value x, RankedTensorType type);
  Value cast(Value x, Type elementType);

  /// Sums `x` over the dims along which `type` was broadcast to `x`'s shape:
  /// the adjoint of broadcasting.
  Value reduceTo(Value x, RankedTensorType type);

  static RankedTensorType type(Value x) { return cast_type(x.getType()); }

private:
  static RankedTensorType cast_type(Type type) {
    return llvm::cast<RankedTensorType>(type);
  }
  OpBuilder &b;
  Location loc;
};

/// The type in which the cotangent of `value` is added up: its own, but where
/// it is a cast to fewer bits of a function's argument, or of a stack's slice
/// or a view of one, or such casts and constants concatenated, that argument's.
/// So weights may be rounded for a product without their gradients being
/// rounded.
RankedTensorType getCotangentType(Value value);

/// Whether the cotangent of `value` has more bits than it.
bool isRoundedParameter(Value value);

/// Re-infers every result type in `region` from its operands after the types of
/// block arguments or captured values changed. Fails after a diagnostic.
LogicalResult refineTypes(Region &region);

} // namespace mlir::blu

#endif // BLU_BLUSUPPORT_H
