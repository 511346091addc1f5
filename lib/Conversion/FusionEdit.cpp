//===- FusionEdit.cpp - building merged groups, dropping dead parts -------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "FusionModel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace blutrain;
using blurt::GroupOp;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// The map by which a tensor of `shape` is accessed along `dims`, if its dims
/// other than those of extent 1 are just these.
static std::optional<AffineMap> getMap(ArrayRef<int64_t> shape,
                                       ArrayRef<int64_t> dims,
                                       ArrayRef<int64_t> domain,
                                       MLIRContext *context) {
  SmallVector<AffineExpr> results;
  size_t next = 0;
  for (int64_t extent : shape) {
    if (extent == 1) {
      results.push_back(getAffineConstantExpr(0, context));
      continue;
    }
    if (next == dims.size() || domain[dims[next]] != extent)
      return std::nullopt;
    results.push_back(getAffineDimExpr(dims[next++], context));
  }
  if (next != dims.size())
    return std::nullopt;
  return AffineMap::get(domain.size(), 0, results, context);
}

static SmallVector<int64_t> extentsOf(ArrayRef<int64_t> dims,
                                      ArrayRef<int64_t> domain) {
  SmallVector<int64_t> shape;
  for (int64_t dim : dims)
    shape.push_back(domain[dim]);
  return shape;
}

/// "a_b", or "a_etc" when the name grows long.
static std::string mergeNames(StringRef a, StringRef b) {
  constexpr size_t kMaxLength = 56;
  if (a == b || a.ends_with("_etc"))
    return a.str();
  if (a.size() + b.size() > kMaxLength)
    return (a + "_etc").str();
  return (a + "_" + b).str();
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

/// The index along several dims of the domain as one number.
static Value buildIndex(OpBuilder &b, Location loc, ArrayRef<int64_t> dims,
                        ArrayRef<int64_t> domain) {
  Type i64 = b.getI64Type();
  Value index;
  for (int64_t dim : dims) {
    Value next = blurt::IndexOp::create(b, loc, i64, b.getI64IntegerAttr(dim));
    if (index) {
      Value extent =
          arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(domain[dim]));
      Value scaled = arith::MulIOp::create(b, loc, index, extent);
      next = arith::AddIOp::create(b, loc, scaled, next);
    }
    index = next;
  }
  if (!index)
    index = arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(0));
  return index;
}

/// What a reader of `result` sees of the value that is written to it.
static Value roundToStored(OpBuilder &b, Location loc, Value value,
                           OpResult result) {
  Type element = getElementTypeOrSelf(result.getType());
  if (!element.isBF16())
    return value;
  // A value loaded from bf16 and written unchanged is exact.
  auto group = cast<GroupOp>(result.getOwner());
  Value written = group.getYielded()[result.getResultNumber()];
  if (auto argument = dyn_cast<BlockArgument>(written))
    if (getElementTypeOrSelf(
            group->getOperand(argument.getArgNumber()).getType())
            .isBF16())
      return value;
  Value rounded = arith::TruncFOp::create(b, loc, element, value);
  return arith::ExtFOp::create(b, loc, value.getType(), rounded);
}

/// Clones the operations of a body, but the terminator.
static void cloneBody(OpBuilder &b, GroupOp group, const MergePlan &plan,
                      IRMapping &mapping) {
  for (Operation &op : group.getBodyBlock()->without_terminator()) {
    if (isa<blurt::IndexOp>(op))
      mapping.map(
          op.getResult(0),
          buildIndex(b, op.getLoc(), plan.indices.lookup(&op), plan.domain));
    else
      b.clone(op, mapping);
  }
}

/// Erases views that nothing reads, and those they are views of. One of the
/// values may be a view of another.
static void eraseDeadViews(ValueRange values) {
  llvm::SetVector<Operation *> open;
  for (Value value : values)
    if (Operation *op = value.getDefiningOp())
      open.insert(op);
  while (!open.empty()) {
    Operation *op = open.pop_back_val();
    if (!isViewOp(op) || !op->use_empty())
      continue;
    if (Operation *source = op->getOperand(0).getDefiningOp())
      open.insert(source);
    op->erase();
  }
}

/// Erases views of `value` that nothing else reads.
static void eraseDeadViewsOf(Value value) {
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    if (!isViewOp(user))
      continue;
    eraseDeadViewsOf(user->getResult(0));
    if (user->use_empty())
      user->erase();
  }
}

GroupOp blutrain::applyMerge(OpBuilder &builder, const MergePlan &plan,
                             MergeKind kind) {
  GroupOp groups[2] = {plan.first, plan.second};
  MLIRContext *context = builder.getContext();
  Location loc = builder.getFusedLoc({groups[0].getLoc(), groups[1].getLoc()});

  // Inputs, each once; `position` says where an input of a group went.
  SmallVector<Value> inputs, tables;
  SmallVector<AffineMap> inputMaps;
  SmallVector<std::pair<Value, SmallVector<int64_t>>> known;
  SmallVector<int> position[2], tablePosition[2];
  for (unsigned side : {0u, 1u}) {
    for (const MergePlan::Access &input : plan.inputs[side]) {
      if (side == 1 && input.value.getDefiningOp() == groups[0]) {
        position[1].push_back(-1);
        continue;
      }
      std::pair<Value, SmallVector<int64_t>> key(input.value, input.dims);
      auto it = llvm::find(known, key);
      position[side].push_back(it - known.begin());
      if (it != known.end())
        continue;
      known.push_back(key);
      Value value = input.value;
      auto map = getMap(shapeOf(value), input.dims, plan.domain, context);
      if (!map) {
        auto type =
            RankedTensorType::get(extentsOf(input.dims, plan.domain),
                                  getElementTypeOrSelf(value.getType()));
        value = blurt::ReshapeOp::create(builder, loc, type, value);
        map = getMap(type.getShape(), input.dims, plan.domain, context);
      }
      inputs.push_back(value);
      inputMaps.push_back(*map);
    }
    for (Value table : groups[side].getTables()) {
      auto it = llvm::find(tables, table);
      tablePosition[side].push_back(it - tables.begin());
      if (it == tables.end())
        tables.push_back(table);
    }
  }

  SmallVector<Type> resultTypes;
  SmallVector<AffineMap> outputMaps;
  for (const MergePlan::Access &output : plan.outputs) {
    auto type = cast<RankedTensorType>(output.value.getType());
    auto map = getMap(type.getShape(), output.dims, plan.domain, context);
    if (!map) {
      type = RankedTensorType::get(extentsOf(output.dims, plan.domain),
                                   type.getElementType());
      map = getMap(type.getShape(), output.dims, plan.domain, context);
    }
    resultTypes.push_back(type);
    outputMaps.push_back(*map);
  }

  GroupOp merged = GroupOp::create(
      builder, loc, mergeNames(groups[0].getKernel(), groups[1].getKernel()),
      plan.domain, plan.reduce, inputs, inputMaps, tables, ValueRange(),
      resultTypes, outputMaps,
      [&](OpBuilder &b, Location bodyLoc, ValueRange arguments) {
        IRMapping mapping;
        for (unsigned side : {0u, 1u}) {
          Block *body = groups[side].getBodyBlock();
          for (auto [i, to] : llvm::enumerate(position[side])) {
            if (to >= 0) {
              mapping.map(body->getArgument(i), arguments[to]);
              continue;
            }
            auto result = cast<OpResult>(plan.inputs[1][i].value);
            Value value = mapping.lookup(
                groups[0].getYielded()[result.getResultNumber()]);
            mapping.map(body->getArgument(i),
                        roundToStored(b, bodyLoc, value, result));
          }
          for (auto [i, to] : llvm::enumerate(tablePosition[side]))
            mapping.map(groups[side].getTableArg(i),
                        arguments[inputs.size() + to]);
          cloneBody(b, groups[side], plan, mapping);
        }
        SmallVector<Value> yielded;
        for (const MergePlan::Access &output : plan.outputs) {
          auto result = cast<OpResult>(output.value);
          yielded.push_back(
              mapping.lookup(cast<GroupOp>(result.getOwner())
                                 .getYielded()[result.getResultNumber()]));
        }
        return yielded;
      });

  for (auto [output, result] :
       llvm::zip_equal(plan.outputs, merged.getResults())) {
    Value value = result;
    Value old = output.value;
    if (value.getType() != old.getType())
      value = blurt::ReshapeOp::create(builder, loc, old.getType(), value);
    old.replaceAllUsesWith(value);
  }
  SmallVector<Value> read(groups[1]->getOperands());
  groups[1].erase();
  eraseDeadViews(read);
  if (kind != MergeKind::Clone) {
    // Views of an output that the second group was the last to read.
    for (Value result : groups[0]->getResults())
      eraseDeadViewsOf(result);
    groups[0].erase();
  }
  return cleanGroup(merged);
}

//===----------------------------------------------------------------------===//
// Dead parts
//===----------------------------------------------------------------------===//

void blutrain::eraseDeadOps(Operation *root) {
  // Users come after what they use, and nested ops after their parents.
  SmallVector<Operation *> ops;
  root->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa_and_nonnull<blurt::BlurtDialect>(op->getDialect()) &&
        !isa_and_nonnull<GroupOp>(op->getParentOp()))
      ops.push_back(op);
  });
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

GroupOp blutrain::cleanGroup(GroupOp group) {
  Block *body = group.getBodyBlock();
  auto yield = cast<blurt::GroupYieldOp>(body->getTerminator());

  SmallVector<unsigned> live;
  for (OpResult result : group->getResults())
    if (!result.use_empty())
      live.push_back(result.getResultNumber());
  if (live.empty()) {
    SmallVector<Value> read(group->getOperands());
    group.erase();
    eraseDeadViews(read);
    return {};
  }
  if (live.size() != group.getNumResults()) {
    SmallVector<Value> yielded;
    SmallVector<Type> types;
    SmallVector<Attribute> maps;
    for (unsigned i : live) {
      yielded.push_back(group.getYielded()[i]);
      types.push_back(group.getResult(i).getType());
      maps.push_back(group.getOutputMaps()[i]);
    }
    yield->setOperands(yielded);
    OpBuilder builder(group);
    OperationState state(group.getLoc(), group->getName(), group->getOperands(),
                         types);
    state.getOrAddProperties<GroupOp::Properties>() = group.getProperties();
    state.getOrAddProperties<GroupOp::Properties>().setOutputMaps(
        builder.getArrayAttr(maps));
    state.addAttributes(llvm::to_vector(group->getDiscardableAttrs()));
    state.addRegion()->takeBody(group.getBody());
    auto smaller = cast<GroupOp>(builder.create(state));
    for (auto [to, from] : llvm::enumerate(live))
      group.getResult(from).replaceAllUsesWith(smaller.getResult(to));
    group.erase();
    group = smaller;
    body = group.getBodyBlock();
  }

  // A reverse iterator points behind its op, so that none outlives an erasure.
  for (auto op = std::prev(body->end()); op != body->begin();)
    if (Operation &last = *std::prev(op); last.use_empty())
      last.erase();
    else
      --op;

  // Inputs that are read twice or not at all.
  SmallVector<Attribute> maps(group.getInputMaps().getValue());
  unsigned numInputs = group.getInputs().size();
  for (unsigned i = 0; i < numInputs; ++i)
    for (unsigned j = 0; j < i; ++j)
      if (group.getInputs()[i] == group.getInputs()[j] && maps[i] == maps[j]) {
        body->getArgument(i).replaceAllUsesWith(body->getArgument(j));
        break;
      }
  for (int i = group.getTables().size() - 1; i >= 0; --i)
    if (group.getTableArg(i).use_empty()) {
      body->eraseArgument(numInputs + i);
      group.getTablesMutable().erase(i);
    }
  for (int i = numInputs - 1; i >= 0; --i)
    if (body->getArgument(i).use_empty()) {
      body->eraseArgument(i);
      maps.erase(maps.begin() + i);
      Value read = group.getInputs()[i];
      group.getInputsMutable().erase(i);
      eraseDeadViews(read);
    }
  group.setInputMapsAttr(ArrayAttr::get(group.getContext(), maps));
  return group;
}
