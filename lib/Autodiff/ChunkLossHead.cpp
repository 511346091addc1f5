//===- ChunkLossHead.cpp - loss and gradient without full logits ----------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"

#include "Blu/BluSupport.h"
#include "mlir/IR/BuiltinOps.h"

namespace blutrain {
#define GEN_PASS_DEF_CHUNKLOSSHEADPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;

namespace {

/// The ops of one loss head, as `matchHead` finds them.
struct LossHead {
  LinearOp logits;
  SmallVector<CrossEntropyOp> losses;
  CrossEntropyGradOp grad; // null in programs without a backward pass
  SmallVector<MatmulOp> inputGrads, weightGrads;
  SmallVector<ReshapeOp> reshapes; // of the cotangent, for those two
};

/// Values of the chunks, or of the rows that are left over after them.
struct Piece {
  SmallVector<Value> losses; // one each: a sum, or a loss a row
  Value inputGrad, weightGrad;
};

} // namespace

/// Follows reshapes back to the value they are of.
static Value throughReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

static std::optional<LossHead> matchHead(LinearOp linear) {
  if (linear.getBias())
    return std::nullopt;
  LossHead head{linear, {}, {}, {}, {}, {}};
  Value targets;
  IntegerAttr ignored, classes;
  for (Operation *user : linear->getUsers()) {
    if (user->getBlock() != linear->getBlock())
      return std::nullopt;
    Value its;
    IntegerAttr itsIgnored, itsClasses;
    if (auto loss = dyn_cast<CrossEntropyOp>(user)) {
      its = loss.getTargets();
      itsIgnored = loss.getIgnoreIndexAttr();
      itsClasses = loss.getClassesAttr();
      head.losses.push_back(loss);
    } else if (auto grad = dyn_cast<CrossEntropyGradOp>(user);
               grad && !head.grad) {
      its = grad.getTargets();
      itsIgnored = grad.getIgnoreIndexAttr();
      itsClasses = grad.getClassesAttr();
      head.grad = grad;
    } else {
      return std::nullopt;
    }
    if (targets &&
        (targets != its || ignored != itsIgnored || classes != itsClasses))
      return std::nullopt;
    targets = its;
    ignored = itsIgnored;
    classes = itsClasses;
  }
  if (head.losses.empty())
    return std::nullopt;
  if (!head.grad)
    return head;
  SmallVector<Operation *> users(head.grad->getUsers());
  while (!users.empty()) {
    Operation *user = users.pop_back_val();
    if (auto reshape = dyn_cast<ReshapeOp>(user)) {
      head.reshapes.push_back(reshape);
      llvm::append_range(users, reshape->getUsers());
      continue;
    }
    auto product = dyn_cast<MatmulOp>(user);
    if (!product || product->getBlock() != linear->getBlock() ||
        throughReshapes(product.getLhs()) != head.grad.getResult() ||
        product.getTransB() ||
        cast<RankedTensorType>(product.getLhs().getType()).getRank() != 2)
      return std::nullopt;
    bool isWeightGrad = product.getTransA();
    if (isWeightGrad ? throughReshapes(product.getRhs()) !=
                           throughReshapes(linear.getInput())
                     : product.getRhs() != linear.getWeight())
      return std::nullopt;
    (isWeightGrad ? head.weightGrads : head.inputGrads).push_back(product);
  }
  return head;
}

/// Moves what the targets and the cotangent of the loss are computed from
/// before the head. Fails, without moving anything, if they depend on the head
/// itself.
static LogicalResult hoistOperands(LossHead &head) {
  llvm::SetVector<Operation *> slice;
  SmallVector<Value> open = {head.losses.front().getTargets()};
  if (head.grad)
    open.push_back(head.grad.getGrad());
  while (!open.empty()) {
    Operation *op = open.pop_back_val().getDefiningOp();
    if (!op || op->getBlock() != head.logits->getBlock() ||
        op->isBeforeInBlock(head.logits) || slice.contains(op))
      continue;
    if (op == head.logits || isa<CrossEntropyOp>(op) || op->getNumRegions() ||
        !isPure(op))
      return failure();
    slice.insert(op);
    llvm::append_range(open, op->getOperands());
  }
  SmallVector<Operation *> ordered = slice.takeVector();
  llvm::sort(ordered,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *op : ordered)
    op->moveBefore(head.logits);
  return success();
}

/// Losses and cotangents of some rows. `grad` is the cotangent of each row's
/// loss or of all.
static Piece buildPiece(OpBuilder &b, LossHead &head, Value x, Value t,
                        Value grad) {
  LinearOp linear = head.logits;
  Location loc = linear.getLoc();
  Value z = LinearOp::create(b, loc, x, linear.getWeight(), Value(),
                             linear.getWide());
  Piece piece;
  // Where losses by row are there, sums are of these.
  Value each;
  for (CrossEntropyOp loss : head.losses)
    if (!each && loss.getReduction() == LossReduction::None)
      each =
          CrossEntropyOp::create(b, loss.getLoc(), z, t, loss.getIgnoreIndex(),
                                 LossReduction::None, loss.getClassesAttr());
  for (CrossEntropyOp loss : head.losses) {
    if (loss.getReduction() == LossReduction::None)
      piece.losses.push_back(each);
    else if (each)
      piece.losses.push_back(GradBuilder(b, loss.getLoc())
                                 .reduceSum(each, {0}, /*keepDims=*/false));
    else
      piece.losses.push_back(
          CrossEntropyOp::create(b, loss.getLoc(), z, t, loss.getIgnoreIndex(),
                                 LossReduction::Sum, loss.getClassesAttr()));
  }
  if (!head.grad)
    return piece;
  Location gradLoc = head.grad.getLoc();
  Value dz = CrossEntropyGradOp::create(b, gradLoc, z, t, grad,
                                        head.grad.getIgnoreIndexAttr(),
                                        head.grad.getClassesAttr());
  if (!head.inputGrads.empty())
    piece.inputGrad = MatmulOp::create(b, head.inputGrads.front().getLoc(), dz,
                                       linear.getWeight(), false, false,
                                       head.inputGrads.front().getWide());
  if (!head.weightGrads.empty())
    piece.weightGrad =
        MatmulOp::create(b, head.weightGrads.front().getLoc(), dz, x, true,
                         false, head.weightGrads.front().getWide());
  return piece;
}

/// Rows a chunk: the most that fit, but rather a divisor of the rows if one is
/// not much smaller.
static int64_t chooseChunk(int64_t rows, int64_t most) {
  for (int64_t chunk = most; chunk > 0 && 2 * chunk > most; --chunk)
    if (rows % chunk == 0)
      return chunk;
  return most;
}

static void rewriteHead(LossHead &head, int64_t chunk) {
  LinearOp linear = head.logits;
  Location loc = linear.getLoc();
  OpBuilder b(linear);
  GradBuilder gb(b, loc);
  auto inputType = cast<RankedTensorType>(linear.getInput().getType());
  Type element = head.losses.front().getType().getElementType();
  int64_t width = inputType.getShape().back();
  int64_t rows = inputType.getNumElements() / width;
  int64_t chunks = rows / chunk, rest = rows % chunk, bulk = rows - rest;

  Value x = gb.reshape(linear.getInput(), {rows, width});
  Value t = gb.reshape(head.losses.front().getTargets(), {rows});
  Value g = head.grad ? head.grad.getGrad() : Value();
  bool gradPerRow = g && GradBuilder::type(g).getRank() > 0;
  if (gradPerRow)
    g = gb.reshape(g, {rows});
  auto part = [&](Value value, int64_t start, int64_t size) -> Value {
    if (size == rows)
      return value;
    return SliceOp::create(b, loc, value, 0, start, size);
  };
  auto stacked = [&](Value value) {
    SmallVector<int64_t> shape(GradBuilder::type(value).getShape());
    shape[0] = chunk;
    shape.insert(shape.begin(), chunks);
    return gb.reshape(part(value, 0, bulk), shape);
  };

  // Carried: each summed loss, then the weight's gradient. Collected: each loss
  // by row, then the input's gradient.
  SmallVector<Value> carries, slices = {stacked(x), stacked(t)};
  SmallVector<Type> collected;
  auto isSummed = [](CrossEntropyOp loss) {
    return loss.getReduction() != LossReduction::None;
  };
  for (CrossEntropyOp loss : head.losses) {
    if (isSummed(loss))
      carries.push_back(gb.zeros(RankedTensorType::get({}, element)));
    else
      collected.push_back(RankedTensorType::get({chunk}, element));
  }
  if (!head.weightGrads.empty())
    carries.push_back(gb.zeros(head.weightGrads.front().getType()));
  if (!head.inputGrads.empty())
    collected.push_back(RankedTensorType::get(
        {chunk, width}, head.inputGrads.front().getType().getElementType()));
  if (gradPerRow)
    slices.push_back(stacked(g));
  auto stack = StackOp::create(b, loc, "loss_head", 0, chunks,
                               /*reverse=*/false, carries, slices, collected);
  {
    OpBuilder inner = OpBuilder::atBlockEnd(stack.getBodyBlock());
    GradBuilder body(inner, loc);
    Piece piece =
        buildPiece(inner, head, stack.getSliceArg(0), stack.getSliceArg(1),
                   gradPerRow ? Value(stack.getSliceArg(2)) : g);
    SmallVector<Value> next, out;
    for (auto [loss, value] : llvm::zip(head.losses, piece.losses)) {
      if (isSummed(loss))
        next.push_back(body.add(stack.getCarryArg(next.size()), value));
      else
        out.push_back(value);
    }
    if (piece.weightGrad)
      next.push_back(
          body.add(stack.getCarryArg(next.size()), piece.weightGrad));
    if (piece.inputGrad)
      out.push_back(piece.inputGrad);
    llvm::append_range(next, out);
    YieldOp::create(inner, loc, next);
  }

  // What does not fill a chunk follows, in the same order of additions.
  Piece last;
  if (rest)
    last = buildPiece(b, head, part(x, bulk, rest), part(t, bulk, rest),
                      gradPerRow ? part(g, bulk, rest) : g);
  unsigned carry = 0, collection = stack.getNumCarries();
  auto sum = [&](Value more) {
    Value total = stack.getResult(carry++);
    return rest ? gb.add(total, more) : total;
  };
  auto joined = [&](Value more, ArrayRef<int64_t> shape) {
    SmallVector<int64_t> flat(
        GradBuilder::type(stack.getResult(collection)).getShape().drop_front());
    flat[0] = bulk;
    Value all = gb.reshape(stack.getResult(collection++), flat);
    if (rest)
      all = ConcatOp::create(b, loc, 0, ValueRange{all, more});
    return gb.reshape(all, shape);
  };
  for (auto [i, loss] : llvm::enumerate(head.losses)) {
    Value more = rest ? last.losses[i] : Value();
    Value value;
    if (!isSummed(loss)) {
      value = joined(more, loss.getType().getShape());
    } else {
      value = sum(more);
      if (loss.getReduction() == LossReduction::Mean) {
        Value ignored = gb.scalar(double(int64_t(loss.getIgnoreIndex())), t);
        Value counted =
            gb.cast(gb.compare(ComparePredicate::NE, t, ignored), element);
        value = gb.div(value, gb.reduceSum(counted, {0}, false));
      }
    }
    loss.replaceAllUsesWith(value);
  }
  if (!head.weightGrads.empty()) {
    Value dw = sum(last.weightGrad);
    for (MatmulOp product : head.weightGrads)
      product.replaceAllUsesWith(dw);
  }
  if (!head.inputGrads.empty()) {
    Value dx = joined(last.inputGrad, {rows, width});
    for (MatmulOp product : head.inputGrads)
      product.replaceAllUsesWith(dx);
  }
  for (MatmulOp product : head.weightGrads)
    product.erase();
  for (MatmulOp product : head.inputGrads)
    product.erase();
  for (ReshapeOp reshape : llvm::reverse(head.reshapes))
    reshape.erase();
  if (head.grad)
    head.grad.erase();
  for (CrossEntropyOp loss : head.losses)
    loss.erase();
  linear.erase();
}

namespace {
struct ChunkLossHead : blutrain::impl::ChunkLossHeadPassBase<ChunkLossHead> {
  using ChunkLossHeadPassBase::ChunkLossHeadPassBase;

  void runOnOperation() override {
    if (bytes <= 0)
      return;
    SmallVector<LinearOp> linears;
    getOperation().walk([&](LinearOp op) { linears.push_back(op); });
    for (LinearOp linear : linears) {
      RankedTensorType type = linear.getType();
      if (!type.hasStaticShape() || type.getNumElements() == 0)
        continue;
      int64_t columns = type.getShape().back();
      int64_t rows = type.getNumElements() / columns;
      int64_t rowBytes = columns * type.getElementTypeBitWidth() / 8;
      int64_t most = std::max<int64_t>(1, bytes / rowBytes);
      if (rows <= most)
        continue;
      std::optional<LossHead> head = matchHead(linear);
      if (!head || failed(hoistOperands(*head)))
        continue;
      rewriteHead(*head, chooseChunk(rows, most));
    }
  }
};
} // namespace
