//===- InstantiatePrograms.cpp - a static model for each program ----------===//
//
// Part of BluTrain, under the Apache License v2.0.
//
//===----------------------------------------------------------------------===//

#include "blutrain/Autodiff/Passes.h"

#include "Blu/BluSupport.h"

#include <numeric>

namespace blutrain {
#define GEN_PASS_DEF_INSTANTIATEPROGRAMSPASS
#include "blutrain/Autodiff/Passes.h.inc"
} // namespace blutrain

using namespace mlir;
using namespace mlir::blu;

/// Most tokens of the prompt that one call of prefill takes.
static constexpr int64_t maxPrefillChunk = 64;

/// Keeps the named results of a model and drops what only others needed.
static void keepResults(ModelOp model, ArrayRef<StringRef> names) {
  llvm::BitVector dropped(model.getResultTypes().size());
  for (unsigned i = 0, e = dropped.size(); i < e; ++i)
    dropped[i] = !llvm::is_contained(names, model.getResultName(i));
  model.getTerminator()->eraseOperands(dropped);
  (void)model.eraseResults(dropped);
  // Users before what they use, so that chains go in one sweep.
  SmallVector<Operation *> ops;
  model.getBody().walk<WalkOrder::PreOrder>(
      [&](Operation *op) { ops.push_back(op); });
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
  llvm::BitVector unused(model.getNumArguments());
  for (BlockArgument argument : model.getArguments())
    unused[argument.getArgNumber()] = argument.use_empty();
  (void)model.eraseArguments(unused);
}

/// Without a backward pass nothing is recomputed, and a checkpoint region is
/// what it holds.
static void inlineCheckpoints(ModelOp model) {
  model.getBody().walk([](CheckpointOp checkpoint) {
    YieldOp yield = checkpoint.getYield();
    checkpoint.replaceAllUsesWith(yield.getValues());
    yield.erase();
    checkpoint->getBlock()->getOperations().splice(
        Block::iterator(checkpoint),
        checkpoint.getBodyBlock()->getOperations());
    checkpoint.erase();
  });
}

/// Replaces unknown dims of the arguments, and what follows from them. In
/// generation positions go up to `context`, which is 0 otherwise.
static LogicalResult specialize(ModelOp model, int64_t batch, int64_t seq,
                                int64_t context) {
  SmallVector<Type> arguments, results;
  for (BlockArgument argument : model.getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    SmallVector<int64_t> shape(type.getShape());
    for (auto [dim, extent] : llvm::enumerate(shape)) {
      if (!ShapedType::isDynamic(extent))
        continue;
      int64_t known = dim == 0 ? batch : dim == 1 ? seq : 0;
      if (known <= 0) {
        InFlightDiagnostic diag =
            model.emitError()
            << "argument '" << model.getArgumentName(argument.getArgNumber())
            << "' of type " << type << " has an unknown dim " << dim;
        if (dim == 0)
          diag << ", expected --batch";
        else if (dim == 1)
          diag << ", expected --seq";
        return diag;
      }
      extent = known;
    }
    argument.setType(RankedTensorType::get(shape, type.getElementType()));
    arguments.push_back(argument.getType());
  }
  if (failed(refineTypes(model.getBody())))
    return failure();
  WalkResult walk = model.getBody().walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      if (!cast<ShapedType>(type).hasStaticShape()) {
        op->emitOpError() << "result of type " << type
                          << " still has an unknown dim after --batch and "
                             "--seq are applied";
        return WalkResult::interrupt();
      }
    // A sequence longer than the table of positions would read past its end.
    if (auto embedding = dyn_cast<EmbeddingOp>(op))
      if (auto positions = embedding.getIds().getDefiningOp<PositionsOp>()) {
        int64_t length = positions.getType().getDimSize(0);
        int64_t rows = embedding.getTable().getType().getDimSize(0);
        if (std::max(length, context) > rows) {
          op->emitOpError()
              << "takes " << std::max(length, context)
              << " positions from a table of " << rows << " rows, expected "
              << (context ? "a 'blu.context'" : "--seq") << " of at most "
              << rows;
          return WalkResult::interrupt();
        }
      }
    return WalkResult::advance();
  });
  if (walk.wasInterrupted())
    return failure();
  llvm::append_range(results, model.getTerminator()->getOperandTypes());
  model.setFunctionType(
      FunctionType::get(model.getContext(), arguments, results));
  return success();
}

/// Whether the model can run token by token over a cache: attention is causal,
/// at most one stack is around it, and its lse is not used.
static bool canGenerate(ModelOp model) {
  auto tokens = model.findArgument("tokens");
  if (!tokens || !model.findResult("logits"))
    return false;
  auto type = cast<RankedTensorType>(model.getArgumentTypes()[*tokens]);
  if (type.getRank() != 2 || !type.isDynamicDim(0) || !type.isDynamicDim(1))
    return false;
  return !model.getBody()
              .walk([](AttentionOp op) {
                auto stack = op->getParentOfType<StackOp>();
                bool isNested = stack && stack->getParentOfType<StackOp>();
                return op.getCausal() && !isNested && op.getLse().use_empty()
                           ? WalkResult::advance()
                           : WalkResult::interrupt();
              })
              .wasInterrupted();
}

namespace {
struct InstantiatePrograms
    : blutrain::impl::InstantiateProgramsPassBase<InstantiatePrograms> {
  using InstantiateProgramsPassBase::InstantiateProgramsPassBase;

  void runOnOperation() override {
    SmallVector<ModelOp> models(getOperation().getOps<ModelOp>());
    if (models.size() != 1) {
      getOperation().emitError()
          << "has " << models.size() << " models, expected one 'blu.model'";
      return signalPassFailure();
    }
    ModelOp model = models.front();
    if (!model.findResult("loss")) {
      model.emitOpError("has no result 'loss' to train on");
      return signalPassFailure();
    }
    int64_t context = 0;
    if (Attribute value = model->getAttr("blu.context")) {
      auto number = dyn_cast<IntegerAttr>(value);
      if (!number || number.getInt() < 1) {
        model.emitOpError() << "attribute 'blu.context' is " << value
                            << ", expected a positive integer";
        return signalPassFailure();
      }
      context = number.getInt();
    }
    if (failed(addProgram(model, Program::Train, {"loss"}, batch, seq)))
      return signalPassFailure();
    if (!trainOnly) {
      // Logits of a classifier are few, those of a language model are not.
      SmallVector<StringRef> results = {"loss", "token_loss"};
      if (auto logits = model.findResult("logits"))
        if (cast<RankedTensorType>(model.getResultTypes()[*logits]).getRank() ==
            2)
          results.push_back("logits");
      if (failed(addProgram(model, Program::Eval, results, batch, seq)))
        return signalPassFailure();
      if (context && canGenerate(model)) {
        int64_t chunk = std::gcd(context, maxPrefillChunk);
        if (failed(addProgram(model, Program::Prefill, {"logits"}, 1, chunk,
                              context)) ||
            failed(
                addProgram(model, Program::Decode, {"logits"}, 1, 1, context)))
          return signalPassFailure();
      }
    }
    model.erase();
  }

  LogicalResult addProgram(ModelOp model, Program program,
                           ArrayRef<StringRef> results, int64_t batchSize,
                           int64_t length, int64_t context = 0) {
    OpBuilder b(model);
    auto copy = cast<ModelOp>(b.clone(*model));
    copy.setSymName(stringifyProgram(program));
    copy->setAttr("blu.program", ProgramAttr::get(&getContext(), program));
    keepResults(copy, results);
    if (program != Program::Train)
      inlineCheckpoints(copy);
    if (failed(specialize(copy, batchSize, length, context))) {
      copy.erase();
      return failure();
    }
    // What the arguments say counts, wherever it came from.
    int64_t dims[2] = {batchSize, 0};
    for (Type type : copy.getArgumentTypes()) {
      auto tensor = cast<RankedTensorType>(type);
      bool isTokens =
          tensor.getRank() == 2 && tensor.getElementType().isInteger();
      if (tensor.getRank() > 0)
        dims[0] = tensor.getDimSize(0);
      if (isTokens)
        dims[1] = tensor.getDimSize(1);
    }
    copy->setAttr(
        "blurt.entry",
        b.getDictionaryAttr(
            {b.getNamedAttr("batch", b.getI64IntegerAttr(dims[0])),
             b.getNamedAttr("seq", b.getI64IntegerAttr(dims[1])),
             b.getNamedAttr("microbatches", b.getI64IntegerAttr(1))}));
    return success();
  }
};
} // namespace
