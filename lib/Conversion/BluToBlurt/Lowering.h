//===- Lowering.h - how blu ops become blurt ops ----------------*- C++ -*-===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//
//
// Each family of ops has a file that adds one function an op to a
// `LoweringTable`. A function gets the op, whose operands are already values of
// `blurt` ops, and returns the values that replace its results.
//
//===----------------------------------------------------------------------===//

#ifndef BLUTRAIN_LIB_CONVERSION_BLUTOBLURT_LOWERING_H
#define BLUTRAIN_LIB_CONVERSION_BLUTOBLURT_LOWERING_H

#include "Blu/Blu.h"
#include "Blurt/BlurtDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

#include <functional>

namespace blutrain {

using mlir::ArrayRef;
using mlir::SmallVector;
using mlir::Value;

//===----------------------------------------------------------------------===//
// Bodies of groups
//===----------------------------------------------------------------------===//

/// Builds the scalar program of a group. Operations on numbers choose between
/// float and integer by the type of their operand.
class Body {
public:
  Body(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {}

  /// A constant of a float or integer type.
  Value constant(mlir::Type type, double value);
  Value integer(mlir::Type type, int64_t value);
  Value constant(mlir::Attribute value);

  Value add(Value x, Value y);
  Value sub(Value x, Value y);
  Value mul(Value x, Value y);
  Value div(Value x, Value y);
  Value max(Value x, Value y); ///< NaN if either is
  Value min(Value x, Value y); ///< NaN if either is
  Value compare(mlir::blu::ComparePredicate predicate, Value x, Value y);
  Value select(Value condition, Value x, Value y);

  Value neg(Value x);
  Value abs(Value x);
  Value exp(Value x);
  Value log(Value x);
  Value sqrt(Value x);
  Value rsqrt(Value x); ///< 1/√x by a division
  Value tanh(Value x);
  Value erfc(Value x);
  Value pow(Value x, Value y);
  /// 1/(1 + e^-x), without overflow and with full relative accuracy.
  Value sigmoid(Value x);

  Value bitAnd(Value x, Value y);
  Value bitXor(Value x, Value y);
  Value shiftRight(Value x, int64_t bits); ///< logical
  Value splitMix(Value x); ///< a step of SplitMix64 from the state x, an i64

  /// `value`, the scalar of elements of type `from`, as the scalar of elements
  /// of type `to`.
  Value cast(Value value, mlir::Type from, mlir::Type to);

  Value reduceSum(Value x);
  Value reduceMax(Value x);
  Value index(int64_t dim);
  Value load(Value table, ArrayRef<Value> indices);

private:
  mlir::OpBuilder &b;
  mlir::Location loc;
};

//===----------------------------------------------------------------------===//
// Lowering of one op
//===----------------------------------------------------------------------===//

using BodyFn =
    llvm::function_ref<SmallVector<Value>(Body &, ArrayRef<Value> inputs)>;

/// The place where an op is converted and builders for what it becomes.
class Lowering {
public:
  Lowering(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  mlir::OpBuilder &builder;
  mlir::Location loc;

  /// `value` under another shape of as many elements.
  Value reshape(Value value, ArrayRef<int64_t> shape);
  Value transpose(Value value, ArrayRef<int64_t> permutation);
  Value slice(Value value, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes);

  /// A tensor that holds `value` everywhere.
  Value splat(mlir::RankedTensorType type, double value);
  /// A tensor of the elements of `value`; null if they are neither all equal
  /// nor few.
  Value constant(mlir::ElementsAttr value);
  /// The elements of `value` in a tensor of their own.
  Value copy(Value value);

  /// One result element from the elements that broadcast to it.
  Value elementwise(llvm::StringRef kernel, mlir::RankedTensorType resultType,
                    mlir::ValueRange operands,
                    llvm::function_ref<Value(Body &, ArrayRef<Value>)> body);

  /// Reduces over everything: `terms` computes, from one element of each input
  /// (all of one shape), the values to reduce; `finish` computes the results
  /// from what they reduce to, as rank-0 tensors of `elementTypes`. If there is
  /// much to reduce it is done in two groups, so that the first can run in
  /// parallel; the cut depends on the shape alone.
  SmallVector<Value> reduceAll(llvm::StringRef kernel,
                               mlir::blurt::ReduceKind kind,
                               mlir::ValueRange inputs, BodyFn terms,
                               ArrayRef<mlir::Type> elementTypes,
                               BodyFn finish);
};

/// Builds one group.
class GroupBuilder {
public:
  /// For a dim of extent 1 that no dim of the domain stands for.
  static constexpr int64_t kUnit = -1;

  GroupBuilder(Lowering &lowering, llvm::StringRef kernel,
               ArrayRef<int64_t> domain, ArrayRef<int64_t> reduce = {})
      : lowering(lowering), kernel(kernel), domain(domain), reduce(reduce) {}

  /// Reads `value`, whose dim i runs with the domain's dim `dims[i]`. A splat
  /// constant does not become an input but a constant of the body.
  void input(Value value, ArrayRef<int64_t> dims);
  /// Reads `value`, aligned with the domain at the last dim.
  void broadcastInput(Value value);
  void table(Value value);
  void output(mlir::Type elementType, ArrayRef<int64_t> dims);
  /// The body gets a scalar for each input, then the tables.
  mlir::blurt::GroupOp build(BodyFn body);

private:
  mlir::AffineMap map(ArrayRef<int64_t> dims);

  Lowering &lowering;
  std::string kernel;
  SmallVector<int64_t> domain, reduce;
  SmallVector<Value> inputs, tables;
  SmallVector<mlir::AffineMap> inputMaps, outputMaps;
  SmallVector<mlir::Type> resultTypes;
  /// For each input that was asked for the constant that it is, or null.
  SmallVector<mlir::Attribute> constants;
};

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

inline mlir::RankedTensorType tensorType(Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline mlir::Type elementType(Value value) {
  return tensorType(value).getElementType();
}
/// The scalar type in which elements of `value` take part in a body.
inline mlir::Type computeType(Value value) {
  return mlir::blurt::GroupOp::getScalarType(elementType(value));
}
/// Elements before the last dim and along it: a tensor seen as rows.
std::pair<int64_t, int64_t> rowsOf(mlir::RankedTensorType type);

int64_t product(ArrayRef<int64_t> extents);

/// `product + addend` as one GEMM that adds to its result, or null: if
/// `product`, which nothing else may read, is that of a GEMM and `addend` is
/// dead after it, which `ownsAddend` asserts. Not for bf16, where the product
/// itself is rounded.
Value accumulateGemm(Lowering &lowering, Value product, Value addend,
                     bool ownsAddend = false);

//===----------------------------------------------------------------------===//
// Table of lowerings
//===----------------------------------------------------------------------===//

using LoweringResult = mlir::FailureOr<SmallVector<Value>>;

class LoweringTable {
public:
  template <typename OpTy> void add(LoweringResult (*lower)(OpTy, Lowering &)) {
    functions[mlir::TypeID::get<OpTy>()] = [lower](mlir::Operation *op,
                                                   Lowering &lowering) {
      return lower(llvm::cast<OpTy>(op), lowering);
    };
  }
  template <typename OpTy, typename Fn> void add(Fn lower) {
    functions[mlir::TypeID::get<OpTy>()] = [lower](mlir::Operation *op,
                                                   Lowering &lowering) {
      return LoweringResult(lower(llvm::cast<OpTy>(op), lowering));
    };
  }

  /// Fails after a diagnostic.
  LoweringResult lower(mlir::Operation *op, Lowering &lowering) const;

private:
  llvm::DenseMap<mlir::TypeID,
                 std::function<LoweringResult(mlir::Operation *, Lowering &)>>
      functions;
};

void addAttentionLowerings(LoweringTable &table);
void addElementwiseLowerings(LoweringTable &table);
void addEmbeddingLowerings(LoweringTable &table);
void addLossLowerings(LoweringTable &table);
void addMatmulLowerings(LoweringTable &table);
void addNormalizationLowerings(LoweringTable &table);
void addOptimizerLowerings(LoweringTable &table);
void addRandomLowerings(LoweringTable &table);
void addReductionLowerings(LoweringTable &table);
void addShapeLowerings(LoweringTable &table);
void addShardingLowerings(LoweringTable &table);
void addStructureLowerings(LoweringTable &table);

/// Moves the bodies of `blu.checkpoint`s to where these stand.
void inlineCheckpoints(mlir::Operation *root);

} // namespace blutrain

#endif // BLUTRAIN_LIB_CONVERSION_BLUTOBLURT_LOWERING_H
