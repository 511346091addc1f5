//===- FusionModel.cpp - aligning the domains of two groups ---------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "FusionModel.h"
#include "FusionViews.h"

using namespace mlir;
using namespace blutrain;
using blurt::GroupOp;

//===----------------------------------------------------------------------===//
// IndexSpace
//===----------------------------------------------------------------------===//

unsigned IndexSpace::create(int64_t extent, unsigned side) {
  unsigned digit = nodes.size();
  nodes.push_back({extent, 1u << side, digit});
  return digit;
}

unsigned IndexSpace::find(unsigned digit) {
  while (nodes[digit].parent != digit)
    digit = nodes[digit].parent;
  return digit;
}

void IndexSpace::resolve(unsigned digit, Digits &result) {
  digit = find(digit);
  if (nodes[digit].high < 0) {
    result.push_back(digit);
    return;
  }
  resolve(nodes[digit].high, result);
  resolve(nodes[digit].low, result);
}

Digits IndexSpace::resolve(ArrayRef<unsigned> digits) {
  Digits result;
  for (unsigned digit : digits)
    resolve(digit, result);
  return result;
}

void IndexSpace::split(unsigned digit, int64_t lowExtent) {
  unsigned high = nodes.size(), low = high + 1;
  unsigned sides = nodes[digit].sides;
  int64_t extent = nodes[digit].extent;
  nodes.push_back({extent / lowExtent, sides, high});
  nodes.push_back({lowExtent, sides, low});
  nodes[digit].high = high;
  nodes[digit].low = low;
}

bool IndexSpace::equate(ArrayRef<unsigned> a, ArrayRef<unsigned> b) {
  Digits restA = resolve(a), restB = resolve(b);
  while (!restA.empty() && !restB.empty()) {
    unsigned x = restA.back(), y = restB.back();
    int64_t extentX = getExtent(x), extentY = getExtent(y);
    if (extentX != extentY) {
      Digits &larger = extentX > extentY ? restA : restB;
      int64_t small = std::min(extentX, extentY);
      if (std::max(extentX, extentY) % small != 0)
        return false;
      unsigned cutDigit = larger.pop_back_val();
      split(cutDigit, small);
      larger.push_back(nodes[cutDigit].high);
      larger.push_back(nodes[cutDigit].low);
      continue;
    }
    restA.pop_back();
    restB.pop_back();
    // Cutting an equal digit above may have changed what these are.
    x = find(x);
    y = find(y);
    if (x == y)
      continue;
    if (nodes[x].sides & nodes[y].sides)
      return false;
    nodes[x].sides |= nodes[y].sides;
    nodes[y].parent = x;
  }
  return restA.empty() && restB.empty();
}

std::optional<SmallVector<Digits>> IndexSpace::cut(ArrayRef<unsigned> digits,
                                                   ArrayRef<int64_t> shape) {
  Digits rest = resolve(digits);
  SmallVector<Digits> dims(shape.size());
  for (int64_t i = shape.size() - 1; i >= 0; --i) {
    int64_t needed = shape[i];
    while (needed > 1) {
      if (rest.empty())
        return std::nullopt;
      unsigned digit = rest.pop_back_val();
      int64_t extent = getExtent(digit);
      if (needed % extent == 0) {
        dims[i].insert(dims[i].begin(), digit);
        needed /= extent;
      } else if (extent % needed == 0) {
        split(digit, needed);
        rest.push_back(nodes[digit].high);
        dims[i].insert(dims[i].begin(), nodes[digit].low);
        needed = 1;
      } else {
        return std::nullopt;
      }
    }
  }
  if (!rest.empty())
    return std::nullopt;
  return dims;
}

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

Value blutrain::stripReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<blurt::ReshapeOp>())
    value = reshape.getSource();
  return value;
}

bool blutrain::isViewOp(Operation *op) {
  return isa<blurt::ReshapeOp, blurt::TransposeOp>(op);
}

int64_t blutrain::getBytes(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() * blurt::getElementBytes(type.getElementType());
}

int64_t blutrain::getBytesMoved(GroupOp group) {
  int64_t bytes = 0;
  DenseSet<Value> seen;
  for (Value input : group.getInputs())
    if (seen.insert(stripReshapes(input)).second)
      bytes += getBytes(input);
  for (Value result : group.getResults())
    bytes += getBytes(result);
  return bytes;
}

bool blutrain::hasOtherReaders(Value value, GroupOp reader) {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    Operation *owner = use.getOwner();
    if (owner == reader)
      return use.getOperandNumber() >= reader.getInputs().size();
    return !isViewOp(owner) || hasOtherReaders(owner->getResult(0), reader);
  });
}

bool blutrain::isScalarGroup(GroupOp group) {
  return llvm::all_of(group.getDomain(), [](int64_t e) { return e == 1; });
}

//===----------------------------------------------------------------------===//
// Planning
//===----------------------------------------------------------------------===//

namespace {
/// A group in terms of digits.
struct GroupModel {
  mutable GroupOp op;         // its getters are not const
  SmallVector<Digits> domain; ///< one digit a dim, none for extent 1

  GroupModel(GroupOp op, IndexSpace &space, unsigned side) : op(op) {
    for (int64_t extent : op.getDomain()) {
      Digits &digits = domain.emplace_back();
      if (extent > 1)
        digits.push_back(space.create(extent, side));
    }
  }
  Digits access(AffineMap map) const {
    Digits digits;
    for (AffineExpr expr : map.getResults())
      if (auto dim = dyn_cast<AffineDimExpr>(expr))
        llvm::append_range(digits, domain[dim.getPosition()]);
    return digits;
  }
  Digits all() const {
    Digits digits;
    for (const Digits &dim : domain)
      llvm::append_range(digits, dim);
    return digits;
  }
  Digits reduced() const {
    Digits digits;
    for (int64_t dim : op.getReduce())
      llvm::append_range(digits, domain[dim]);
    return digits;
  }
  bool reduces() const { return !op.getReduce().empty(); }
};

class Planner {
public:
  Planner(GroupOp first, GroupOp second, MergeKind kind)
      : models{{first, space, 0}, {second, space, 1}}, kind(kind) {
    plan.first = first;
    plan.second = second;
  }
  std::optional<MergePlan> run();

private:
  /// An access before it is expressed by dims.
  struct Raw {
    Value value;
    Digits digits;
  };

  bool alignEdges();
  bool alignSiblings();
  bool alignRest();
  bool chooseDomain();
  bool setDims(SmallVector<Digits> dims, ArrayRef<int64_t> extents);
  std::optional<SmallVector<int64_t>> toDims(ArrayRef<unsigned> digits);
  SmallVector<Digits> coarsen(ArrayRef<unsigned> digits);
  bool checkOutputs();
  void countBytes();

  bool isSubset(ArrayRef<unsigned> a, ArrayRef<unsigned> b) {
    Digits resolvedB = space.resolve(b);
    return llvm::all_of(space.resolve(a), [&](unsigned digit) {
      return llvm::is_contained(resolvedB, digit);
    });
  }

  IndexSpace space;
  GroupModel models[2];
  MergeKind kind;
  MergePlan plan;
  SmallVector<Raw> inputs[2], outputs;
  SmallVector<std::pair<Operation *, Digits>> indices;
  SmallVector<Digits> dimDigits;
};
} // namespace

/// Equates what `second` reads of `first` with what `first` writes.
bool Planner::alignEdges() {
  GroupModel &first = models[0], &second = models[1];
  for (auto [i, input] : llvm::enumerate(second.op.getInputs())) {
    Digits digits = second.access(second.op.getInputMap(i));
    Value value = input;
    while (value.getDefiningOp() != first.op) {
      Operation *op = value.getDefiningOp();
      if (auto reshape = dyn_cast_or_null<blurt::ReshapeOp>(op)) {
        value = reshape.getSource();
        continue;
      }
      auto transpose = dyn_cast_or_null<blurt::TransposeOp>(op);
      if (!transpose)
        break;
      auto pieces =
          space.cut(digits, cast<RankedTensorType>(value.getType()).getShape());
      if (!pieces)
        break;
      SmallVector<Digits> source(pieces->size());
      for (auto [to, from] : llvm::enumerate(transpose.getPermutation()))
        source[from] = (*pieces)[to];
      digits.clear();
      for (const Digits &dim : source)
        llvm::append_range(digits, dim);
      value = transpose.getSource();
    }
    if (value.getDefiningOp() != first.op) {
      inputs[1].push_back(
          {stripReshapes(input), second.access(second.op.getInputMap(i))});
      continue;
    }
    unsigned number = cast<OpResult>(value).getResultNumber();
    if (!space.equate(digits, first.access(first.op.getOutputMap(number))))
      return false;
    inputs[1].push_back({value, {}});
  }
  return true;
}

/// Equates the accesses to the largest value that both groups read.
bool Planner::alignSiblings() {
  for (auto [i, input] : llvm::enumerate(models[1].op.getInputs()))
    inputs[1].push_back(
        {stripReshapes(input), models[1].access(models[1].op.getInputMap(i))});
  if (kind == MergeKind::Scalar)
    return true;
  const Raw *best[2] = {};
  for (const Raw &a : inputs[0])
    for (const Raw &b : inputs[1])
      if (a.value == b.value &&
          (!best[0] || getBytes(a.value) > getBytes(best[0]->value))) {
        best[0] = &a;
        best[1] = &b;
      }
  return best[0] && !best[0]->digits.empty() &&
         space.equate(best[0]->digits, best[1]->digits);
}

/// If an elementwise group has digits that the other one does not have so far,
/// they can only be those that the other one reduces. Those are equated by a
/// value that both read, else in order.
bool Planner::alignRest() {
  for (unsigned side : {0u, 1u}) {
    GroupModel &guest = models[side], &host = models[1 - side];
    if (guest.reduces() || !host.reduces() || isSubset(guest.all(), host.all()))
      continue;
    for (const Raw &a : inputs[side])
      for (const Raw &b : inputs[1 - side])
        if (a.value == b.value && !a.digits.empty() && !b.digits.empty() &&
            !isSubset(a.digits, host.all()))
          if (!space.equate(a.digits, b.digits))
            return false;
    Digits hostDigits = space.resolve(host.all()), mine, theirs;
    for (unsigned digit : space.resolve(guest.all()))
      if (!llvm::is_contained(hostDigits, digit))
        mine.push_back(digit);
    if (mine.empty())
      continue;
    Digits guestDigits = space.resolve(guest.all());
    for (unsigned digit : space.resolve(host.reduced()))
      if (!llvm::is_contained(guestDigits, digit))
        theirs.push_back(digit);
    if (!space.equate(mine, theirs))
      return false;
  }
  return true;
}

std::optional<SmallVector<int64_t>> Planner::toDims(ArrayRef<unsigned> digits) {
  Digits rest = space.resolve(digits);
  ArrayRef<unsigned> left(rest);
  SmallVector<int64_t> dims;
  while (!left.empty()) {
    auto dim = llvm::find_if(dimDigits, [&](const Digits &d) {
      return !d.empty() && d.front() == left.front();
    });
    if (dim == dimDigits.end() || left.size() < dim->size() ||
        left.take_front(dim->size()) != ArrayRef<unsigned>(*dim))
      return std::nullopt;
    dims.push_back(dim - dimDigits.begin());
    left = left.drop_front(dim->size());
  }
  return dims;
}

/// Joins neighbours that every access has together.
SmallVector<Digits> Planner::coarsen(ArrayRef<unsigned> digits) {
  SmallVector<Digits> accesses;
  for (auto &list : {inputs[0], inputs[1], outputs})
    for (const Raw &raw : list)
      accesses.push_back(space.resolve(raw.digits));
  for (auto &[op, index] : indices)
    accesses.push_back(space.resolve(index));
  auto joined = [&](unsigned x, unsigned y) {
    return llvm::all_of(accesses, [&](const Digits &access) {
      auto itX = llvm::find(access, x), itY = llvm::find(access, y);
      if (itX == access.end() || itY == access.end())
        return itX == itY;
      return itX + 1 == itY;
    });
  };
  SmallVector<Digits> dims;
  for (unsigned digit : digits) {
    if (!dims.empty() && joined(dims.back().back(), digit))
      dims.back().push_back(digit);
    else
      dims.push_back({digit});
  }
  return dims;
}

/// Takes `dims` for the domain if all accesses can be expressed by them.
bool Planner::setDims(SmallVector<Digits> dims, ArrayRef<int64_t> extents) {
  dimDigits = std::move(dims);
  plan.domain.assign(extents.begin(), extents.end());
  for (unsigned side : {0u, 1u}) {
    plan.inputs[side].clear();
    for (const Raw &raw : inputs[side]) {
      auto access = toDims(raw.digits);
      if (!access)
        return false;
      SmallVector<int64_t> shape;
      for (int64_t dim : *access)
        shape.push_back(extents[dim]);
      bool isInternal = raw.value.getDefiningOp() == plan.first && side == 1;
      if (!isInternal && !isReshapeView(raw.value, shape))
        return false;
      plan.inputs[side].push_back({raw.value, *access});
    }
  }
  plan.outputs.clear();
  for (const Raw &raw : outputs) {
    auto access = toDims(raw.digits);
    if (!access)
      return false;
    plan.outputs.push_back({raw.value, *access});
  }
  plan.indices.clear();
  for (auto &[op, digits] : indices) {
    auto access = toDims(digits);
    if (!access)
      return false;
    plan.indices[op] = *access;
  }
  return true;
}

bool Planner::chooseDomain() {
  bool reduces[2] = {models[0].reduces(), models[1].reduces()};
  if (reduces[0] && reduces[1]) {
    // The same domain, dim for dim, and the same reduced dims.
    if (models[0].op.getDomain() != models[1].op.getDomain() ||
        models[0].op.getReduce() != models[1].op.getReduce())
      return false;
    for (auto [a, b] : llvm::zip_equal(models[0].domain, models[1].domain))
      if (space.resolve(a) != space.resolve(b))
        return false;
  }
  if (reduces[0] || reduces[1]) {
    GroupModel &host = models[reduces[0] ? 0 : 1];
    GroupModel &guest = models[reduces[0] ? 1 : 0];
    if (!isSubset(guest.all(), host.all()))
      return false;
    plan.reduce.assign(host.op.getReduce().begin(), host.op.getReduce().end());
    SmallVector<Digits> dims;
    for (const Digits &dim : host.domain)
      dims.push_back(space.resolve(dim));
    return setDims(dims, host.op.getDomain());
  }

  // Elementwise: the domain of the group that has all digits, as coarse as the
  // operands allow.
  if (!isSubset(models[0].all(), models[1].all()))
    return false;
  Digits digits = space.resolve(models[1].all());
  auto extentsOf = [&](ArrayRef<Digits> dims) {
    SmallVector<int64_t> extents;
    for (const Digits &dim : dims) {
      int64_t extent = 1;
      for (unsigned digit : dim)
        extent *= space.getExtent(digit);
      extents.push_back(extent);
    }
    return extents;
  };
  SmallVector<Digits> dims = coarsen(digits);
  if (setDims(dims, extentsOf(dims)))
    return true;
  dims.clear();
  for (unsigned digit : digits)
    dims.push_back({digit});
  return setDims(dims, extentsOf(dims));
}

/// Outputs have every dim that is not reduced.
bool Planner::checkOutputs() {
  for (const MergePlan::Access &output : plan.outputs)
    for (int64_t dim = 0, e = plan.domain.size(); dim < e; ++dim)
      if (plan.domain[dim] > 1 && !llvm::is_contained(plan.reduce, dim) &&
          !llvm::is_contained(output.dims, dim))
        return false;
  return true;
}

void Planner::countBytes() {
  plan.bytesBefore = getBytesMoved(plan.second);
  if (kind != MergeKind::Clone)
    plan.bytesBefore += getBytesMoved(plan.first);
  SmallVector<std::pair<Value, SmallVector<int64_t>>> seen;
  for (unsigned side : {0u, 1u})
    for (const MergePlan::Access &input : plan.inputs[side]) {
      if (side == 1 && input.value.getDefiningOp() == plan.first)
        continue;
      if (llvm::any_of(seen, [&](auto &s) { return s.first == input.value; }))
        continue;
      seen.push_back({input.value, input.dims});
      plan.bytesAfter += getBytes(input.value);
    }
  for (const MergePlan::Access &output : plan.outputs)
    plan.bytesAfter += getBytes(output.value);
}

std::optional<MergePlan> Planner::run() {
  GroupModel &first = models[0], &second = models[1];
  for (auto [i, input] : llvm::enumerate(first.op.getInputs()))
    inputs[0].push_back(
        {stripReshapes(input), first.access(first.op.getInputMap(i))});
  bool isEdge = kind == MergeKind::Edge || kind == MergeKind::Clone;
  if (!(isEdge ? alignEdges() : alignSiblings()) || !alignRest())
    return std::nullopt;

  if (kind != MergeKind::Clone)
    for (Value result : first.op.getResults())
      if (!isEdge || hasOtherReaders(result, second.op))
        outputs.push_back(
            {result, first.access(first.op.getOutputMap(
                         cast<OpResult>(result).getResultNumber()))});
  for (Value result : second.op.getResults())
    outputs.push_back({result, second.access(second.op.getOutputMap(
                                   cast<OpResult>(result).getResultNumber()))});
  for (const GroupModel &model : models)
    for (auto index : model.op.getBodyBlock()->getOps<blurt::IndexOp>())
      indices.push_back({index, model.domain[index.getDim()]});

  if (!chooseDomain() || !checkOutputs())
    return std::nullopt;

  // What the decision depends on.
  Digits kept;
  for (auto [dim, digits] : llvm::enumerate(dimDigits))
    if (!llvm::is_contained(plan.reduce, int64_t(dim)))
      llvm::append_range(kept, digits);
  plan.recomputesFirst = !isSubset(kept, first.all());
  if (first.reduces() && !second.reduces()) {
    Digits mine = space.resolve(second.all());
    for (unsigned digit : space.resolve(first.reduced()))
      plan.secondVariesAlongReduced |= llvm::is_contained(mine, digit);
  }
  countBytes();
  return plan;
}

std::optional<MergePlan> blutrain::planMerge(GroupOp first, GroupOp second,
                                             MergeKind kind) {
  return Planner(first, second, kind).run();
}
