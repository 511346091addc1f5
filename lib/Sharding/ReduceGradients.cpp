//===- ReduceGradients.cpp - gradients leave in buckets -------------------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Pieces.h"

#include "blutrain/Autodiff/StepUtils.h"
#include "blutrain/Sharding/Passes.h"

#include "Blu/BluSupport.h"
#include "Blu/Sharding.h"

#include "llvm/ADT/MapVector.h"

namespace blutrain {
#define GEN_PASS_DEF_REDUCEGRADIENTSPASS
#include "blutrain/Sharding/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

namespace {

/// A gradient of the step.
struct Gradient {
  unsigned result; ///< of the step
  BlockArgument param;
  Value whole; ///< what the optimizer uses
  bool isStacked;
  bool isUnsharded; ///< every device has all of it
  Value piece;      ///< a device's
};

/// Gradients that leave together: at the end of `block`, or behind the last of
/// them.
using BucketKey = std::pair<Block *, unsigned>;

/// One all-reduced value on its way out of the regions that it is computed in.
struct Source {
  Gradient *gradient;
  AllReduceOp reduce;
  Value part;       ///< what the reduce-scatter takes
  bool isCollected; ///< by the stack that `part` is yielded in
  bool isBatched;   ///< dim 0 is the iteration of a stack
  /// The results that the piece passes through, innermost first.
  SmallVector<OpResult> path;
};

class Reducer {
public:
  Reducer(StepOp step, int64_t zero, const Mesh &mesh)
      : step(step), zero(zero), size(mesh.getSize("dp")),
        context(step.getContext()) {}

  FailureOr<unsigned> run();

private:
  LogicalResult collect();
  Source trace(Gradient &gradient, AllReduceOp reduce);
  void reduceBucket(BucketKey key, MutableArrayRef<Source> sources);
  void cutWholes(OpBuilder &b, Location loc, ArrayRef<Gradient *> candidates);
  void replaceNorms();
  LogicalResult shardOptimizer();
  void leavePieces();
  FailureOr<Operation *> shardUpdate(Gradient &gradient,
                                     SmallVectorImpl<Value> &updated);

  RankedTensorType pieceType(Value value, bool isBatched) const {
    return getPieceType(cast<RankedTensorType>(value.getType()), size,
                        isBatched);
  }

  StepOp step;
  int64_t zero, size;
  MLIRContext *context;
  std::vector<Gradient> gradients;
  /// Gradients by the call that they leave in, in the order of the program.
  llvm::MapVector<BucketKey, SmallVector<Gradient *>> order;
};

} // namespace

LogicalResult Reducer::collect() {
  FailureOr<SmallVector<StepGradient>> found = getGradients(step);
  if (failed(found))
    return failure();
  for (const StepGradient &gradient : *found)
    gradients.push_back(
        {gradient.result, gradient.param, gradient.value, gradient.isStacked,
         zero == 0 ||
             step.getArgAttr(gradient.param.getArgNumber(), "blu.unsharded"),
         Value()});
  return success();
}

Source Reducer::trace(Gradient &gradient, AllReduceOp reduce) {
  Source source{&gradient,          reduce, reduce.getInputs()[0], false,
                gradient.isStacked, {}};
  auto result = dyn_cast<OpResult>(source.part);
  // With accumulation, stages below 2 wait for the last microbatch.
  if (result && zero >= 2)
    if (auto accumulate = dyn_cast<AccumulateOp>(result.getOwner())) {
      source.path.push_back(result);
      source.part = accumulate.getYield().getValues()[result.getResultNumber()];
      result = dyn_cast<OpResult>(source.part);
    }
  auto stack = result ? dyn_cast<StackOp>(result.getOwner()) : StackOp();
  if (stack && gradient.isStacked &&
      result.getResultNumber() >= stack.getNumCarries() &&
      source.part.hasOneUse()) {
    source.path.insert(source.path.begin(), result);
    source.part = stack.getYield().getValues()[result.getResultNumber()];
    source.isCollected = true;
    source.isBatched = false;
  }
  return source;
}

/// Puts the reduce-scatter where the last of the sources is there, and what it
/// gives in the place of the whole values.
void Reducer::reduceBucket(BucketKey key, MutableArrayRef<Source> sources) {
  Operation *last = nullptr;
  SmallVector<Value> parts;
  SmallVector<Type> types;
  SmallVector<Location> locs;
  for (Source &source : sources) {
    Operation *def = source.part.getDefiningOp();
    if (def && def->getBlock() == key.first &&
        (!last || last->isBeforeInBlock(def)))
      last = def;
    parts.push_back(source.part);
    types.push_back(pieceType(source.part, source.isBatched));
    locs.push_back(source.part.getLoc());
  }
  OpBuilder b(context);
  if (last)
    b.setInsertionPointAfter(last);
  else
    b.setInsertionPointToStart(key.first);
  Location loc = locs.front();
  auto scatter = ReduceScatterOp::create(b, loc, types, parts, "dp", size);
  SmallVector<Source *> gathered;
  SmallVector<Value> pieces;
  SmallVector<Type> wholes;
  for (auto [source, piece] : llvm::zip_equal(sources, scatter.getResults())) {
    if (source.gradient->isUnsharded) {
      gathered.push_back(&source);
      pieces.push_back(piece);
      wholes.push_back(source.part.getType());
      continue;
    }
    Value now = piece;
    for (OpResult result : source.path) {
      Operation *owner = result.getOwner();
      owner->getRegion(0).front().getTerminator()->setOperand(
          result.getResultNumber(), now);
      auto type = cast<RankedTensorType>(now.getType());
      result.setType(
          isa<StackOp>(owner)
              ? StackOp::stackedType(type, cast<StackOp>(owner).getCount())
              : type);
      now = result;
    }
    source.gradient->piece = now;
  }
  if (gathered.empty())
    return;
  auto gather = AllGatherOp::create(b, loc, wholes, pieces, "dp", size);
  for (auto [source, whole] : llvm::zip_equal(gathered, gather.getResults())) {
    if (source->path.empty())
      source->gradient->whole = whole;
    else
      source->path.front()
          .getOwner()
          ->getRegion(0)
          .front()
          .getTerminator()
          ->setOperand(source->path.front().getResultNumber(), whole);
    source->reduce.getResult(0).replaceAllUsesWith(
        source->path.empty() ? whole : source->path.back());
    if (!source->path.empty())
      source->gradient->whole = source->path.back();
  }
}

/// Gives the gradients that have none their pieces of what is whole.
void Reducer::cutWholes(OpBuilder &b, Location loc,
                        ArrayRef<Gradient *> candidates) {
  SmallVector<Gradient *> without;
  SmallVector<Value> wholes;
  SmallVector<Type> types;
  for (Gradient *gradient : candidates) {
    if (gradient->piece)
      continue;
    without.push_back(gradient);
    wholes.push_back(gradient->whole);
    types.push_back(pieceType(gradient->whole, gradient->isStacked));
  }
  if (wholes.empty())
    return;
  auto local = LocalShardOp::create(b, loc, types, wholes, "dp", size);
  for (auto [gradient, piece] : llvm::zip_equal(without, local.getResults()))
    gradient->piece = piece;
}

/// The root of the sum of squares, of pieces on each device and then of devices
/// in their order.
void Reducer::replaceNorms() {
  SmallVector<GlobalNormOp> norms;
  step.walk([&](GlobalNormOp op) { norms.push_back(op); });
  DenseMap<Value, Gradient *> byValue;
  for (Gradient &gradient : gradients)
    byValue[gradient.whole] = &gradient;
  for (GlobalNormOp norm : norms) {
    if (!llvm::all_of(norm.getInputs(),
                      [&](Value v) { return byValue.contains(v); }))
      continue;
    OpBuilder b(norm);
    GradBuilder gb(b, norm.getLoc());
    // Squares in the order in which the values are there, so that those of the
    // first can be computed while the last are reduced; the sum in the norm's.
    llvm::MapVector<Operation *, SmallVector<Gradient *>> byPlace;
    for (Value input : norm.getInputs()) {
      Gradient *gradient = byValue[input];
      Value value = gradient->piece ? gradient->piece : gradient->whole;
      byPlace[value.getDefiningOp()].push_back(gradient);
    }
    auto places = byPlace.takeVector();
    llvm::sort(places, [](const auto &one, const auto &other) {
      return one.first->isBeforeInBlock(other.first);
    });
    DenseMap<Gradient *, Value> squares;
    for (auto &[place, together] : places) {
      cutWholes(b, norm.getLoc(), together);
      for (Gradient *gradient : together) {
        Value piece = gradient->piece;
        SmallVector<int64_t> dims = llvm::to_vector(
            llvm::seq<int64_t>(0, GradBuilder::type(piece).getRank()));
        squares[gradient] =
            gb.reduceSum(gb.mul(piece, piece), dims, /*keepDims=*/false);
      }
    }
    Value sum;
    for (Value input : norm.getInputs()) {
      Value square = squares[byValue[input]];
      sum = sum ? gb.add(sum, square) : square;
    }
    auto all = AllGatherOp::create(
        b, norm.getLoc(),
        RankedTensorType::get({size}, GradBuilder::type(sum).getElementType()),
        gb.reshape(sum, {1}), "dp", size);
    Value total = gb.reduceSum(all.getResult(0), {0}, /*keepDims=*/false);
    norm.replaceAllUsesWith(
        SqrtOp::create(b, norm.getLoc(), total).getResult());
    norm.erase();
  }
}

/// The update of a parameter as that of a device's piece, at the end of the
/// step. Returns the update of the whole.
FailureOr<Operation *> Reducer::shardUpdate(Gradient &gradient,
                                            SmallVectorImpl<Value> &updated) {
  MulOp scaled;
  Operation *update = nullptr;
  for (Operation *user : gradient.whole.getUsers()) {
    auto product = dyn_cast<MulOp>(user);
    if (!product || !product->hasOneUse())
      continue;
    scaled = product;
    update = *product->getUsers().begin();
  }
  if (!update || !isa<AdamWOp, SgdOp>(update))
    return step.emitOpError("updates '")
           << argumentName(step, gradient.param.getArgNumber())
           << "' in a way that cannot be cut into pieces, expected one "
              "optimizer op on its scaled gradient";
  OpBuilder b(step.getTerminator());
  // Each right before its update, so that no two are needed at once.
  Value paramPiece =
      LocalShardOp::create(b, update->getLoc(),
                           pieceType(gradient.param, gradient.isStacked),
                           gradient.param, "dp", size)
          .getResult(0);
  Value scale =
      scaled.getLhs() == gradient.whole ? scaled.getRhs() : scaled.getLhs();
  GradBuilder gb(b, update->getLoc());
  IRMapping mapping;
  mapping.map(scaled.getResult(), gb.mul(gradient.piece, scale));
  mapping.map(gradient.param, paramPiece);
  SmallVector<Value> state;
  for (Value operand : update->getOperands())
    if (auto argument = dyn_cast<BlockArgument>(operand);
        argument && argument != gradient.param &&
        argument.getType() == gradient.param.getType() &&
        argument.getOwner() == step.getBodyBlock())
      cutState(step, argument, size);
  Operation *piecewise = b.clone(*update, mapping);
  for (Value result : piecewise->getResults())
    result.setType(paramPiece.getType());
  updated.push_back(piecewise->getResult(0));
  for (unsigned i = 1, e = update->getNumResults(); i < e; ++i)
    update->getResult(i).replaceAllUsesWith(piecewise->getResult(i));
  return update;
}

/// Whole gradients exist no more. Their pieces are results in stage 3, where
/// nothing could take their place.
void Reducer::leavePieces() {
  llvm::BitVector dropped(step.getResultTypes().size());
  Builder b(context);
  for (Gradient &gradient : gradients) {
    if (zero < 3) {
      dropped.set(gradient.result);
      continue;
    }
    if (gradient.isUnsharded)
      continue;
    NamedAttrList info(step.getResultAttrOfType<DictionaryAttr>(gradient.result,
                                                                "blu.tensor"));
    auto type = cast<RankedTensorType>(gradient.param.getType());
    info.set("shards", b.getI64IntegerAttr(size));
    info.set("shard_of", b.getDenseI64ArrayAttr(type.getShape().drop_front(
                             gradient.isStacked ? 1 : 0)));
    step.setResultAttr(gradient.result, "blu.tensor",
                       info.getDictionary(context));
    step.getTerminator()->setOperand(gradient.result, gradient.piece);
  }
  step.getTerminator()->eraseOperands(dropped);
  (void)step.eraseResults(dropped);
}

LogicalResult Reducer::shardOptimizer() {
  OpBuilder b(step.getTerminator());
  // Each bucket's updates and then its gather, which can be under way during
  // the updates of the next.
  SmallVector<Operation *> dead;
  for (auto &[key, bucket] : order) {
    SmallVector<Value> olds, news;
    SmallVector<Type> wholes;
    for (Gradient *gradient : bucket) {
      if (gradient->isUnsharded)
        continue;
      FailureOr<Operation *> update = shardUpdate(*gradient, news);
      if (failed(update))
        return failure();
      olds.push_back((*update)->getResult(0));
      wholes.push_back(gradient->param.getType());
      dead.push_back(*update);
    }
    if (news.empty())
      continue;
    b.setInsertionPoint(step.getTerminator());
    auto gather =
        AllGatherOp::create(b, step.getLoc(), wholes, news, "dp", size);
    for (auto [old, whole] : llvm::zip_equal(olds, gather.getResults()))
      old.replaceAllUsesWith(whole);
  }
  leavePieces();
  for (Operation *update : dead) {
    SmallVector<Operation *> defs;
    for (Value operand : update->getOperands())
      if (auto product = operand.getDefiningOp<MulOp>())
        defs.push_back(product);
    update->erase();
    for (Operation *def : defs)
      if (def->use_empty())
        def->erase();
  }
  updateFunctionType(step);
  return success();
}

FailureOr<unsigned> Reducer::run() {
  if (failed(collect()))
    return failure();
  llvm::MapVector<BucketKey, SmallVector<Source>> buckets;
  for (Gradient &gradient : gradients) {
    auto reduce = gradient.whole.getDefiningOp<AllReduceOp>();
    if (!reduce || reduce.getInputs().size() != 1 || reduce.getAxis() != "dp") {
      order[{nullptr, 0}].push_back(&gradient);
      continue;
    }
    Source source = trace(gradient, reduce);
    Block *block = source.isCollected
                       ? &source.path.front().getOwner()->getRegion(0).front()
                       : source.part.getParentBlock();
    // Between stacks, values that are final before the next one go first.
    unsigned segment = 0;
    if (Operation *def = source.part.getDefiningOp();
        def && !source.isCollected)
      for (Operation &op : *block) {
        if (&op == def)
          break;
        segment += isa<StackOp>(op);
      }
    BucketKey key{block, segment};
    buckets[key].push_back(source);
    order[key].push_back(&gradient);
  }
  for (auto &[key, sources] : buckets)
    reduceBucket(key, sources);
  replaceNorms();
  bool isSharded = llvm::any_of(gradients, [](const Gradient &gradient) {
    return !gradient.isUnsharded;
  });
  if (isSharded && failed(shardOptimizer()))
    return failure();
  for (auto &[key, sources] : buckets)
    for (Source &source : sources)
      if (source.reduce->use_empty())
        source.reduce.erase();
  return unsigned(buckets.size());
}

namespace {
struct ReduceGradients
    : blutrain::impl::ReduceGradientsPassBase<ReduceGradients> {
  using ReduceGradientsPassBase::ReduceGradientsPassBase;

  void runOnOperation() override {
    if (zero < 0 || zero > 3) {
      getOperation().emitError()
          << "zero is " << int64_t(zero) << ", expected 0, 1, 2 or 3";
      return signalPassFailure();
    }
    Mesh mesh = Mesh::get(getOperation());
    if (mesh.getSize("dp") == 1)
      return;
    for (StepOp step : findSteps(getOperation(), Program::Train)) {
      FailureOr<unsigned> count = Reducer(step, zero, mesh).run();
      if (failed(count))
        return signalPassFailure();
      numBuckets += *count;
    }
  }
};
} // namespace
