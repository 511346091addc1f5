//===- FuseBias.cpp - biases that the product's library adds --------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Transforms/Passes.h"

#include "Blurt/BlurtDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace blutrain {
#define GEN_PASS_DEF_FUSEBIASPASS
#include "blutrain/Transforms/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace blutrain;

namespace {
/// A group that adds a row vector to a product before all else.
struct Match {
  blurt::GemmOp gemm;
  unsigned input; ///< the product, of the group's inputs
  unsigned bias;  ///< the vector
  arith::AddFOp add;
};

struct FuseBias : blutrain::impl::FuseBiasPassBase<FuseBias> {
  void runOnOperation() override;
};
} // namespace

/// The input whose element `value` of the body is; nothing if it is none.
static std::optional<unsigned> getInput(blurt::GroupOp group, Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || argument.getArgNumber() >= group.getInputs().size())
    return std::nullopt;
  return argument.getArgNumber();
}

/// Whether all that is read of `sum` is its rounding to `type`.
static bool isRounded(blurt::GroupOp group, arith::AddFOp sum, Type type) {
  return llvm::all_of(sum->getUses(), [&](OpOperand &use) {
    if (isa<arith::TruncFOp>(use.getOwner()))
      return use.getOwner()->getResult(0).getType() == type;
    return use.getOwner() == group.getBodyBlock()->getTerminator() &&
           getElementTypeOrSelf(
               group.getResultTypes()[use.getOperandNumber()]) == type;
  });
}

/// Drops roundings of `element` to the type it is stored in.
static void dropRounding(Value element) {
  for (Operation *user : llvm::make_early_inc_range(element.getUsers())) {
    auto rounded = dyn_cast<arith::TruncFOp>(user);
    if (!rounded)
      continue;
    for (Operation *reader : llvm::make_early_inc_range(rounded->getUsers()))
      if (auto extended = dyn_cast<arith::ExtFOp>(reader)) {
        extended.getResult().replaceAllUsesWith(element);
        extended.erase();
      }
    if (rounded->use_empty())
      rounded.erase();
  }
}

static std::optional<Match> match(blurt::GroupOp group, unsigned input) {
  auto gemm = group.getInputs()[input].getDefiningOp<blurt::GemmOp>();
  if (!gemm || gemm.getC() || gemm.getBias() ||
      gemm.getResult(0).getNumUses() != 1)
    return std::nullopt;
  auto type = cast<RankedTensorType>(gemm.getResult(0).getType());
  Value element = group.getBodyBlock()->getArgument(input);
  Type elementType = type.getElementType();
  if (type.getRank() != 2 || !(elementType.isF32() || elementType.isBF16()) ||
      !element.hasOneUse())
    return std::nullopt;
  auto add = dyn_cast<arith::AddFOp>(*element.user_begin());
  if (!add)
    return std::nullopt;
  Value other = add.getLhs() == element ? add.getRhs() : add.getLhs();
  std::optional<unsigned> bias = getInput(group, other);
  if (!bias || *bias == input ||
      group.getInputs()[*bias].getType() !=
          RankedTensorType::get({type.getDimSize(1)}, type.getElementType()) ||
      group.getInputMap(*bias).getResult(0) !=
          group.getInputMap(input).getResult(1))
    return std::nullopt;
  if (!elementType.isF32() && !isRounded(group, add, elementType))
    return std::nullopt;
  return Match{gemm, input, *bias, add};
}

/// The group without output `i`, and without inputs that its body no longer
/// uses.
static blurt::GroupOp rebuild(blurt::GroupOp group,
                              std::optional<unsigned> drop) {
  OpBuilder builder(group);
  SmallVector<Value> inputs;
  SmallVector<AffineMap> inputMaps, outputMaps;
  SmallVector<Type> types;
  SmallVector<unsigned> keptInputs, keptOutputs;
  Block *body = group.getBodyBlock();
  for (unsigned i = 0, e = group.getNumResults(); i < e; ++i)
    if (i != drop) {
      keptOutputs.push_back(i);
      types.push_back(group.getResultTypes()[i]);
      outputMaps.push_back(group.getOutputMap(i));
    }
  for (unsigned i = 0, e = group.getInputs().size(); i < e; ++i) {
    BlockArgument argument = body->getArgument(i);
    bool used = llvm::any_of(argument.getUses(), [&](OpOperand &use) {
      return use.getOwner() != body->getTerminator() ||
             use.getOperandNumber() != drop;
    });
    if (!used)
      continue;
    keptInputs.push_back(i);
    inputs.push_back(group.getInputs()[i]);
    inputMaps.push_back(group.getInputMap(i));
  }
  auto result = blurt::GroupOp::create(
      builder, group.getLoc(), group.getKernel(), group.getDomain(),
      group.getReduce(), inputs, inputMaps, group.getTables(), ValueRange(),
      types, outputMaps, [&](OpBuilder &b, Location, ValueRange arguments) {
        IRMapping mapping;
        for (auto [i, input] : llvm::enumerate(keptInputs))
          mapping.map(body->getArgument(input), arguments[i]);
        for (unsigned i = 0, e = group.getTables().size(); i < e; ++i)
          mapping.map(group.getTableArg(i), arguments[keptInputs.size() + i]);
        for (Operation &op : body->without_terminator())
          b.clone(op, mapping);
        SmallVector<Value> yielded;
        for (unsigned i : keptOutputs)
          yielded.push_back(mapping.lookupOrDefault(group.getYielded()[i]));
        return yielded;
      });
  for (auto [i, output] : llvm::enumerate(keptOutputs))
    group.getResult(output).replaceAllUsesWith(result.getResult(i));
  group.erase();
  return result;
}

void FuseBias::runOnOperation() {
  SmallVector<blurt::GroupOp> groups;
  getOperation().walk([&](blurt::GroupOp group) { groups.push_back(group); });
  for (blurt::GroupOp group : groups) {
    std::optional<Match> found;
    for (unsigned i = 0, e = group.getInputs().size(); i < e && !found; ++i)
      found = match(group, i);
    if (!found)
      continue;
    // Where the group stands, the bias is there as well.
    blurt::GemmOp gemm = found->gemm;
    gemm->moveBefore(group);
    gemm.getBiasMutable().assign(group.getInputs()[found->bias]);
    Value element = group.getBodyBlock()->getArgument(found->input);
    found->add.getResult().replaceAllUsesWith(element);
    found->add.erase();
    // What was rounded after the sum comes rounded from the product.
    if (getElementTypeOrSelf(gemm.getResult(0).getType()).isBF16())
      dropRounding(element);
    ++numBiases;
    // An output that is the sum itself is the product's from here on.
    std::optional<unsigned> same;
    for (unsigned i = 0, e = group.getNumResults(); i < e; ++i)
      if (group.getYielded()[i] == element &&
          group.getOutputMap(i) == group.getInputMap(found->input) &&
          group.getResultTypes()[i] == gemm.getResult(0).getType())
        same = i;
    if (same)
      group.getResult(*same).replaceAllUsesExcept(gemm.getResult(0), group);
    if (same && group.getNumResults() == 1)
      group.erase();
    else
      rebuild(group, same);
  }
}
