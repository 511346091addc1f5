//===- PlanMutation.cpp - mistakes in sharded programs --------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "PlanMutation.h"

#include "Blu/BluSupport.h"
#include "Blu/Sharding.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain::test;

namespace {

using Random = std::mt19937_64;

int64_t elementsOf(Value value) {
  return GradBuilder::type(value).getNumElements();
}

template <typename T> T pick(ArrayRef<T> list, Random &random) {
  return list[random() % list.size()];
}

std::string nameOf(Operation *op) {
  return llvm::formatv("{0} in {1}", op->getName().getStringRef(),
                       op->getParentOp()->getName().getStringRef());
}

SmallVector<Operation *>
collectivesOf(ModuleOp module, function_ref<bool(Operation *)> filter = {}) {
  SmallVector<Operation *> all;
  module.walk([&](Operation *op) {
    if (isa<ReduceScatterOp, AllGatherOp, LocalShardOp>(op) &&
        (!filter || filter(op)))
      all.push_back(op);
  });
  return all;
}

/// What `result` is if a device takes its own piece for that of every device.
Value gatherAlone(OpBuilder &b, Value input, Value result, int64_t size) {
  GradBuilder gb(b, input.getLoc());
  RankedTensorType in = GradBuilder::type(input),
                   out = GradBuilder::type(result);
  int64_t rows = in.getRank() == 2 ? in.getDimSize(0) : 1;
  int64_t piece = elementsOf(input) / rows, count = elementsOf(result) / rows;
  Value flat = gb.reshape(input, {rows, piece});
  SmallVector<Value> copies(size_t(size), flat);
  Value all = ConcatOp::create(b, input.getLoc(), 1, copies);
  if (count < piece * size)
    all = SliceOp::create(b, input.getLoc(), all, 1, 0, count);
  return gb.reshape(all, out.getShape());
}

std::string dropCollective(ModuleOp module, Random &random) {
  SmallVector<Operation *> all = collectivesOf(
      module, [](Operation *op) { return !isa<LocalShardOp>(op); });
  Operation *op = pick<Operation *>(all, random);
  OpBuilder b(op);
  GradBuilder gb(b, op->getLoc());
  std::string what = "dropped " + nameOf(op);
  if (auto scatter = dyn_cast<ReduceScatterOp>(op)) {
    auto own = LocalShardOp::create(b, op->getLoc(), op->getResultTypes(),
                                    op->getOperands(), scatter.getAxis(),
                                    scatter.getSize());
    op->replaceAllUsesWith(own);
  } else {
    auto gather = cast<AllGatherOp>(op);
    auto sum = op->getResult(0).hasOneUse()
                   ? dyn_cast<ReduceSumOp>(*op->getUsers().begin())
                   : ReduceSumOp();
    if (sum && random() % 2) {
      what += " and its sum";
      sum.replaceAllUsesWith(
          gb.reshape(op->getOperand(0), sum.getType().getShape()));
      sum.erase();
    } else {
      for (auto [input, result] :
           llvm::zip_equal(op->getOperands(), op->getResults()))
        result.replaceAllUsesWith(
            gatherAlone(b, input, result, gather.getSize()));
    }
  }
  op->erase();
  return what;
}

std::string changeAxis(ModuleOp module, Random &random) {
  Operation *op = pick<Operation *>(collectivesOf(module), random);
  Builder b(module.getContext());
  int64_t size = op->getAttrOfType<IntegerAttr>("size").getInt();
  std::string what = nameOf(op);
  if (random() % 4 == 0) {
    op->setAttr("size", b.getI64IntegerAttr(size + 1));
    return what + " met by one more";
  }
  StringRef other = pick<StringRef>({"tp", "pp", "cp"}, random);
  op->setAttr("axis", b.getStringAttr(other));
  what += (" along " + other).str();
  // On a mesh that has the axis all is as it should be but for what is moved.
  if (random() % 2) {
    Mesh mesh = Mesh::get(module);
    mesh.axes.emplace_back(other.str(), size);
    mesh.set(module);
    what += ", which the mesh has";
  }
  return what;
}

std::string scaleValue(ModuleOp module, Random &random) {
  Operation *op = pick<Operation *>(collectivesOf(module), random);
  OpBuilder b(op);
  GradBuilder gb(b, op->getLoc());
  unsigned i = unsigned(random() % op->getNumOperands());
  bool isBefore = random() % 2;
  double factor = random() % 2 ? 2.0 : 0.5;
  if (isBefore) {
    Value value = op->getOperand(i);
    op->setOperand(i, gb.mul(value, gb.scalar(factor, value)));
  } else {
    b.setInsertionPointAfter(op);
    Value value = op->getResult(i);
    auto product = gb.mul(value, gb.scalar(factor, value));
    value.replaceAllUsesExcept(product, product.getDefiningOp());
  }
  return llvm::formatv("{0} times value {1} {2} {3}", factor, i,
                       isBefore ? "before" : "after", nameOf(op));
}

std::string breakNorm(ModuleOp module, Random &random) {
  // What every device tells all of the squares of its pieces.
  SmallVector<Operation *> found = collectivesOf(module, [](Operation *op) {
    return isa<AllGatherOp>(op) && op->getNumResults() == 1 &&
           GradBuilder::type(op->getResult(0)).getRank() == 1 &&
           elementsOf(op->getOperand(0)) == 1 && op->getResult(0).hasOneUse() &&
           isa<ReduceSumOp>(*op->getUsers().begin());
  });
  if (found.size() != 1)
    return "";
  auto gather = cast<AllGatherOp>(found[0]);
  auto total = cast<ReduceSumOp>(*gather->getUsers().begin());
  OpBuilder b(total);
  GradBuilder gb(b, total.getLoc());
  Value own = gb.reshape(gather->getOperand(0), {});
  SmallVector<Operation *> squares;
  for (Operation &op : *total->getBlock())
    if (auto square = dyn_cast<MulOp>(op);
        square && square.getLhs() == square.getRhs() && square->hasOneUse() &&
        isa<ReduceSumOp>(*square->getUsers().begin()))
      squares.push_back(square);
  switch (random() % 5) {
  case 0:
    total.replaceAllUsesWith(own);
    return "norm of a device's own pieces";
  case 1:
    total.replaceAllUsesWith(
        gb.mul(own, gb.scalar(double(gather.getSize()), own)));
    return "norm of a device's own pieces, times devices";
  case 2: {
    if (squares.empty())
      return "";
    // The squares of all instead of the own piece, in ZeRO-0.
    auto square = cast<MulOp>(pick<Operation *>(squares, random));
    auto shard = square.getLhs().getDefiningOp<LocalShardOp>();
    if (!shard)
      return "";
    auto piece = cast<OpResult>(square.getLhs());
    Value whole = shard->getOperand(piece.getResultNumber());
    b.setInsertionPoint(square);
    SmallVector<int64_t> dims = llvm::to_vector(
        llvm::seq<int64_t>(0, GradBuilder::type(whole).getRank()));
    Operation *sum = *square->getUsers().begin();
    b.setInsertionPoint(sum);
    sum->getResult(0).replaceAllUsesWith(
        gb.reduceSum(gb.mul(whole, whole), dims, /*keepDims=*/false));
    return "norm with a whole gradient";
  }
  case 3: {
    if (squares.size() < 2)
      return "";
    Operation *square = pick<Operation *>(squares, random);
    Operation *sum = *square->getUsers().begin();
    auto add = dyn_cast<AddOp>(*sum->getUsers().begin());
    if (!add)
      return "";
    add.replaceAllUsesWith(add.getLhs() == sum->getResult(0) ? add.getRhs()
                                                             : add.getLhs());
    return "norm without a gradient";
  }
  default: {
    b.setInsertionPoint(gather);
    Value input = gather->getOperand(0);
    gather->setOperand(0, SqrtOp::create(b, gather.getLoc(), input));
    return "norm as a sum of roots";
  }
  }
}

/// Whether both are the same number, computed twice.
bool areEqual(Value a, Value b) {
  if (a == b)
    return true;
  Operation *x = a.getDefiningOp(), *y = b.getDefiningOp();
  if (!x || !y || x->getName() != y->getName() || x->getNumRegions() ||
      y->getNumRegions() || x->getAttrDictionary() != y->getAttrDictionary() ||
      x->getNumOperands() != y->getNumOperands())
    return false;
  return llvm::all_of(
      llvm::zip_equal(x->getOperands(), y->getOperands()),
      [](auto pair) { return areEqual(std::get<0>(pair), std::get<1>(pair)); });
}

std::string swapValues(ModuleOp module, Random &random) {
  SmallVector<std::tuple<Operation *, unsigned, unsigned>> found;
  for (Operation *op : collectivesOf(module)) {
    bool isOfNorm =
        isa<LocalShardOp>(op) && llvm::all_of(op->getUsers(), [](auto *user) {
          auto square = dyn_cast<MulOp>(user);
          return square && square.getLhs() == square.getRhs();
        });
    for (unsigned i = 0, e = op->getNumOperands(); i < e && !isOfNorm; ++i)
      for (unsigned j = i + 1; j < e; ++j)
        if (op->getOperand(i).getType() == op->getOperand(j).getType() &&
            op->getResult(i).getType() == op->getResult(j).getType())
          found.emplace_back(op, i, j);
  }
  if (found.empty())
    return "";
  auto [op, i, j] = found[random() % found.size()];
  Value first = op->getOperand(i);
  op->setOperand(i, op->getOperand(j));
  op->setOperand(j, first);
  return llvm::formatv("values {0} and {1} of {2}", i, j, nameOf(op));
}

std::string swapCalls(ModuleOp module, Random &random) {
  SmallVector<std::tuple<Operation *, Operation *, bool>> found;
  SmallVector<Operation *> all = collectivesOf(
      module, [](Operation *op) { return !isa<LocalShardOp>(op); });
  for (Operation *a : all)
    for (Operation *b : all) {
      if (a->getBlock() != b->getBlock() || !a->isBeforeInBlock(b))
        continue;
      if (a->getName() == b->getName() &&
          a->getNumOperands() == b->getNumOperands() &&
          llvm::all_of(llvm::zip_equal(a->getOperands(), b->getOperands()),
                       [](auto pair) {
                         return areEqual(std::get<0>(pair), std::get<1>(pair));
                       }))
        continue;
      bool canRise = llvm::all_of(b->getOperands(), [&](Value v) {
        Operation *def = v.getDefiningOp();
        return !def || def->getBlock() != a->getBlock() ||
               def->isBeforeInBlock(a);
      });
      bool canSink = llvm::all_of(a->getUsers(), [&](Operation *user) {
        Operation *at = b->getBlock()->findAncestorOpInBlock(*user);
        return at && at != b && b->isBeforeInBlock(at);
      });
      if (canRise || canSink)
        found.emplace_back(a, b, canRise);
    }
  if (found.empty())
    return "";
  auto [a, b, canRise] = found[random() % found.size()];
  if (canRise)
    b->moveBefore(a);
  else
    a->moveAfter(b);
  return nameOf(b) + " before " + nameOf(a) + " on one device";
}

} // namespace

std::string blutrain::test::mutatePlan(ModuleOp module, Mutation mutation,
                                       std::mt19937_64 &random,
                                       bool &isOfOneDevice) {
  isOfOneDevice = false;
  switch (mutation) {
  case Mutation::DroppedCollective:
    return dropCollective(module, random);
  case Mutation::WrongAxis:
    return changeAxis(module, random);
  case Mutation::DoubledScale:
    return scaleValue(module, random);
  case Mutation::UnsyncedNorm:
    return breakNorm(module, random);
  case Mutation::SwappedOrder:
    isOfOneDevice = random() % 2;
    return isOfOneDevice ? swapCalls(module, random)
                         : swapValues(module, random);
  }
  llvm_unreachable("covered switch");
}
