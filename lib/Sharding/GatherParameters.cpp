//===- GatherParameters.cpp - parameters in pieces, gathered for their use ===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "Pieces.h"

#include "blutrain/Autodiff/StepUtils.h"
#include "blutrain/Sharding/Passes.h"

#include "Blu/BluSupport.h"
#include "Blu/Sharding.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace blutrain {
#define GEN_PASS_DEF_GATHERPARAMETERSPASS
#include "blutrain/Sharding/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;
using namespace blutrain;

//===----------------------------------------------------------------------===//
// Pieces
//===----------------------------------------------------------------------===//

bool blutrain::isStacked(StepOp step, BlockArgument argument) {
  auto info = step.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(),
                                                    "blu.tensor");
  auto count = info ? info.getAs<IntegerAttr>("stack_count") : IntegerAttr();
  return count && count.getInt() > 0;
}

void blutrain::cutState(StepOp step, BlockArgument argument, int64_t size) {
  unsigned i = argument.getArgNumber();
  NamedAttrList info(step.getArgAttrOfType<DictionaryAttr>(i, "blu.tensor"));
  auto type = cast<RankedTensorType>(argument.getType());
  bool stacked = isStacked(step, argument);
  Builder b(step.getContext());
  info.set("shards", b.getI64IntegerAttr(size));
  info.set("shard_of",
           b.getDenseI64ArrayAttr(type.getShape().drop_front(stacked ? 1 : 0)));
  step.setArgAttr(i, "blu.tensor", info.getDictionary(step.getContext()));
  argument.setType(getPieceType(type, size, stacked));
}

void blutrain::updateFunctionType(StepOp step) {
  step.setFunctionType(FunctionType::get(
      step.getContext(), step.getBodyBlock()->getArgumentTypes(),
      step.getTerminator()->getOperandTypes()));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// The narrower type that the cast rounds to, or null.
static Type getNarrowType(CastOp cast) {
  auto from = dyn_cast<FloatType>(cast.getInput().getType().getElementType());
  auto to = dyn_cast<FloatType>(cast.getType().getElementType());
  return from && to && to.getWidth() < from.getWidth() ? to : FloatType();
}

namespace {

/// What is gathered at once, in front of `first`.
struct Bucket {
  Operation *first = nullptr;
  /// The parameters, and whether each goes in its own type.
  llvm::MapVector<BlockArgument, bool> wide;
  SmallVector<OpOperand *> uses;

  void add(BlockArgument param, bool isWide, Operation *user) {
    wide[param] |= isWide;
    if (!first || user->isBeforeInBlock(first))
      first = user;
  }
};

class Gatherer {
public:
  Gatherer(StepOp step, int64_t size) : step(step), size(size) {}

  /// Every parameter is gathered once, before its first use.
  FailureOr<unsigned> gatherOnce();
  /// Gathers are in front of each use, what they give is dropped behind it.
  FailureOr<unsigned> gatherForUses();

private:
  void cutParameters();
  void takePieces();
  LogicalResult gatherInStacks();
  void gatherInBody(StackOp stack);

  /// The parameter that `value` is, or is a rounded copy of.
  BlockArgument getParameter(Value value) const;
  /// A copy of parameters, rounded or with constants beside them.
  bool isCopy(Operation *op) const;
  bool takesStacked(StackOp stack) const;
  /// How many stacks with parameters of their own are in front of `op`.
  unsigned getSegment(Operation *op) const;
  /// Adds the parameters that `value` needs.
  void addLeaves(Bucket &bucket, Value value, Operation *user) const;
  /// Puts the gather of a bucket in front of it.
  DenseMap<BlockArgument, Value> emit(const Bucket &bucket);
  Value rebuild(OpBuilder &b, Value value, IRMapping &known,
                const DenseMap<BlockArgument, Value> &gathered) const;

  StepOp step;
  int64_t size;
  SmallVector<BlockArgument> params;
  DenseMap<Value, RankedTensorType> wholeTypes;
  unsigned count = 0;
};

} // namespace

BlockArgument Gatherer::getParameter(Value value) const {
  if (auto cast = value.getDefiningOp<CastOp>(); cast && getNarrowType(cast))
    value = cast.getInput();
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && wholeTypes.contains(argument) ? argument : BlockArgument();
}

bool Gatherer::isCopy(Operation *op) const {
  if (!isa_and_nonnull<CastOp, ConcatOp>(op))
    return false;
  bool ofParameters = false;
  for (Value operand : op->getOperands()) {
    Operation *def = operand.getDefiningOp();
    bool isParameter = getParameter(operand) || isCopy(def);
    if (!isParameter && !isa_and_nonnull<ConstantOp>(def))
      return false;
    ofParameters |= isParameter;
  }
  return ofParameters;
}

bool Gatherer::takesStacked(StackOp stack) const {
  return llvm::any_of(stack.getSlices(),
                      [&](Value slice) { return bool(getParameter(slice)); });
}

unsigned Gatherer::getSegment(Operation *op) const {
  unsigned segment = 0;
  for (Operation &other : *op->getBlock()) {
    if (&other == op)
      break;
    if (auto stack = dyn_cast<StackOp>(other))
      segment += takesStacked(stack);
  }
  return segment;
}

/// Slices that the body does not read would be gathered for nothing.
static void dropUnreadSlices(StackOp stack) {
  for (unsigned i = stack.getSlices().size(); i-- > 0;) {
    BlockArgument argument = stack.getSliceArg(i);
    if (!argument.use_empty())
      continue;
    stack.getBodyBlock()->eraseArgument(argument.getArgNumber());
    stack.getSlicesMutable().erase(i);
  }
}

void Gatherer::cutParameters() {
  step.walk([](StackOp stack) { dropUnreadSlices(stack); });
  for (BlockArgument argument : step.getArguments())
    if (argumentRole(step, argument.getArgNumber()) == "param" &&
        !step.getArgAttr(argument.getArgNumber(), "blu.unsharded")) {
      params.push_back(argument);
      wholeTypes[argument] = cast<RankedTensorType>(argument.getType());
      cutState(step, argument, size);
      // Copies that only the slices just dropped have read.
      for (Operation *user : llvm::make_early_inc_range(argument.getUsers()))
        if (user->use_empty() && isa<CastOp>(user))
          user->erase();
    }
}

/// The optimizer takes the pieces and leaves them: nothing is put together
/// behind it.
void Gatherer::takePieces() {
  llvm::SetVector<Operation *> dead;
  step.walk([&](LocalShardOp op) {
    if (!llvm::all_of(op.getInputs(),
                      [&](Value input) { return wholeTypes.contains(input); }))
      return;
    for (auto [input, piece] : llvm::zip_equal(op.getInputs(), op.getResults()))
      piece.replaceAllUsesWith(input);
    dead.insert(op);
  });
  for (OpOperand &operand : step.getTerminator()->getOpOperands()) {
    auto donated = dyn_cast_or_null<IntegerAttr>(
        step.getResultAttr(operand.getOperandNumber(), "blu.donates"));
    auto gather = operand.get().getDefiningOp<AllGatherOp>();
    if (!donated || !gather ||
        !wholeTypes.contains(step.getArgument(unsigned(donated.getInt()))))
      continue;
    operand.set(
        gather.getInputs()[cast<OpResult>(operand.get()).getResultNumber()]);
    dead.insert(gather);
  }
  for (Operation *op : dead)
    op->erase();
  updateFunctionType(step);
}

DenseMap<BlockArgument, Value> Gatherer::emit(const Bucket &bucket) {
  OpBuilder b(bucket.first);
  SmallVector<Value> pieces;
  SmallVector<Type> types;
  for (auto [param, isWide] : bucket.wide) {
    RankedTensorType whole = wholeTypes.lookup(param);
    Value piece = param;
    if (!isWide) {
      auto narrow = llvm::find_if(param.getUsers(), [](Operation *user) {
        auto cast = dyn_cast<CastOp>(user);
        return cast && getNarrowType(cast);
      });
      whole = whole.clone(cast<CastOp>(*narrow).getType().getElementType());
      piece =
          GradBuilder(b, param.getLoc()).cast(piece, whole.getElementType());
    }
    pieces.push_back(piece);
    types.push_back(whole);
  }
  auto gather =
      AllGatherOp::create(b, bucket.first->getLoc(), types, pieces, "dp", size);
  ++count;
  DenseMap<BlockArgument, Value> gathered;
  for (auto [entry, whole] : llvm::zip_equal(bucket.wide, gather.getResults()))
    gathered[entry.first] = whole;
  return gathered;
}

//===----------------------------------------------------------------------===//
// For each use
//===----------------------------------------------------------------------===//

/// One gather at the beginning of the body, of all that the iteration reads.
void Gatherer::gatherInBody(StackOp stack) {
  // By parameter: its slices in its own type and rounded.
  llvm::MapVector<BlockArgument, SmallVector<BlockArgument>> read;
  for (auto [i, slice] : llvm::enumerate(stack.getSlices()))
    if (BlockArgument param = getParameter(slice))
      read[param].push_back(stack.getSliceArg(i));
  if (read.empty())
    return;
  SmallVector<Value> pieces;
  SmallVector<Type> types;
  for (auto &[param, slices] : read) {
    // What is narrower is made of the widest.
    auto width = [](Value value) {
      return cast<RankedTensorType>(value.getType()).getElementTypeBitWidth();
    };
    std::swap(slices.front(),
              *llvm::max_element(slices, [&](BlockArgument a, BlockArgument b) {
                return width(a) < width(b);
              }));
    pieces.push_back(slices.front());
    types.push_back(slices.front().getType());
  }
  OpBuilder b = OpBuilder::atBlockBegin(stack.getBodyBlock());
  for (auto &[param, slices] : read)
    for (BlockArgument slice : slices)
      slice.setType(getPieceType(cast<RankedTensorType>(slice.getType()), size,
                                 /*batched=*/false));
  auto gather =
      AllGatherOp::create(b, stack.getLoc(), types, pieces, "dp", size);
  ++count;
  for (auto [entry, whole] : llvm::zip_equal(read, gather.getResults()))
    for (BlockArgument slice : entry.second) {
      auto type = cast<RankedTensorType>(slice.getType());
      Value value =
          GradBuilder(b, stack.getLoc()).cast(whole, type.getElementType());
      slice.replaceUsesWithIf(
          value, [&](OpOperand &use) { return use.getOwner() != gather; });
    }
}

LogicalResult Gatherer::gatherInStacks() {
  for (BlockArgument param : params) {
    if (!isStacked(step, param))
      continue;
    for (Operation *user : param.getUsers()) {
      auto cast = dyn_cast<CastOp>(user);
      bool isKnown = isa<StackOp>(user) ||
                     user->hasTrait<OpTrait::IsTerminator>() ||
                     isa<AdamWOp, SgdOp>(user) ||
                     (cast && getNarrowType(cast) &&
                      llvm::all_of(cast->getUsers(), llvm::IsaPred<StackOp>));
      if (!isKnown)
        return user->emitOpError()
               << "takes all iterations of '"
               << argumentName(step, param.getArgNumber())
               << "' at once, expected a stack that takes one at a time";
      if (cast)
        cast.getResult().setType(llvm::cast<RankedTensorType>(param.getType())
                                     .clone(cast.getType().getElementType()));
    }
  }
  step.walk([&](StackOp stack) { gatherInBody(stack); });
  return success();
}

void Gatherer::addLeaves(Bucket &bucket, Value value, Operation *user) const {
  if (BlockArgument param = getParameter(value))
    return bucket.add(param, param == value, user);
  Operation *def = value.getDefiningOp();
  if (isCopy(def))
    for (Value operand : def->getOperands())
      addLeaves(bucket, operand, user);
}

/// `value`, which is a parameter or a copy, of what was gathered.
Value Gatherer::rebuild(OpBuilder &b, Value value, IRMapping &known,
                        const DenseMap<BlockArgument, Value> &gathered) const {
  if (Value found = known.lookupOrNull(value))
    return found;
  Value result = value;
  if (BlockArgument param = getParameter(value)) {
    result =
        GradBuilder(b, value.getLoc())
            .cast(gathered.lookup(param),
                  cast<RankedTensorType>(value.getType()).getElementType());
  } else if (Operation *def = value.getDefiningOp(); isCopy(def)) {
    for (Value operand : def->getOperands())
      (void)rebuild(b, operand, known, gathered);
    result = b.clone(*def, known)
                 ->getResult(cast<OpResult>(value).getResultNumber());
  }
  known.map(value, result);
  return result;
}

FailureOr<unsigned> Gatherer::gatherForUses() {
  cutParameters();
  takePieces();
  llvm::MapVector<std::pair<Block *, unsigned>, Bucket> buckets;
  llvm::SetVector<Operation *> copies;
  auto visit = [&](auto &self, Value value) -> void {
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (isCopy(user)) {
        if (copies.insert(user))
          for (Value result : user->getResults())
            self(self, result);
        continue;
      }
      if (isa<AdamWOp, SgdOp, ReturnOp>(user))
        continue;
      Block *block = step.getBodyBlock();
      Operation *at = block->findAncestorOpInBlock(*user);
      if (auto accumulate = dyn_cast<AccumulateOp>(at);
          accumulate && at != user) {
        block = accumulate.getBodyBlock();
        at = block->findAncestorOpInBlock(*user);
      }
      Bucket &bucket = buckets[{block, getSegment(at)}];
      addLeaves(bucket, value, at);
      bucket.uses.push_back(&use);
    }
  };
  for (BlockArgument param : params)
    if (!isStacked(step, param))
      visit(visit, param);
  for (auto &[key, bucket] : buckets) {
    DenseMap<BlockArgument, Value> gathered = emit(bucket);
    OpBuilder b(bucket.first);
    IRMapping known;
    for (OpOperand *use : bucket.uses)
      use->set(rebuild(b, use->get(), known, gathered));
  }
  for (Operation *copy : llvm::reverse(copies))
    if (copy->use_empty())
      copy->erase();
  if (failed(gatherInStacks()))
    return failure();
  return count;
}

//===----------------------------------------------------------------------===//
// Once
//===----------------------------------------------------------------------===//

FailureOr<unsigned> Gatherer::gatherOnce() {
  cutParameters();
  takePieces();
  Block *block = step.getBodyBlock();
  llvm::MapVector<std::pair<Operation *, unsigned>, Bucket> buckets;
  for (BlockArgument param : params) {
    SmallVector<CastOp> casts;
    Operation *first = nullptr;
    llvm::SmallDenseSet<Type> types;
    auto use = [&](Operation *user) {
      Operation *at = block->findAncestorOpInBlock(*user);
      if (!first || at->isBeforeInBlock(first))
        first = at;
    };
    for (Operation *user : param.getUsers()) {
      if (isa<AdamWOp, SgdOp, ReturnOp>(user))
        continue;
      auto cast = dyn_cast<CastOp>(user);
      if (cast && getNarrowType(cast)) {
        casts.push_back(cast);
        types.insert(cast.getType());
      } else {
        types.insert(wholeTypes.lookup(param));
        use(user);
      }
    }
    if (types.empty())
      continue;
    bool isWide = types.size() > 1 || casts.empty();
    for (CastOp cast : casts) {
      if (isWide)
        use(cast);
      for (Operation *user : cast->getUsers())
        use(user);
    }
    auto stack = isStacked(step, param) ? dyn_cast<StackOp>(first) : StackOp();
    buckets[{stack, stack ? 0 : getSegment(first)}].add(param, isWide, first);
  }
  for (auto &[key, bucket] : buckets) {
    DenseMap<BlockArgument, Value> gathered = emit(bucket);
    for (auto [param, isWide] : bucket.wide) {
      Value whole = gathered.lookup(param);
      Operation *gather = whole.getDefiningOp();
      for (OpOperand &use : llvm::make_early_inc_range(param.getUses())) {
        Operation *user = use.getOwner();
        bool isPiece = user == gather || isa<AdamWOp, SgdOp, ReturnOp>(user);
        if (isWide && !isPiece) {
          use.set(whole);
        } else if (auto cast = dyn_cast<CastOp>(user);
                   !isWide && cast && cast.getType() == whole.getType()) {
          cast.replaceAllUsesWith(whole);
          cast.erase();
        }
      }
    }
  }
  return count;
}

namespace {
struct GatherParameters
    : blutrain::impl::GatherParametersPassBase<GatherParameters> {
  using GatherParametersPassBase::GatherParametersPassBase;

  void runOnOperation() override {
    if (zero < 0 || zero > 3) {
      getOperation().emitError()
          << "zero is " << int64_t(zero) << ", expected 0, 1, 2 or 3";
      return signalPassFailure();
    }
    int64_t size = Mesh::get(getOperation()).getSize("dp");
    if (size == 1 || zero == 0)
      return;
    auto steps = getOperation().getOps<StepOp>();
    if (zero < 3 && llvm::none_of(steps, hasRoundedParameter))
      return;
    for (StepOp step : steps) {
      Gatherer gatherer(step, size);
      FailureOr<unsigned> count =
          zero < 3 ? gatherer.gatherOnce() : gatherer.gatherForUses();
      if (failed(count))
        return signalPassFailure();
      numGathers += *count;
    }
  }

  static bool hasRoundedParameter(StepOp step) {
    for (BlockArgument argument : step.getArguments())
      if (argumentRole(step, argument.getArgNumber()) == "param")
        for (Operation *user : argument.getUsers())
          if (auto cast = dyn_cast<CastOp>(user); cast && getNarrowType(cast))
            return true;
    return false;
  }
};
} // namespace
